"""Tables of predictions come in as their columns say, and every later command takes the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.documents import said, unwrapped
from tests.invented_runs import edit_run
from typer.testing import CliRunner, Result

from krisis.cli.app import app
from krisis.errors import InvalidFile, UserError
from krisis.formats import parquet_tables
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import ReadFile, read_file
from krisis.formats.parquet_tables import MOST_ROWS
from krisis.results.base import BenchmarkResult
from krisis.results.rows import rows_fingerprint
from krisis.runs.load import load_run, read_description
from krisis.viewer.app import create_app

COLUMNS = {"truth": "label", "prediction": "said"}
HEAD = "id,patient,label,said,sure,left,why,defer,sex"
NAMED = {
    **COLUMNS,
    "id": "id",
    "patient": "patient",
    "confidence": "sure",
    "abstained": "left",
    "error": "why",
    "should_defer": "defer",
    "group": ["sex"],
}


def krisis(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def read(path: Path, kind: str = "csv", **options: Any) -> ReadFile:
    return read_file(path, kind, ImportOptions(**{**COLUMNS, **options}))


def table(folder: Path, *lines: str, name: str = "answers.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def twelve(folder: Path, name: str = "answers.csv", *, skill: int = 4) -> Path:
    """Write 12 rows of 6 patients: one failed, two abstained, every ``skill``-th wrong."""
    lines = []
    for i in range(12):
        truth, left = i % 2, int(i in (3, 7))
        said = "" if left or i == 5 else (1 - truth if i % skill == 0 else truth)
        why = "timeout" if i == 5 else ""
        lines.append(
            f"r{i},p{i // 2},{truth},{said},{0.5 + i / 30:.3f},{left},{why},{left},{'mf'[i % 2]}"
        )
    return table(folder, HEAD, *lines, name=name)


def test_columns_are_taken_for_what_they_are_named(tmp_path: Path) -> None:
    found = read(twelve(tmp_path), **NAMED)
    rows = found.taken.rows
    assert [row.outcome for row in rows].count("answered") == 9
    assert [row.record_id for row in rows if row.abstained] == ["r3", "r7"]
    assert [(row.error, row.failure_class) for row in rows if row.error] == [("timeout", "timeout")]
    assert (rows[2].cluster_id, rows[2].confidence) == ("p1", 0.567)
    assert rows[3].metadata == {"sex": "f", "should_abstain": True}
    assert found.imported.taken_for["right answer"] == "column label"
    assert found.imported.n_read == 12


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x,p,,1,0.5,0,,0,m", "it has no right answer"),
        ("x,p,1,1,nan,0,,0,m", "the confidence 'nan' is not a number"),
        ("x,p,1,1,-0.1,0,,0,m", "lies outside 0 to 1"),
        ("x,p,1,1,1e5,0,,0,m", "lies outside 0 to 1"),
        ("x,p,1,1,high,0,,0,m", "the confidence 'high' is not a number"),
        ("x,p,1,1,1_0,0,,0,m", "the confidence '1_0' is not a number"),
        ("x,p,1,0.73,0.5,0,,0,m", "is it a probability?"),
        ("x,p,1,1,0.5,maybe,,0,m", "left is neither true nor false"),
        ("x,p,1,1,0.5,0,,perhaps,m", "defer is neither true nor false"),
        ("x,p,1,1,0.5,1,timeout,0,m", "marked as failed and as abstained"),
        (",p,1,1,0.5,0,,0,m", "its id is empty"),
        ("x,,1,1,0.5,0,,0,m", "its patient is empty"),
        ("ok,p,1,1,0.5,0,,0,m", "its id has appeared before"),
        ("x,p,1,1,0.5,0,,0", "it has 8 cells and the first line 9"),
        (f"x,p,1,{'y' * 300},0.5,0,,0,m", "more than 200 characters"),
    ],
)
def test_rows_that_cannot_be_taken_are_listed(line: str, reason: str, tmp_path: Path) -> None:
    good = "ok,p,1,1,0.5,0,,0,m"
    found = read(table(tmp_path, HEAD, good, line), **NAMED)
    [one] = found.taken.not_taken
    assert (one.place, reason in one.reason) == ("line 3", True), one.reason
    assert len(found.taken.rows) == 1


def test_what_empty_means_is_said_and_an_answer_outside_the_answers_is_none(
    tmp_path: Path,
) -> None:
    path = table(tmp_path, "label,said", "1,", "1,ABSTAIN", "0,7", "0,0.0", "2,1")
    said = read(path, empty="abstained", abstain_answer=["abstain"], answers="0=no,1=yes")
    assert [row.outcome for row in said.taken.rows] == [
        "abstained",
        "abstained",
        "no_answer",
        "answered",
    ]
    assert (said.taken.rows[2].failure_class, said.taken.rows[2].prediction) == ("not_allowed", "7")
    assert said.taken.rows[3].prediction == 0
    assert "is none of the answers" in said.taken.not_taken[0].reason
    failed = read(path, empty="no_answer").taken.rows[0]
    assert (failed.error, failed.abstained) == ("no answer", False)


def test_percentages_are_refused_until_their_scale_is_said(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said,sure", "1,1,85", "1,1,1", "1,0,180")
    with pytest.raises(UserError, match="line 2: the confidence '85' lies above 1; give --confid"):
        read(path, confidence="sure")
    found = read(path, confidence="sure", confidence_scale=100)
    assert [row.confidence for row in found.taken.rows] == [0.85, 0.01]
    assert len(read(path, confidence="sure", confidence_scale=1).taken.not_taken) == 2


def test_a_percent_sign_needs_the_scale_of_100(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said,sure", "1,1,85%", "1,0,0.5 %")
    with pytest.raises(UserError, match="the confidence '85%' is a percentage; give --confidence"):
        read(path, confidence="sure")
    found = read(path, confidence="sure", confidence_scale=100)
    assert [row.confidence for row in found.taken.rows] == [0.85, 0.005]
    with pytest.raises(UserError, match="'85%' is not a number"):
        read(path, confidence="sure", confidence_scale=1)


def test_empty_answers_stop_an_import_until_it_is_said_what_they_mean(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said", "1,1", "1,", "0,0", "0,")
    options = ("--truth", "label", "--prediction", "said", "-o", tmp_path / "runs")
    done = krisis("import", path, "--as", "csv", *options)
    asks = "2 rows have no answer (line 3, …); say what that means: --empty abstained, no_answer or"
    assert asks in unwrapped(str(done.exception))
    assert not (tmp_path / "runs").exists()
    assert krisis("import", path, "--as", "csv", *options, "--empty", "unread").exit_code == 0


def test_nan_is_an_empty_answer(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said", "1,NaN", "1,1")
    with pytest.raises(UserError, match=r"1 row has no answer \(line 2\); say what that means"):
        read(path)
    assert [row.abstained for row in read(path, empty="abstained").taken.rows] == [True, False]


def test_repeats_are_counted_by_a_column(tmp_path: Path) -> None:
    lines = ["id,label,said,n", "a,1,1,1", "a,1,0,2", "b,0,0,1", "b,1,0,2", "c,1,1,0"]
    found = read(table(tmp_path, *lines), id="id", repeat="n")
    assert [(r.record_id, r.metadata.get("sample_index")) for r in found.taken.rows] == [
        ("a", None),
        ("b", None),
        ("a", 1),
    ]
    assert [one.place for one in found.taken.not_taken] == ["line 6", "line 5"]


def test_a_parquet_file_of_too_many_rows_is_refused_before_they_are_read(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    many = duckdb.sql(f"select 1 as label, 1 as answer from range({MOST_ROWS + 1})")
    many.write_parquet(str(path))
    assert path.stat().st_size < 100_000
    with pytest.raises(InvalidFile, match="has 1,000,001 rows, and krisis imports") as refused:
        read_file(path, "parquet", ImportOptions(truth="label", prediction="answer"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ("1 as label, repeat('x', 100000) as answer from range(20000)", "2,001"),
        ("1 as label, 1 as answer, [repeat('x', 100000)] as said from range(20000)", "2,001"),
        (f"{', '.join(f'null::int as c{i}' for i in range(2000))} from range(100000)", "1,600"),
    ],
    ids=["texts", "lists", "nothing"],
)
def test_a_parquet_file_of_huge_values_is_refused_before_they_are_read(
    tmp_path: Path, values: str, size: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    duckdb.sql(f"select {values}").write_parquet(str(path))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InvalidFile, match=f"take {size} MB when they are unpacked") as refused:
        read_file(path, "parquet", ImportOptions(truth="label", prediction="answer"))
    assert "\n" not in str(refused.value)


def test_a_parquet_file_of_values_just_small_enough_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    duckdb.sql("select 'né' as label, 'no' as answer, null::int as age").write_parquet(str(path))
    options = ImportOptions(truth="label", prediction="answer", answers=["né", "no"])
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 3 * 8 + 3 + 2)
    assert len(read_file(path, "parquet", options).taken.rows) == 1
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 3 * 8 + 3 + 2 - 1)
    with pytest.raises(InvalidFile, match="unpacked"):
        read_file(path, "parquet", options)


def test_json_lines_and_parquet_give_the_rows_of_csv(tmp_path: Path) -> None:
    import duckdb

    path = twelve(tmp_path)
    wanted = rows_fingerprint(read(path, **NAMED).taken.rows)
    duckdb.sql(f"select * from read_csv('{path}')").write_parquet(str(tmp_path / "a.parquet"))
    duckdb.sql(f"copy (select * from read_csv('{path}')) to '{tmp_path}/a.jsonl' (format json)")
    for kind in ("parquet", "jsonl"):
        found = read(tmp_path / f"a.{kind}", kind, **NAMED)
        assert rows_fingerprint(found.taken.rows) == wanted
        assert found.taken.not_taken == []


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_give_the_rows_of_commas(tmp_path: Path, separator: str) -> None:
    path = twelve(tmp_path)
    wanted = rows_fingerprint(read(path, **NAMED).taken.rows)
    text = path.read_text(encoding="utf-8").replace(",", separator)
    quoted = text.replace("sex", '"sex, as, it, is, written, down, in, all, of, them"')
    path.write_text(quoted, encoding="utf-8")
    sex = {"group": ["sex, as, it, is, written, down, in, all, of, them"]}
    found = read(path, **{**NAMED, **sex}).taken
    assert [row.metadata[sex["group"][0]] for row in found.rows][:2] == ["m", "f"]
    path.write_text(text, encoding="utf-8")
    assert rows_fingerprint(read(path, **NAMED).taken.rows) == wanted


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["label,label,said", "1,1,1"], {}, "the column 'label' twice"),
        (["label,said", '1,"1'], {}, "fix the quoting"),
        (["label,said"], {}, "has no rows"),
        (["label,said", "1,1"], {"truth": "lable"}, "did you mean 'label'"),
        (["label,said", "1,1"], {"truth": ""}, "--truth is missing"),
        (["label,said", "1,1"], {"group": ["sex"]}, "unknown column"),
        (["label,said", "1,1"], {"scorer": "x"}, "--scorer does not go with --as csv"),
        (["label,said", ",1"], {}, "none of 1 rows can be taken"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_sentence(
    lines: list[str], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as raised:
        read(table(tmp_path, *lines), **options)
    assert message in str(raised.value)


def test_bytes_that_are_no_text_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"label,said\n1,\xff\n")
    for kind in ("csv", "jsonl", "parquet"):
        with pytest.raises(UserError):
            read(path, kind)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)


@settings(max_examples=15)
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(HEAD.split(","), JSON)), max_size=6))
def test_whatever_the_cells_hold_every_row_is_taken_or_listed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    good = dict.fromkeys(HEAD.split(","), 0) | {"id": "ok", "why": ""}
    path = tmp_path_factory.mktemp("a") / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, [good, *lines])), encoding="utf-8")
    found = read(path, "jsonl", **NAMED, confidence_scale=1)
    assert len(found.taken.rows) + len(found.taken.not_taken) == len(lines) + 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Import two models' answers to the same cases from the command line."""
    folder = tmp_path_factory.mktemp("imported")
    files = [twelve(folder, "good.csv", skill=9), twelve(folder, "poor.csv", skill=2)]
    table(folder, "truth: label", "prediction: said", "id: id", name="columns.yaml")
    done = krisis(
        *("import", *files, "--as", "csv", "--columns", folder / "columns.yaml", "-o", folder),
        *("--confidence", "sure", "--patient", "patient", "--abstained", "left", "--error", "why"),
        *("--should-defer", "defer", "--group", "sex", "--answers", "0=no,1=yes", "--positive", 1),
    )
    assert done.exit_code == 0, (done.output, done.exception)
    assert "right answer column label" in unwrapped(done.output)
    return [Path(line[5:]) for line in done.output.splitlines() if line.startswith("Run: ")]


