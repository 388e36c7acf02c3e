"""Documents in every medium: CSV for programs, Markdown and LaTeX for papers, from one object."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commands import krisis
from tests.fixture_results import RESULTS
from tests.invented_runs import invented_rows, result_of

from krisis.pages.document import Cell, Column, Document, Section, Sentences, Table
from krisis.pages.latex import latex_tables, latex_text
from krisis.pages.markdown import markdown_text
from krisis.pages.media import MEDIA
from krisis.pages.number_lines import csv_text
from krisis.pages.numbers import Estimate, change

MODELS = ("openai/some_model-50 %", "own & \\free{} ~x^2 #1 $ | <b> é ≥ – ² 中", "guideline")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three runs on the same cases, whose names are hard to write."""
    made = tmp_path_factory.mktemp("tables")
    rows = invented_rows(60)
    for place, model in enumerate(MODELS):
        result_of(rows, model).save(made / f"r{place}.json")
    return made


COMMANDS = {
    "score": (
        "show",
        "r0.json",
        "-m",
        "accuracy",
        "-m",
        "risk_at_80_coverage",
        "-m",
        "not_evaluated_rate",
    ),
    "show": ("show", "r1.json"),
    "three": ("compare", "r0.json", "r1.json", "r2.json", "-m", "accuracy", "--permutations", "99"),
    "compare": ("compare", "r0.json", "r1.json", "-m", "accuracy", "--permutations", "99"),
    "selective": ("selective", "r1.json", "--bootstrap-resamples", "50"),
}


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[tuple[str, str], str]:
    """Return what every command prints in every format."""
    found = {}
    for name, words in COMMANDS.items():
        for kind in ("table", "csv", "markdown", "latex", "json"):
            asked = ("--format", kind)
            done = krisis(*words, *asked, cwd=folder)
            assert done.returncode == 0, done.stderr
            found[name, kind] = done.stdout
    return found


def one_table(
    *rows: list[Cell], title: str = "t", note: str = "", best: tuple[int, int] = (9, 9)
) -> Document:
    """Return a document with one table of a name and a figure."""
    columns = (Column("name", "name"), Column("figure", "value"))
    table = Table(columns=columns, rows=rows, note=note, best={best})
    return Document(title=title, sections=[Section(key="s", title=title, parts=[table])])


def test_equal_differences_are_one_text() -> None:
    # Both are 0.0375, a few bits apart: without rounding one is +0.037 and one +0.038.
    assert change(Estimate(0.875 - 0.8375)) == change(Estimate(0.125 - 0.0875))


@pytest.mark.parametrize("command", COMMANDS)
def test_csv_has_one_line_per_number_with_full_precision(
    command: str, printed: dict[tuple[str, str], str]
) -> None:
    lines = list(csv.DictReader(io.StringIO(printed[command, "csv"])))
    assert lines
    for line in lines:
        assert "ckd / detection" in line["document"]
        assert line["section"]
        assert line["row"]
        assert bool(line["value"]) != bool(line["text"])
        assert bool(line["low"]) == bool(line["high"]) == bool(line["level"])
    assert len({json.dumps(line) for line in lines}) == len(lines)


def test_csv_of_scores_holds_the_numbers_of_the_result(
    folder: Path, printed: dict[tuple[str, str], str]
) -> None:
    lines = list(csv.DictReader(io.StringIO(printed["show", "csv"])))
    content = json.loads((folder / "r1.json").read_text(encoding="utf-8"))
    stored = {score["key"]: score for score in content["metric_scores"].values()}
    found = {
        line["key"]: line
        for line in lines
        if line["section"] == "eight" and line["column"] == "value"
    }
    assert set(found) <= set(stored)
    assert len(found) == 8
    for key, line in found.items():
        assert float(line["value"]) == stored[key]["value"]
        assert float(line["low"]) == stored[key]["interval"]["low"]
        assert float(line["level"]) == 0.95


