"""The data sheet counts what is there, and says how far one gets without a model."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from krisis import SuiteConfig
from krisis.data.table.check import check_suite
from krisis.errors import InvalidFile, UserError
from krisis.verbs.info.data_command import app

HEADER = "part,x,y,colour,site,label"


def write(folder: Path, rows: list[str], **changes: Any) -> Path:
    (folder / "t.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    suite: dict[str, Any] = {
        "suite": "table",
        "name": "small",
        "source": "t.csv",
        "split": {"column": "part", "use": "test", "train": "train"},
        "tasks": {
            "main": {
                "question": "Is it so?",
                "label": {"column": "label"},
                "answers": {0: "no", 1: "yes"},
                "deferral": {"when": {"no_x": "x is null", "red": "colour = 'red'"}},
                "features": ["x", "y", "colour"],
            }
        },
        "features": {"y": {"plausible": [0, 50]}},
        "groups": ["site"],
        **changes,
    }
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(suite), encoding="utf-8")
    return file


def sheet_of(file: Path) -> dict[str, Any]:
    return check_suite(file, SuiteConfig()).sheet


BY_HAND = [
    "train,1,5,red,a,0",
    "train,2,9,blue,a,0",
    "train,3,5,blue,a,0",
    "train,8,9,red,a,1",
    "train,9,5,blue,a,1",
    "test,1,60,red,a,0",
    "test,7,9,blue,b,1",
    "test,,5,blue,b,1",
    "test,2,9,red,a,1",
]


def test_counts_and_shortcuts_by_hand(tmp_path):
    sheet = sheet_of(write(tmp_path, BY_HAND))
    assert sheet["n_rows"] == 9
    missing = {n: c["n_missing"] for n, c in sheet["columns"].items() if c["n_missing"]}
    assert missing == {"x": 1}
    assert {n: c["n_implausible"] for n, c in sheet["columns"].items() if c["n_implausible"]} == {
        "y": 1
    }
    task = sheet["tasks"]["main"]
    assert (task["n_evaluated"], task["n_training"], task["n_left_out"]) == (4, 5, 0)
    assert task["classes"] == {"0": 1, "1": 3}
    # Rows 6 and 9 are red, row 8 lacks x, row 6 is implausible as well.
    assert task["deferral"] == {"no_x": 1, "red": 2, "implausible_value": 1}
    assert task["n_deferred"] == 3
    assert task["groups"] == {"site": {"a": 2, "b": 2}}
    always, missing_alone, best = task["shortcuts"]
    # Learned: 0 is most frequent; nothing is missing; x divides at 5.5 without error, and of the
    # cases to evaluate 1 → 0 is right, 7 → 1 is right, missing → 0 (the rest) and 2 → 0 are wrong.
    assert always["accuracy"] == 0.25
    assert missing_alone["accuracy"] == 0.25
    assert (best["accuracy"], best["rule"]) == (0.5, "x above or below 5.5")
    assert not task["saturated"]


def most_frequent(labels: list[int]) -> int:
    return min(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))[0]


def accuracy(key, fit, judged) -> float:
    """Judge the most frequent label of each key, in plain Python."""
    groups: dict[Any, list[int]] = {}
    for row in fit:
        groups.setdefault(key(row), []).append(row["label"])
    usual = most_frequent([row["label"] for row in fit])
    guess = {k: most_frequent(v) for k, v in groups.items()}
    return sum(guess.get(key(row), usual) == row["label"] for row in judged) / len(judged)


@pytest.mark.parametrize("seed", range(2))
def test_shortcuts_agree_with_a_search_over_every_limit(tmp_path, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(120):
        label = rng.randint(0, 2 if seed % 2 else 1)
        x = None if rng.random() < 0.1 + 0.2 * label else rng.randint(0, 6) + label
        row = {"x": x, "y": rng.randint(0, 50), "colour": rng.choice(["red", "blue"])}
        rows.append({**row, "label": label, "part": rng.choice(["train", "test"])})
    lines = [
        f"{r['part']},{'' if r['x'] is None else r['x']},{r['y']},{r['colour']},a,{r['label']}"
        for r in rows
    ]
    file = write(tmp_path, lines)
    content = yaml.safe_load(file.read_text())
    content["tasks"]["main"]["answers"] = {0: "a", 1: "b", 2: "c"}
    file.write_text(yaml.safe_dump(content))
    fit = [r for r in rows if r["part"] == "train"]
    judged = [r for r in rows if r["part"] == "test"]

    def above(name, limit):
        return lambda row: None if row[name] is None else row[name] > limit

    keys = {"each value of colour": lambda row: row["colour"]}
    for name in ("x", "y"):
        given = sorted({row[name] for row in fit if row[name] is not None})
        limits = [(low + high) / 2 for low, high in itertools.pairwise(given)]
        best = max(limits, key=lambda limit: (accuracy(above(name, limit), fit, fit), -limit))
        keys[f"{name} above or below {best:g}"] = above(name, best)
    always, missing_alone, found = sheet_of(file)["tasks"]["main"]["shortcuts"]
    assert always["accuracy"] == pytest.approx(accuracy(lambda row: 0, fit, judged))
    by_missing = accuracy(lambda row: row["x"] is None, fit, judged)
    assert missing_alone["accuracy"] == pytest.approx(by_missing)
    learned = {rule: accuracy(key, fit, fit) for rule, key in keys.items()}
    assert learned[found["rule"]] == max(learned.values())
    assert found["accuracy"] == pytest.approx(accuracy(keys[found["rule"]], fit, judged))


def test_a_saturated_task_says_so(tmp_path):
    rows = [f"{'train' if i % 2 else 'test'},{i},{i % 7},blue,a,{int(i >= 30)}" for i in range(60)]
    file = write(tmp_path, rows)
    assert sheet_of(file)["tasks"]["main"]["saturated"]
    printed = CliRunner().invoke(app, ["check", str(file)]).output
    assert "SATURATED" in printed
    assert "x above or below 30" in printed


def test_without_training_rows_one_half_is_learned_and_the_other_judged(tmp_path):
    rows = [f"test,{i},{i % 7},blue,a,{int(i >= 100)}" for i in range(200)]
    file = write(tmp_path, rows, split=None)
    task = sheet_of(file)["tasks"]["main"]
    assert "half of the clusters" in task["shortcuts_judged"]
    assert task["shortcuts"][2]["accuracy"] > 0.97
    n_learned, n_judged = (int(word.rstrip("),")) for word in task["shortcuts_judged"].split()
                           if word.rstrip("),").isdigit())  # fmt: skip
    assert n_learned + n_judged == 200
    assert abs(n_learned - n_judged) < 60


def test_the_command_prints_the_sheet_its_json_and_the_first_prompt(tmp_path):
    file = write(tmp_path, BY_HAND)
    done = CliRunner().invoke(app, ["check", str(file)], catch_exceptions=False)
    assert done.exit_code == 0
    for words in ("rows       9", "missing    x: 1 (11.1%)", "no_x: 1 (25.0%)", "site: a: 2, b: 2",
                  "y: 1 outside 0 to 50", "leaks      none found", "Is it so?"):  # fmt: skip
        assert words in done.output
    read = json.loads(CliRunner().invoke(app, ["check", str(file), "--format", "json"]).output)
    assert read["tasks"] == sheet_of(file)["tasks"]
    assert "Findings:" in read["first_prompt"]["main"]
    assert len(done.output.splitlines()) < 60


def test_every_leak_is_printed_before_the_command_fails(tmp_path):
    file = write(tmp_path, BY_HAND)
    content = yaml.safe_load(file.read_text())
    content["tasks"]["main"]["features"].append("label")
    file.write_text(yaml.safe_dump(content))
    done = CliRunner().invoke(app, ["check", str(file)])
    assert isinstance(done.exception, InvalidFile)
    assert "LEAK" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.yaml"], "none.yaml"),
        (["t.csv"], "krisis init"),
        (["small.yaml", "--task", "mian"], "'mian'"),
        (["run.yaml"], "suite: table"),
    ],
)
def test_what_is_not_checked_is_told_in_one_sentence(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, BY_HAND)
    Path("run.yaml").write_text("a: 1\n")
    done = CliRunner().invoke(app, ["check", *arguments])
    assert isinstance(done.exception, UserError), done.output
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)


def test_ids_that_look_like_medical_record_numbers_are_named(tmp_path: Path) -> None:
    rows = [f"test,{i},5,blue,{4_000_000 + i * 7919},{i % 2}" for i in range(20)]
    sentence = "record_id: the column 'site' looks like medical record numbers"
    told = [
        one.sentence
        for one in check_suite(
            write(tmp_path, rows, record_id="site", groups=[]), SuiteConfig()
        ).problems
    ]
    assert sum(sentence in one for one in told) == 1
    rows = [f"test,{i},5,blue,case-{i},{i % 2}" for i in range(20)]
    told = [
        one.sentence
        for one in check_suite(
            write(tmp_path, rows, record_id="site", groups=[]), SuiteConfig()
        ).problems
    ]
    assert not any("medical record" in one for one in told)