@pytest.mark.parametrize(
    "command",
    [
        "show RUN -m accuracy",
        "show RUN",
        "selective RUN --bootstrap-resamples 200",
        "compare RUN OTHER",
        "check RUN --require accuracy>=0.1 --max-not-evaluated 0.1",
        "doctor RUN",
        "calibrate RUN --force -o OUT/calibrator.json",
        "export RUN --to csv -o OUT/rows.csv",
    ],
)
def test_every_later_command_takes_an_imported_run(
    command: str, runs: list[Path], tmp_path: Path
) -> None:
    places = {"RUN": runs[0], "OTHER": runs[1], "OUT": tmp_path}
    words = [str(places.get(word, word)).replace("OUT", str(tmp_path)) for word in command.split()]
    done = krisis(*words)
    assert done.exit_code == 0, (done.output, done.exception)


def test_reports_and_the_viewer_mark_it_as_imported(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.pages.run._charts", lambda *given, **named: [])
    imported = read_description(runs[0]).imported
    assert imported is not None
    loaded = load_run(runs[0])
    saved = loaded.save(tmp_path / "saved.json")
    assert BenchmarkResult.load(saved).provenance.imported == imported
    scores = loaded.also_scored(["disease_sensitivity"]).metric_scores
    assert scores["disease_sensitivity"].n_evaluated > 0
    [digest] = imported.files.values()
    client = TestClient(create_app(runs[0].parent), base_url="http://127.0.0.1")
    krisis("report", runs[0], "-o", tmp_path / "report.html")
    texts = [
        said(loaded.document()),
        (tmp_path / "report.html").read_text(encoding="utf-8"),
        client.get(f"/runs/{runs[0].stem}").text,
    ]
    for text in texts:
        assert "IMPORTED from csv: good.csv" in text
        assert digest in text
        assert "column label" in text
    assert "imported" in client.get("/").text


@pytest.mark.parametrize("command", [["resume"], ["resume", "--failed"], ["run", "--config"]])
def test_commands_that_ask_a_model_refuse_it(command: list[str], runs: list[Path]) -> None:
    done = krisis(*command, runs[0])
    assert isinstance(done.exception, UserError)
    assert "imported" in str(done.exception)


def test_rows_that_were_not_taken_are_in_the_run_and_its_attrition(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said", "1,1", ",1", "0,0")
    options = ("--truth", "label", "--prediction", "said", "-o", tmp_path / "runs")
    done = krisis("import", path, "--as", "csv", *options)
    assert done.exit_code == 0
    assert "1 of 3 rows could not be taken (to list them, type: krisis export" in unwrapped(
        done.output
    )
    assert "3 loaded → 2 sent" in done.output
    [run] = (tmp_path / "runs").iterdir()
    listed = krisis("export", run, "--to", "not-taken", "-o", tmp_path / "left.csv")
    assert listed.exit_code == 0
    [_, line] = (tmp_path / "left.csv").read_text(encoding="utf-8").splitlines()
    assert line.startswith("line 3,")
    edit_run(run, "DELETE FROM scores")  # also where the scores are lost
    again = load_run(run)
    assert again.provenance.imported == read_description(run).imported
    assert again.attrition.n_loaded == 3
    assert again.stop is None
    edit_run(run, "DELETE FROM rows WHERE position = 1")
    assert "their rows were lost; import them again" in str(load_run(run).stop)
    assert krisis("check", run, "--require", "accuracy >= 0").exit_code == 2


def test_nothing_is_written_when_one_of_several_files_is_wrong(tmp_path: Path) -> None:
    good, bad = twelve(tmp_path), table(tmp_path, "a,b", "1,1", name="bad.csv")
    done = krisis(
        *("import", good, bad, "--as", "csv", "--truth", "label", "--prediction", "said"),
        *("--empty", "no_answer", "-o", tmp_path / "runs"),
    )
    assert isinstance(done.exception, UserError)
    assert not (tmp_path / "runs").exists()


def test_the_answers_of_a_reader_are_a_run_of_the_cases_that_they_read(tmp_path: Path) -> None:
    lines = ["id,label,dr_a,sure"]
    lines += [f"c{i},{i % 2},{'' if i in (2, 5) else 1},0.8" for i in range(8)]
    path = table(tmp_path, *lines)
    named = {"prediction": "dr_a", "id": "id", "confidence": "sure", "reader": "dr_a"}
    found = read(path, **named)
    assert found.reading.model == "reader/dr_a"
    assert found.reading.read == "6 of 8"
    assert [row.record_id for row in found.taken.rows] == ["c0", "c1", "c3", "c4", "c6", "c7"]
    assert all(row.outcome == "answered" for row in found.taken.rows)
    options = [
        word
        for key, value in {**COLUMNS, **named}.items()
        for word in (f"--{key.replace('_', '-')}", value)
    ]
    done = krisis("import", path, "--as", "csv", *options, "--output", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert "· reader/dr_a" in done.output
    assert "\nRead 6 of 8 records; the others are not part of this run" in done.output
    (run,) = (tmp_path / "runs").iterdir()
    assert load_run(run).backend_name == "reader/dr_a"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reader": "dr_a", "model": "m"}, "both name who answered"),
        ({"reader": "dr_a", "prediction": "none"}, "dr_a has no answer in none"),
    ],
)
def test_a_reader_who_cannot_be_is_refused(
    options: dict[str, str], words: str, tmp_path: Path
) -> None:
    path = table(tmp_path, "label,said,none", "1,1,", "0,1,")
    with pytest.raises(UserError, match=words):
        read(path, **options)


def test_a_log_has_no_reader(tmp_path: Path) -> None:
    path = table(tmp_path, "{}", name="samples.jsonl")
    with pytest.raises(UserError, match="--reader does not go with --as lm-eval"):
        read_file(path, "lm-eval", ImportOptions(reader="dr_a"))


@pytest.mark.parametrize("answers", ["", "0=no,1=yes"])
def test_predictions_in_other_words_than_the_answers_stop_the_import(
    answers: str, tmp_path: Path
) -> None:
    path = table(tmp_path, "label,said", "1,present", "0,absent", "1,present")
    with pytest.raises(UserError, match=r"none of the 3 predictions .*'present', 'absent'.*1"):
        read(path, **({"answers": answers} if answers else {}))
    mixed = table(tmp_path, "label,said", "1,present", "0,0", name="mixed.csv")
    rows = read(mixed, answers="0=no,1=yes").taken.rows
    assert [(row.outcome, row.prediction) for row in rows] == [
        ("no_answer", "present"),
        ("answered", "0"),
    ]


def test_a_confidence_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said,sure", "1,1,", "0,0,")
    with pytest.raises(UserError, match="'sure' was found in 0 of 2 answered rows"):
        read(path, confidence="sure")


def test_a_case_that_a_reader_never_read_is_no_row(tmp_path: Path) -> None:
    path = table(tmp_path, "label,said", "1,1", "0,", "0,0")
    found = read(path, empty="unread")
    assert len(found.taken.rows) == 2
    assert not found.taken.not_taken
    assert found.taken.reading_words.startswith("read 2 of 3 cases")
    assert (found.imported.n_expected, found.imported.n_read) == (2, 2)
    assert any("read 2 of 3 cases" in note for note in found.imported.notes)
