"""An audit finds the group that fares worse, and the labels that readers or models dispute."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from benchmarks.audit import DOUBLED_WORLDS, NULL_WORLDS, simulate
from tests.documents import line_of, said
from tests.invented_runs import ANSWERS, TASK
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.decisions.audit import (
    Audit,
    disputed_labels,
    label_agreement,
)
from krisis.decisions.audit_groups import Group, GroupAudit, GroupOptions, audit_groups
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.threshold_in_force import RiskBound
from krisis.errors import InvalidValue, MissingExtra, UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems
from krisis.pages.audit import flag_line, group_table
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import read_items

Draw = np.random.Generator
# No threshold is certified at so low a risk: every answer counts.
ALL_ANSWERS = RiskBound(risk=1e-5)
QUICK = GroupOptions(n_draws=499, bound=ALL_ANSWERS)


def rows_of(
    n: int, change: Callable[[int, Draw], dict[str, Any]], size: int = 1
) -> list[EvaluationResult]:
    """Return rows that are right 9 times in 10, surer when they are; ``change`` edits each."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(n):
        wrong = i % 10 == 0
        edits = {
            "prediction": int(wrong),
            "ground_truth": 0,
            "confidence": round(
                float(rng.uniform(0.5, 0.8) if wrong else rng.uniform(0.6, 0.99)), 3
            ),
            "metadata": {"site": "abcdef"[i // 10 % 6]},
            "record_id": f"r{i}",
            "cluster_id": f"p{i // size}",
        }
        found.append(EvaluationResult(**(edits | change(i, rng))))
    return found


def saved(folder: Path, rows: Sequence[EvaluationResult], model: str = "m") -> Path:
    path = folder / f"{model}.json"
    facts = {"task_facts": {**TASK, "groups": {"site": "site"}}}
    about = {"suite": "clinic", "task": "triage"}
    BenchmarkResult(Rows(rows, ANSWERS), {}, about, model, facts).save(path)
    return path


def group_of(audit: GroupAudit, name: str) -> Group:
    return next(group for group in audit.groups if group.name == name)


def worse_in_a(i: int, rng: Draw) -> dict[str, Any]:
    return {"prediction": 1} if i // 10 % 6 == 0 and i % 2 else {}


def test_a_group_that_fares_worse_is_flagged_and_no_other(tmp_path: Path) -> None:
    run = read_items(saved(tmp_path, rows_of(400, worse_in_a)))
    audit = audit_groups(run, QUICK)
    flagged = {group.name: group.flags for group in audit.groups if group.flags}
    assert flagged == {"site_a": ["higher risk than the rest"]}
    found = group_of(audit, "site_a")
    assert (found.n_patients, found.n_rows) == (70, 70)
    risk = found.measures["risk"]
    assert risk.value == pytest.approx(0.6)
    assert risk.gap == pytest.approx(0.5)
    assert risk.gap_low < 0.5 < risk.gap_high
    assert risk.p == 2 / 500  # none of 499 exchanges reaches it
    assert audit.largest("risk") is found
    assert audit.n_tests == 12
    assert not audit.within_patients
    (flag,) = flag_line(audit).figures
    assert flag.estimate.value == risk.value
    assert str(flag).startswith("site: a: risk 60 % (")
    assert "higher than in the rest (+50.0 points; p " in str(flag)
    assert dumps(audit_groups(run, QUICK).to_json()) == dumps(audit.to_json())


def test_more_groups_widen_the_gaps_and_lower_the_power(tmp_path: Path) -> None:
    rows = rows_of(
        400, lambda i, rng: {"metadata": {"site": "ab"[i // 10 % 2], "day": "abcdef"[i // 10 % 6]}}
    )
    run = read_items(saved(tmp_path, rows))
    alone, among = (audit_groups(run, replace(QUICK, by=by)) for by in (["site"], ["site", "day"]))
    assert len(among.groups) > len(alone.groups)
    one, other = group_of(alone, "site_a"), group_of(among, "site_a")
    widths = [g.measures["risk"].gap_high - g.measures["risk"].gap_low for g in (one, other)]
    assert widths[0] < widths[1]
    assert one.power_doubled > other.power_doubled


def surer_when_wrong(i: int, rng: Draw) -> dict[str, Any]:
    at_a = i // 10 % 6 == 0
    return {"confidence": 1.0} if at_a and i % 10 == 0 else {}


def test_a_risk_that_rises_as_coverage_falls_is_flagged(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(600, surer_when_wrong))), QUICK)
    flagged = {group.name: group.flags for group in audit.groups if group.flags}
    assert flagged == {"site_a": ["risk rises as coverage falls"]}
    tests = group_of(audit, "site_a").tests
    assert tests.rise == pytest.approx(0.1 * 0.9 * 0.5)  # every wrong answer above every right one
    assert tests.risk_of_surest_half == pytest.approx(0.2)
    curve = [p["risk"] for p in audit.curve if p["group"] == "site_a"]
    assert curve[0] > curve[-1] == pytest.approx(0.1)


def half_abstained(i: int, rng: Draw) -> dict[str, Any]:
    due = i % 4 == 0
    site = {"site": "tiny" if i < 15 else "ab"[i % 2], "should_abstain": due}
    gone = {"abstained": True, "prediction": None} if due and i % 8 == 0 else {}
    return {"metadata": site} | gone


def test_small_groups_are_named_and_figures_are_those_of_the_rows(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(400, half_abstained))), QUICK)
    tiny = group_of(audit, "site_tiny")
    assert not tiny.measures
    assert not tiny.flags
    assert "fewer than 20 patients" in tiny.reason
    assert "site: tiny" not in [row[0] for row in group_table(audit).rows]
    words = said(Audit(audit).document())
    assert "site: tiny: fewer than 20 patients" in words
    assert not any(point["group"] == "site_tiny" for point in audit.curve)
    whole = audit.overall
    assert whole["coverage"].value == pytest.approx(350 / 400)
    assert whole["deferral_sensitivity"].value == pytest.approx(0.5)
    assert whole["deferral_specificity"].value == 1.0
    assert group_of(audit, "site_b").measures["deferral_sensitivity"].reason == (
        "no row is to be deferred"
    )
    # i % 10 == 0 is wrong and i % 8 == 0 abstained: multiples of 40 are gone.
    assert whole["risk"].value == pytest.approx(30 / 350)


def test_a_threshold_or_a_coverage_moves_every_figure(tmp_path: Path) -> None:
    run = read_items(saved(tmp_path, rows_of(400, lambda i, rng: {})))
    by_coverage = audit_groups(run, replace(QUICK, coverage=0.5))
    assert by_coverage.overall["coverage"].value == pytest.approx(0.5, abs=0.01)
    assert by_coverage.threshold is not None
    same = audit_groups(run, replace(QUICK, threshold=by_coverage.threshold))
    assert dumps(same.to_json()) == dumps(by_coverage.to_json())
    accepted = run.table.confidence >= by_coverage.threshold
    assert same.overall["risk"].value == pytest.approx(1 - run.table.correct[accepted].mean())


def eight_items(i: int, rng: Draw) -> dict[str, Any]:
    item = i % 8
    wrong = (item == 0 and i % 3 > 0) or i % 40 == 9
    return {"prediction": int(wrong), "metadata": {"site": f"i{item}"}}


def test_groups_within_patients_are_compared_within_them(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(480, eight_items, size=8))), QUICK)
    assert list(audit.within_patients) == ["site"]
    assert [group.name for group in audit.groups if group.flags] == ["site_i0"]
    assert group_of(audit, "site_i0").n_patients == 60


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i, rng: {"prediction": 0}, "no group is flagged"),
        (lambda i, rng: {"confidence": None}, "no curve"),
        (lambda i, rng: {"metadata": {}}, "all rows are in one group (unknown_site)"),
        (lambda i, rng: {"metadata": {"site": "x", "age": i}}, "the rows have: age, site"),
        (lambda i, rng: {"metadata": {"site": i}} if i < 3 else {}, "site: 1: fewer than 20"),
    ],
    ids=["all right", "no confidence", "no metadata", "one group", "one member"],
)
def test_odd_runs_are_audited(
    tmp_path: Path, change: Callable[[int, Draw], dict[str, Any]], said: str
) -> None:
    path = saved(tmp_path, rows_of(150, change))
    shown = CliRunner().invoke(app, ["audit", str(path)])
    assert shown.exit_code == 0, shown.output
    assert said in shown.output


