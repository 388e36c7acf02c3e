"""One reader of YAML: what YAML would drop, expand or crash on is refused in one sentence."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.invented_runs import invented_rows, result_of

from krisis import yaml_values
from krisis.errors import InvalidFile
from krisis.yaml_values import parse_yaml, read_mapping

# Kind of file → its text, with a key twice, and the words that read it.
REPEATED = {
    "gate": (
        "require: accuracy >= 0.9\nrequire: accuracy >= 0.1\n",
        ("check", "run.json", "--gate"),
    ),
    "settings": ("suite: ckd\nmodel: majority\nmodel: guideline\n", ("run", "--config")),
    "prices": (
        "m: {input: 1, output: 2}\n\nm: {input: 0, output: 0}\n",
        ("run", "phq8", "--model", "lexicon", "--max-cost", "1", "--prices"),
    ),
    "costs": ("costs: {0: {1: 5}}\nprice: 1\nprice: 2\n", ("decide", "run.json", "--costs")),
    "suite": ("suite: table\nname: x\nname: y\n", ("data", "check")),
    "plan": ("suite: ckd\nmodels: [majority]\nmodels: [guideline]\n", ("run", "--config")),
    "columns": (
        "truth: a\nanswer: b\ntruth: c\n",
        ("import", "rows.csv", "--as", "csv", "--columns"),
    ),
}


@pytest.mark.parametrize("kind", REPEATED)
def test_a_key_written_twice_is_refused_with_its_line_in_every_kind_of_file(
    kind: str, tmp_path: Path
) -> None:
    text, words = REPEATED[kind]
    result_of(invented_rows(20)).save(tmp_path / "run.json")
    (tmp_path / "rows.csv").write_text("a,b,c\n1,1,0\n")
    (tmp_path / "given.yaml").write_text(text)
    done = krisis(*words, "given.yaml", cwd=tmp_path)
    line = 2 if kind == "gate" else 3
    assert done.returncode == 2, done
    assert f"given.yaml is not YAML: line {line}: the key" in done.stderr
    assert "is written twice" in done.stderr
    assert done.stderr.count("\n") == 1


def test_two_spellings_of_one_entry_of_a_gate_are_refused(tmp_path: Path) -> None:
    result_of(invented_rows(20)).save(tmp_path / "run.json")
    text = "no-worse: accuracy by 0.1\nno_worse: accuracy by 0.9\nagainst: run.json\n"
    (tmp_path / "gate.yaml").write_text(text)
    done = krisis("check", "run.json", "--gate", "gate.yaml", cwd=tmp_path)
    assert (done.returncode, "no_worse is given twice" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("a=1", "a=2"), "--suite-option a is given twice"),
        (("a-b=1", "a_b=2"), "--suite-option a_b is given twice"),
        (("a=[1",), "is not YAML"),
        (("a={b: 1, b: 2}",), "the key 'b' is written twice"),
    ],
)
def test_an_option_with_a_value_is_read_with_the_same_care(
    given: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    words = [word for one in given for word in ("--suite-option", one)]
    done = krisis("run", "phq8", "--model", "lexicon", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "line 2: the key 'a' is written twice"),
        ("a: 1\n'a': 2", "line 2: the key 'a' is written twice"),
        ("1: a\n1.0: b", "line 2: the key '1.0' is written twice"),
        ("1: a\n'1': b", "line 2: the key '1' is written twice"),
        ("x:\n  - {deep: 1, deep: 2}", "line 2: the key 'deep' is written twice"),
        ("[a, b]: 1", "line 1: a key must be a word or a number"),
        ("a: [1", "line 1, column 6: "),
        ("when: 2024-99-99", "month must be in"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: &a\n  b: *a", "an anchor inside itself"),
        (
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n"
                for old, new in zip("abcdef", "bcdefg", strict=True)
            ),
            "more than 100000 values",
        ),
    ],
)
def test_what_yaml_would_drop_or_crash_on_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidFile, match=r"^x\.yaml ") as caught:
        parse_yaml(text, "x.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_anchors_and_merged_keys_are_read() -> None:
    text = "base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3"
    assert parse_yaml(text, "x")["other"] == {"a": 1, "b": 3}


def test_a_large_file_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_values, "_MOST_BYTES", 1_000_000)
    path = tmp_path / "large.yaml"
    path.write_text("a: 1\n#" + "x" * 999_994)
    assert read_mapping(path, "options", option="--config") == {"a": 1}
    path.write_text("a: 1\n#" + "x" * 999_995)
    with pytest.raises(InvalidFile, match="larger than 1 MB and must hold options; check --config"):
        read_mapping(path, "options", option="--config")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff\xfe", "not text in UTF-8"), (b"- 1", "must hold options"), (None, "is a directory")],
)
def test_a_file_of_another_kind_is_one_sentence(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "given"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InvalidFile, match=said):
        read_mapping(path, "options", option="--config")


def test_nothing_else_parses_yaml() -> None:
    source = Path(yaml_values.__file__).parent
    for path in source.rglob("*.py"):
        if path.name == "yaml_values.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml":
                assert "dump" in node.attr.lower() or "represent" in node.attr.lower(), path