def test_csv_of_a_comparison_holds_differences_with_every_digit(
    folder: Path, printed: dict[tuple[str, str], str]
) -> None:
    (pair,) = json.loads(printed["compare", "json"])["pairs"]
    lines = list(csv.DictReader(io.StringIO(printed["compare", "csv"])))
    (found,) = [one for one in lines if one["key"] == "accuracy" and one["column"] == "difference"]
    assert float(found["value"]) == pair["deltas"]["accuracy"]["delta"]
    assert [float(found["low"]), float(found["high"])] == pair["deltas"]["accuracy"]["interval"]


def test_a_text_that_a_spreadsheet_would_compute_is_guarded() -> None:
    head, line = csv_text(one_table(["=1+1", -0.5], title="=t")).splitlines()
    assert head.startswith("document,section,table,key,row,column,value,low,high,level,text")
    assert line == "'=t,s,,,'=1+1,value,-0.5,,,,"


def test_why_a_number_is_missing_is_said_in_words(
    printed: dict[tuple[str, str], str],
) -> None:
    lines = list(csv.DictReader(io.StringIO(printed["score", "csv"])))
    (found,) = [
        one for one in lines if one["key"] == "not_evaluated_rate" and one["column"] == "value"
    ]
    assert (found["low"], found["level"]) == ("", "")
    assert found["value"]
    assert (
        "Not-Evaluated Rate has no interval: it describes how this run went"
        in printed["score", "markdown"]
    )


def test_the_winner_is_marked_in_every_medium() -> None:
    document = one_table(["a", 0.5], ["b", 0.7], best=(1, 1))
    marks = {
        "table": "b     *0.700",
        "markdown": "| b | **0.700** |",
        "latex": r"b & \textbf{0.700}",
        "html": '<td class="figure best"><strong>0.700</strong></td>',
    }
    for medium, mark in marks.items():
        text = MEDIA[medium](document)
        assert mark in text, medium
        assert "best, or not shown to differ from the best" in text, medium


def test_a_column_with_intervals_names_their_level_in_every_medium() -> None:
    document = one_table(["a", Estimate(0.5, 0.4, 0.6, level=0.8)], ["b", 0.1])
    for medium in ("table", "markdown", "html"):
        assert "value (80 % interval)" in MEDIA[medium](document), medium
    assert r"value (80 \% \\ interval)" in MEDIA["latex"](document)
    mixed = one_table(["a", Estimate(0.5, 0.4, 0.6, level=0.8)], ["b", Estimate(0.5, 0.4, 0.6)])
    assert "value (80 or 95 % interval)" in MEDIA["markdown"](mixed)


def test_markdown_has_the_verdict_the_sentences_and_the_facts(
    printed: dict[tuple[str, str], str],
) -> None:
    text = printed["show", "markdown"]
    assert "| Right when it answered? |" in text
    assert "figures (95 % intervals)" in text
    assert "- Cases per call: 8" in text
    said = markdown_text(
        Document(title="t", sections=[Section(key="s", title="a*b", parts=[Sentences(["1 < 2"])])])
    )
    assert said == "### t\n\n#### a&#42;b\n\n1 &#60; 2"


@pytest.mark.parametrize("command", COMMANDS)
def test_markdown_has_as_many_cells_in_every_line_whatever_a_name_holds(
    command: str, printed: dict[tuple[str, str], str]
) -> None:
    lines = printed[command, "markdown"].splitlines()
    grouped = groupby(lines, key=lambda line: line.startswith("|"))
    found = [list(block) for is_table, block in grouped if is_table]
    assert found
    for block in found:
        assert len({line.count("|") for line in block}) == 1
        assert re.fullmatch(r"\|( ---:? \|)+", block[1])
    assert "<b>" not in printed[command, "markdown"]