def test_numbers_are_divided_where_asked(tmp_path: Path) -> None:
    path = saved(tmp_path, rows_of(300, lambda i, rng: {"metadata": {"age": i / 3}}))
    audit = audit_groups(read_items(path), replace(QUICK, by=["age:40:60"]))
    assert [(g.name, g.n_rows) for g in audit.groups] == [
        ("age_<40", 120),
        ("age_40–<60", 60),
        ("age_≥60", 120),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "age"], "--by age:40:60"),
        (["--by", "sit"], "did you mean 'site'"),
        (["--by", "age:60:40"], "rising numbers, not '60:40'"),
        (["--by", "site:1"], "holds 'a', which is no number"),
        (["--by", "site,site"], "name every group once"),
        (["--by", "name"], "name a column with fewer"),
        (["--threshold", "0.7", "--coverage", "0.5"], "not both"),
        (["--threshold", "nan"], "must be a number"),
        (["--coverage", "1.5"], "between 0 and 1"),
        (["--confidence", "nothing"], "unknown confidence variant"),
        (["--loss", "square"], "unknown loss"),
        (["--agreement", "reader"], "unknown label column 'reader'"),
        (["--agreement", "truth"], "name one"),
        (["--agreement", "age,age"], "name every label column once"),
        (["--agreement", "part,age"], "neither a whole number nor a text"),
    ],
)
def test_what_cannot_be_audited_is_said_in_one_sentence(
    tmp_path: Path, options: list[str], said: str
) -> None:
    def change(i: int, rng: Draw) -> dict[str, Any]:
        names = {"site": "ab"[i % 2], "age": i, "name": f"n{i}", "part": i / 7}
        return {"metadata": names}

    path = saved(tmp_path, rows_of(60, change))
    found = CliRunner().invoke(app, ["audit", str(path), *options])
    assert isinstance(found.exception, UserError), found.output
    assert said in str(found.exception)


