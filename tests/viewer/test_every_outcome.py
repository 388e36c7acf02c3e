"""Every verb and every page takes a run in which every outcome occurs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.commands import offered
from tests.invented_runs import result_of, rows_of_every_outcome, write_run
from tests.viewer.conftest import Site, example
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.viewer.app import PAGES

ALLOW = ("--max-not-evaluated", "0.2")
FEW = ("--simulations", "50")
VERBS: Sequence[tuple[str, ...]] = (
    ("show", "RUN"),
    ("show", "RUN", "--metric", "accuracy", "--metric", "not_evaluated_rate"),
    ("show", "RUN", "--price", "0.1"),
    ("report", "RUN", "-o", "OUT/what_if.html", "--price", "0.1", *ALLOW),
    ("compare", "RUN", "OTHER", "--price", "0.1"),
    ("report", "RUN", "-o", "OUT/report.html", "--curve", "--audit", *ALLOW),
    ("compare", "RUN", "OTHER"),
    ("compare", "RUN", "OTHER", "--html", "OUT/compare.html"),
    ("figure", "RUN", "OTHER", "--kind", "risk-coverage", "-o", "OUT/f.svg"),
    ("figure", "RUN", "OTHER", "--kind", "deferral", "-o", "OUT/d.svg"),
    ("sheet", "RUN"),
    ("selective", "RUN", "--bootstrap-resamples", "200", "-o", "OUT/s.json"),
    ("selective", "RUN", "OTHER", "--bootstrap-resamples", "200"),
    ("calibrate", "RUN", "-o", "OUT/calibrator.json"),
    ("certify", "RUN", "--risk", "0.6", "-o", "OUT/certificate.json", *ALLOW),
    ("decide", "RUN", "--price", "0.1", *ALLOW),
    ("report", "RUN", "-o", "OUT/priced.html", "--decide", *ALLOW),
    ("decide", "RUN", "--curve", *ALLOW),
    ("audit", "RUN"),
    ("check", "RUN", "--require", "accuracy >= 0.1", *ALLOW),
    ("plan", "estimate", "-m", "accuracy", "--half-width", "0.1", "--from", "RUN", *FEW),
    ("export", "RUN", "--to", "csv", "-o", "OUT/rows.csv"),
    ("export", "RUN", "--to", "parquet", "-o", "OUT/rows.parquet"),
    ("export", "RUN", "--to", "inspect", "-o", "OUT/log.json"),
    ("show", "OUT/rows.parquet"),
    ("import", "OUT/log.json", "--as", "inspect", "-o", "OUT/imported"),
)


def placed(word: str, folder: Path) -> str:
    """Return a word of a command with the files of this test in it."""
    name, _, rest = word.partition("/")
    files = {"RUN": "one.json", "OTHER": "two.json", "OUT": "."}
    return str(folder / files[name] / rest) if name in files else word


def test_every_verb_and_page_takes_every_outcome(
    tmp_path: Path, serve: Callable[..., Site]
) -> None:
    runs = tmp_path / "runs"
    for name, skill in (("one", 1.0), ("two", 0.7)):
        result = result_of(rows_of_every_outcome(skill=skill), f"model/{name}")
        write_run(runs / name, result)
        result.save(tmp_path / f"{name}.json")
    for verb in offered(VERBS):
        words = [placed(word, tmp_path) for word in verb]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (verb, done.output, done.exception)
        assert "Traceback" not in done.output
    counts = result_of(rows_of_every_outcome()).attrition
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "one.json")]).output
    assert f"{counts.n_no_answer} no answer / {counts.n_not_evaluated} not evaluated" in shown
    again = CliRunner().invoke(app, ["show", str(tmp_path / "rows.parquet")]).output
    assert again.splitlines()[0] == shown.splitlines()[0]
    site = serve(runs)
    for path in PAGES:
        answer = site.get(example(path, "one", "two"))
        assert answer.status == 200, (path, answer.text[:2000])
    cases = site.get("/runs/one/cases.json?outcome=no_answer").json
    assert cases["n_found"] == counts.n_no_answer
    assert "perhaps" in json.dumps(cases["rows"][0])
