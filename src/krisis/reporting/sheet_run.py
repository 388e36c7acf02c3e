"""A run as a sheet reads it: the fields that hold its facts, and what does not apply to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from krisis import registry
from krisis.json_values import JsonMapping, read_object
from krisis.metrics.base import EvaluationResult
from krisis.reporting.sheet_flow import n_patients
from krisis.results.artefacts import kind_of
from krisis.results.base import BenchmarkResult
from krisis.results.loading import is_run, reproduce_command
from krisis.results.run_items import read_result
from krisis.runs.description import RunDescription
from krisis.runs.load import stored_result
from krisis.runs.read import open_run

_BASELINES = "krisis.backends.baselines."  # rules and fitted models: no language model


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the run says, in words, and the file and field that say it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class SheetRun:
    """A run with the names of its files; ``features`` are what the cases showed, where stored.

    ``ended`` says whether the scores are those that the files hold.
    """

    result: BenchmarkResult
    file: str
    reproduce: str = ""
    description: RunDescription | None = None
    ended: bool = True
    is_run_file: bool = False
    features: Sequence[JsonMapping] = field(default=())

    @cached_property
    def records(self) -> Sequence[EvaluationResult]:
        """One row per record: repeats of a record have its label and groups."""
        rows = enumerate(self.result.rows)
        named = {(row.cluster_id, row.record_id or i): row for i, row in rows}
        return list(named.values())

    def of_rows(self, name: str) -> str:
        """Name a field of the rows."""
        if self.is_run_file:
            return "run file: experiments[].results"
        if not self.result.rows:  # a file of scores has counts alone
            return "run: facts.attrition" if self.description else "result: attrition"
        return f"{'run: rows.' if self.description else 'result: evaluation_results[].'}{name}"

    def of_suite(self, name: str) -> str:
        """Name an entry of the suite's description."""
        if self.is_run_file:
            return "run file: experiments[].provenance.suite"
        return f"{'run' if self.description else 'result'}: suite_description.{name}"

    def of_run(self, name: str, described_as: str = "") -> str:
        """Name a fact about the run, which its description may hold under another name."""
        if self.is_run_file:
            return "run file: experiments[].provenance"
        if self.description and described_as:
            return f"run: {described_as}"
        if self.description:
            return f"run: facts.{name}" if self.ended else "run: rows"
        return f"result: {name}" if name == "backend_name" else f"result: extras.{name}"

    def of_scores(self, name: str) -> str:
        """Name a score, or say that it was computed for this sheet."""
        if not self.ended:
            return f"{self.of_rows('outcome')}, scored for this sheet"
        return f"{'run: scores.' if self.description else 'result: '}{name}"


def read_run_for_sheet(path: str | Path, mode: str | None = None) -> SheetRun:
    """Read a run, a saved result or a run file."""
    result, path = read_result(path, mode), Path(path).resolve()
    if not is_run(path):
        kind = kind_of(path)
        is_run_file = kind == "run file"
        again = "" if is_run_file else reproduce_command(path)
        is_scored = kind in ("saved result", "metrics file")
        ended = is_scored and bool(read_object(path, lenient=True).get("metric_scores"))
        return SheetRun(result, path.name, again, ended=ended, is_run_file=is_run_file)
    with open_run(path) as run:
        run.rows()
        return SheetRun(
            result,
            path.name,
            reproduce_command(path),
            run.description,
            stored_result(run) is not None,
            features=run.features(),
        )


# States of a run in which an item does not apply: the reason, or None


def no_model(run: SheetRun) -> Fact | None:
    """Say that a rule or a fitted baseline was run in place of a language model."""
    made = run.result.provenance
    asked = {made.model, str(made.config.get("model") or "")}
    known = registry.BUILT_IN["backends"]
    if made.imported or not any(known.get(name, "").startswith(_BASELINES) for name in asked):
        return None
    words = f"{made.model} is a rule or a baseline of krisis, not a language model"
    return Fact("model asked", words, run.of_run("backend_name", "backend_name"))


def all_synthetic(run: SheetRun) -> Fact | None:
    """Say that no patient is real, where every row or the suite says so."""
    rows = run.result.rows
    words = f"all {n_patients(rows):,} patients are synthetic"
    if rows and all(row.metadata.get("synthetic") is True for row in rows):
        return Fact("patients", words, run.of_rows("metadata.synthetic"))
    if run.result.suite.synthetic:
        return Fact("patients", "the suite is synthetic", run.of_suite("synthetic"))
    return None


def drawn(run: SheetRun) -> Fact | None:
    """Say that a suite of krisis drew the labels; people may label other synthetic patients."""
    suite = run.result.provenance.suite
    is_own = suite in registry.BUILT_IN["suites"] and suite != "table"
    return all_synthetic(run) if is_own and not run.result.provenance.imported else None


def one_model(run: SheetRun) -> Fact | None:
    """Say that no second version of the model answered."""
    made = run.result.provenance
    names = list(made.models_answered) or ([made.model] if made.batch_size is not None else [])
    if len(names) != 1 or made.imported:
        return None
    asked = run.of_run("backend_name", "backend_name")
    place = run.of_run("models_answered") if made.models_answered else asked
    return Fact("model that answered", f"only {names[0]} answered", place)


def always(run: SheetRun) -> Fact | None:
    """Say what every run of krisis is."""
    task = run.result.provenance.task or run.result.provenance.suite or "unnamed"
    return Fact("task", task, run.of_suite("task"))


STATES: dict[str, Callable[[SheetRun], Fact | None]] = {
    "no_model": no_model,
    "synthetic": all_synthetic,
    "drawn": drawn,
    "one_model": one_model,
    "always": always,
}