def test_names_forge_no_line_and_runs_without_scores_say_so(tmp_path: Path) -> None:
    def change(i: int, rng: Draw) -> dict[str, Any]:
        return {
            "metadata": {"site": ["a", "b\nFLAG b: worse"][i % 2], "reader": 0 if i < 60 else 1}
        }

    rows = rows_of(120, change)
    path = saved(tmp_path, [replace(row, ground_truth=int(i >= 60)) for i, row in enumerate(rows)])
    bare = [replace(row, ground_truth=int(i >= 60), confidence=None) for i, row in enumerate(rows)]
    options = ["--against", str(saved(tmp_path, bare, "bare")), "--agreement", "reader"]
    found = CliRunner().invoke(app, ["audit", str(path), *options])
    assert found.exit_code == 0, found.output
    assert not [line for line in found.output.splitlines() if line.startswith("FLAG")]
    assert "b FLAG b: worse" in found.output
    assert "Disputed labels cannot be listed: " in found.output
    assert "1.000 (no interval: " in found.output


def test_a_run_without_answers_is_refused(tmp_path: Path) -> None:
    gone = {"abstained": True, "prediction": None}
    run = read_items(saved(tmp_path, rows_of(30, lambda i, rng: gone)))
    with pytest.raises(InvalidValue, match="none of the 30 scored rows"):
        audit_groups(run)


def reader(i: int, rng: Draw) -> dict[str, Any]:
    truth = i % 2
    second = truth if i % 5 else None
    third = 1 - truth if i % 6 == 0 else str(truth)
    names = {"site": "ab"[i % 3 == 0], "first": truth, "second": second, "third": third}
    return {"ground_truth": truth, "prediction": truth ^ (i % 10 == 0), "metadata": names}


def test_labels_that_confident_runs_dispute_are_listed(tmp_path: Path) -> None:
    rows = rows_of(120, reader)
    sure = [replace(row, confidence=0.99 if i in (10, 20) else 0.5) for i, row in enumerate(rows)]
    other = [
        replace(row, prediction=row.ground_truth) if i == 50 else row for i, row in enumerate(sure)
    ]
    unread = [replace(row, prediction=None) if i == 60 else row for i, row in enumerate(other)]
    runs = [
        read_items(saved(tmp_path, r, name))
        for r, name in ((sure, "m"), (other, "n"), (unread, "o"))
    ]
    found = disputed_labels(runs[:2], ScoreOptions())
    assert found.n_confident == 120
    disputed = {row.record_id: row for row in found.rows}
    assert set(disputed) == {f"r{i}" for i in range(0, 120, 10) if i != 50}
    assert (disputed["r10"].label, disputed["r10"].answer, disputed["r10"].confidence) == (
        0,
        1,
        [0.99] * 2,
    )
    whole = Audit(audit_groups(runs[0], QUICK), disputed=found).document()
    assert line_of(whole, "r10") == {"record": "r10", "label": "0", "answer": "1"}
    surer = [replace(row, confidence=0.4) if i < 30 else row for i, row in enumerate(other)]
    unsure = disputed_labels([runs[0], read_items(saved(tmp_path, surer, "p"))], ScoreOptions())
    assert unsure.n_confident == 90  # the other run is not in its more confident half
    assert not {"r0", "r10", "r20"} & {row.record_id for row in unsure.rows}
    read = disputed_labels(runs, ScoreOptions())
    assert "r60" not in [row.record_id for row in read.rows]