def check_latex(text: str) -> None:
    """Fail where LaTeX would stop: other signs, open groups, rows with too many cells."""
    assert text.isascii()
    bare = re.sub(r"\\[\\&%#$_{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "#" not in bare
    opened = re.findall(r"\\(begin|end)\{(\w+)\}", text)
    stack: list[str] = []
    for verb, name in opened:
        if verb == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    for body in re.findall(r"\\begin\{tabular\}\{(.*?)\\end\{tabular\}", text, re.DOTALL):
        head, *lines = body.split("\n")
        n_columns = len(re.findall(r"(?<![a-z\\])[lr](?=[lr@])|\}(?=[lr@])", head)) or 1
        rows = [line for line in lines if line.endswith(r" \\")]
        cells = {len(re.findall(r"(?<!\\)&", re.sub(r"\\shortstack\[.\]", "", r))) for r in rows}
        assert len(cells) == 1, cells
        assert cells.pop() + 1 >= n_columns
    comments = [line for line in text.splitlines() if re.search(r"(?<!\\)%", line)]
    assert comments == [r"% Needs \usepackage{booktabs} and \usepackage{array}."]


@pytest.mark.parametrize("command", COMMANDS)
def test_latex_is_well_formed_and_plain_ascii(
    command: str, printed: dict[tuple[str, str], str]
) -> None:
    check_latex(printed[command, "latex"])
    assert r"\toprule" in printed[command, "latex"]
    assert re.search(r"\\caption\{.*ckd / detection", printed[command, "latex"])


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40))
def test_no_text_is_a_command_of_latex(text: str) -> None:
    document = one_table([text, 0.5], [text, 3.0], title=text, note=text, best=(0, 0))
    check_latex(latex_tables(document))


def test_signs_are_written_as_latex_writes_them() -> None:
    assert latex_text("a_b & 50 % ≥ ² – é") == r"a\_b \& 50 \% $\geq$ $^{2}$ {--} \'{e}"
    assert latex_text("中") == "{[}U+4E2D{]}"
    assert latex_text("a--b") == "a{-}{-}b"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_sets_the_tables_of_every_command_and_verb(
    printed: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    signs = "".join(map(chr, range(32, 0x180))) + "".join(map(chr, range(0x2010, 0x2300)))
    hard = one_table(*([sign, 1.0] for sign in signs.split()), title="signs", note=signs)
    tables = [printed[name, "latex"] for name in COMMANDS] + [latex_tables(hard)]
    tables += [found().written("latex") for found in RESULTS.values()]
    text = "\n\\clearpage\n".join(tables)
    whole = (
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\usepackage{array}\n"
        f"\\begin{{document}}\n{text}\n\\end{{document}}\n"
    )
    (tmp_path / "tables.tex").write_text(whole, encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:].decode("latin-1")


def test_json_is_keyed_by_keys(printed: dict[tuple[str, str], str]) -> None:
    scores = json.loads(printed["score", "json"])["metric_scores"]
    assert [score["key"] for score in scores.values()] == [
        "accuracy",
        "risk_at_80_coverage",
        "not_evaluated_rate",
    ]
    assert len(json.loads(printed["three", "json"])["pairs"]) == 3
    (pair,) = json.loads(printed["compare", "json"])["pairs"]
    assert list(pair["deltas"]) == ["accuracy"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "r0.json", "--format", "markdwn"), "unknown format 'markdwn'; did you mean"),
        # Said before a run is read.
        (("compare", "absent.json", "-o", "r1.json"), "r1.json exists already"),
    ],
)
def test_a_wrong_format_or_an_existing_file_is_one_sentence(
    words: tuple[str, ...], told: str, folder: Path
) -> None:
    before = (folder / "r1.json").read_bytes()
    done = krisis(*words, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"krisis: {told}")
    assert done.stderr.count("\n") == 1
    assert (folder / "r1.json").read_bytes() == before


def test_a_file_takes_the_format_of_its_ending(
    folder: Path, printed: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    words = COMMANDS["three"]
    for suffix, kind in (
        (".csv", "csv"),
        (".md", "markdown"),
        (".tex", "latex"),
        (".txt", "table"),
    ):
        path = tmp_path / f"board{suffix}"
        done = krisis(*words, "--output", str(path), cwd=folder)
        assert (done.returncode, done.stdout) == (0, "")
        assert path.read_text(encoding="utf-8") == printed["three", kind]