def test_the_agreement_of_labels_is_that_of_the_package_and_by_patient(tmp_path: Path) -> None:
    rows = rows_of(120, reader)
    run = read_items(saved(tmp_path, rows))
    found = label_agreement(run, ["first", "second", "third"])
    columns = [[row.metadata[name] for row in rows] for name in ("first", "second", "third")]
    data = [[math.nan if v is None else float(v) for v in column] for column in columns]
    assert found.alpha == pytest.approx(
        krippendorff.alpha(reliability_data=data, level_of_measurement="nominal")
    )
    assert found.low < found.alpha < found.high
    assert (found.n_rows, found.n_labels) == (120, 120 * 3 - 24)
    assert found.risks["second"]["n_rows"] == 96
    assert found.risks["first"]["risk"] == pytest.approx(0.1)
    alone = label_agreement(run, ["third"])
    assert list(alone.columns) == ["truth", "third"]
    assert label_agreement(run, ["third"]) == alone
    # Four copies of the rows of every patient say no more than one.
    copies = [replace(row, record_id=f"{row.record_id}-{k}") for row in rows for k in range(4)]
    four = label_agreement(read_items(saved(tmp_path, copies, "four")), ["third"])
    assert four.high - four.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_ordered_labels_agree_by_their_order(tmp_path: Path) -> None:
    grades = [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (3, 2), (1, 2)] * 4
    rows = [
        EvaluationResult(a, a, metadata={"grade": b}, record_id=f"r{i}", cluster_id=f"p{i}")
        for i, (a, b) in enumerate(grades)
    ]
    facts = {**TASK, "answers": [[a, str(a)] for a in range(4)], "positive": None}
    alphas = {}
    for ordered in (True, False):
        path = tmp_path / f"{ordered}.json"
        BenchmarkResult(
            rows, {}, {"task": "grade"}, "m", {"task_facts": {**facts, "ordered": ordered}}
        ).save(path)
        found = label_agreement(read_items(path), ["grade"])
        assert found.ordered is ordered
        level = "ordinal" if ordered else "nominal"
        data = np.array(grades, dtype=float).T
        expected = krippendorff.alpha(reliability_data=data, level_of_measurement=level)
        assert found.alpha == pytest.approx(expected)
        alphas[ordered] = found.alpha
    assert alphas[True] > alphas[False] + 0.1


def test_agreement_without_its_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "krippendorff", None)
    run = read_items(saved(tmp_path, rows_of(30, reader)))
    with pytest.raises(MissingExtra, match=r"needs the extra 'agreement'"):
        label_agreement(run, ["third"])


def test_labels_that_are_all_the_same_have_no_agreement(tmp_path: Path) -> None:
    run = read_items(saved(tmp_path, rows_of(30, lambda i, rng: {"metadata": {"other": 0}})))
    found = label_agreement(run, ["other"])
    assert math.isnan(found.alpha)
    whole = Audit(audit_groups(run, QUICK), agreement=found).document()
    assert "undefined, every label is the same" in said(whole)


def test_runs_on_other_records_are_refused(tmp_path: Path) -> None:
    rows = rows_of(30, lambda i, rng: {})
    run = read_items(saved(tmp_path, rows))
    cases: dict[str, RunItems] = {
        "a.json shares no record_id": read_items(
            saved(tmp_path, [replace(row, record_id=f"x{row.record_id}") for row in rows], "a")
        ),
        "b.json shares no record_id": read_items(
            saved(tmp_path, [replace(row, record_id="") for row in rows], "b")
        ),
        "another true answer": read_items(
            saved(tmp_path, [replace(row, ground_truth=1) for row in rows], "c")
        ),
        "answered by every run": read_items(
            saved(tmp_path, [replace(r, abstained=True, prediction=None) for r in rows], "d")
        ),
    }
    for words, other in cases.items():
        with pytest.raises(InvalidValue, match=words):
            disputed_labels([run, other], ScoreOptions())


@pytest.mark.slow
@pytest.mark.parametrize("world", NULL_WORLDS, ids=lambda world: world.name)
def test_hardly_any_run_without_a_difference_is_flagged(world: Any) -> None:
    n_runs = 300
    found = simulate(world, n_runs, 999)
    assert found["flagged"] <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_runs)


@pytest.mark.slow
@pytest.mark.parametrize("world", DOUBLED_WORLDS, ids=lambda world: world.name)
def test_a_doubled_risk_is_flagged_with_the_power_stated(world: Any) -> None:
    found = simulate(world, 300, 1999)
    assert abs(found["first_group"] - found["stated_power"]) < 3 * max(
        found["standard_error"], 0.02
    )
