"""`krisis.load` and `krisis.score`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from krisis.answers import Label
from krisis.cost_file import AnyCosts
from krisis.costs import Costs
from krisis.errors import InvalidFile, InvalidValue
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import read_file, read_in_memory, result_of
from krisis.formats.parquet import is_parquet, load_parquet
from krisis.json_values import JsonObject
from krisis.metrics import BootstrapOptions
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metrics_from_names
from krisis.results.artefacts import kind_of
from krisis.results.base import BenchmarkResult
from krisis.results.loading import expanded, load_result, load_results, with_rows
from krisis.results.what_if import what_if

AnyRun: TypeAlias = str | Path | BenchmarkResult
Metric: TypeAlias = str | BaseMetric
# Suffix of a file of predictions → how it is read.
_TABLES = {".csv": "csv", ".tsv": "csv", ".tab": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def load(run: str | Path, *, mode: str | None = None) -> BenchmarkResult:
    """Read a run: what `krisis run` or `krisis import` saved, a saved result, or rows in Parquet.

    Arguments:
        run: The path.
        mode: The experiment of a PHQ-8 run file.

    Returns:
        Rows and scores with their intervals, as a `BenchmarkResult`.

    >>> import tempfile, krisis
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = krisis.score({"y": [0, 1], "p": [0, 0]}, truth="y", prediction="p").save(
    ...         f"{folder}/result.json"
    ...     )
    ...     krisis.load(path).metric_scores["accuracy"].value
    0.5
    """
    path = Path(run)
    if path.suffix.lower() in _TABLES and path.is_file() and kind_of(path) in ("", "table"):
        raise InvalidFile(
            f"{path} is a table; of predictions, name its columns, in Python: krisis.score("
            f"{str(run)!r}, truth=…, prediction=…), or type: krisis import {path} --as "
            f"{_TABLES[path.suffix.lower()]} --truth … --prediction …; of patients, type: krisis "
            f"init {path}"
        )
    return load_result(path, mode)


def score(
    data: object,
    *,
    truth: str = "",
    prediction: str = "",
    confidence: str = "",
    abstained: str = "",
    patient: str = "",
    groups: Sequence[str] = (),
    id: str = "",  # noqa: A002 - as the option is called
    should_defer: str = "",
    error: str = "",
    repeat: str = "",
    answers: Sequence[Label] | Mapping[Label, str] | str = "",
    ordinal: bool = False,
    positive: Label | None = None,
    costs: AnyCosts | None = None,
    price: float | None = None,
    confidence_scale: float | None = None,
    abstain_answer: Sequence[str] = (),
    empty: str | None = None,
    model: str = "",
    task: str = "",
    suite: str = "",
    metrics: Sequence[Metric] = (),
    level: float = 0.95,
) -> BenchmarkResult:
    """Score predictions: of a table in memory or a file by its columns, or of a run once more.

    Arguments:
        data: A pandas, polars or Arrow frame, a mapping of columns, a CSV, JSON Lines or Parquet
            file; or, without any column, a run by its path or in memory.
        truth: Column of the right answer.
        prediction: Column of the model's answer.
        confidence: Column of the confidence, from 0 to 1 (or to ``confidence_scale``). Further
            numeric columns are kept as signals, to be named as ``signals.NAME`` in other verbs.
        abstained: Column that says whether the model abstained.
        patient: Column of the patient; intervals and tests draw patients. Else each row is one.
        groups: Columns to break results down by.
        id: Column that names the case, by which `krisis.compare` finds the same one.
        should_defer: Column that says whether the case should be deferred.
        error: Column that says whether or why there is no answer.
        repeat: Column that counts the askings of a case from 1.
        answers: The allowed answers, with words where they are a mapping.
        ordinal: Whether the answers are in their order.
        positive: The answer whose sensitivity is reported.
        costs: What answers and deferrals cost, a `Costs` or the YAML file of one; of a run it
            asks what if.
        price: Cost of one deferral relative to the costliest error; of a run it asks what if.
        abstain_answer: Answers that mean abstaining.
        empty: What an empty answer is: abstained, no_answer or unread.
        model: The name of the model.
        metrics: Metrics or their names in place of the usual ones.
        level: The level of the intervals.

    Returns:
        Rows and scores, every score with its interval, as a `BenchmarkResult`: the same figures as
        `krisis import` of the same rows.

    >>> import krisis
    >>> table = {"y": [0, 1, 1, 0], "p": [0, 1, 0, 0], "c": [0.9, 0.8, 0.6, 0.7]}
    >>> found = krisis.score(table, truth="y", prediction="p", confidence="c")
    >>> found.metric_scores["accuracy"].value
    0.75
    """
    columns = {
        "truth": truth,
        "prediction": prediction,
        "confidence": confidence,
        "abstained": abstained,
        "patient": patient,
        "group": list(groups),
        "id": id,
        "should_defer": should_defer,
        "error": error,
        "repeat": repeat,
        "answers": list(answers) if isinstance(answers, tuple) else answers,
        "ordinal": ordinal,
        "positive": positive,
        "confidence_scale": confidence_scale,
        "abstain_answer": list(abstain_answer),
        "empty": empty,
        "model": model,
        "task": task,
        "suite": suite,
    }
    given: JsonObject = {
        name: value for name, value in columns.items() if value not in ("", [], None, False)
    }
    chosen, options = list(chosen_metrics(metrics)), BootstrapOptions(level=level)
    if isinstance(data, BenchmarkResult) or (isinstance(data, str | Path) and not given):
        return _again(data, chosen, options, costs, price)
    given |= {"price": price} if price is not None else {}
    if costs is not None:
        given["costs"] = costs if isinstance(costs, Costs) else str(costs)
    with _from_python():
        known = _checked(given)
        read = (
            read_file(Path(data), _kind(Path(data)), known)
            if isinstance(data, str | Path)
            else read_in_memory(data, known)
        )
    return result_of(read, chosen, options)


def _again(
    run: AnyRun,
    metrics: Sequence[BaseMetric],
    options: BootstrapOptions,
    costs: AnyCosts | None,
    price: float | None,
) -> BenchmarkResult:
    """Score the rows of a run with other metrics, or at other costs."""
    path = Path("the result") if isinstance(run, BenchmarkResult) else Path(run)
    if isinstance(run, BenchmarkResult):
        result = run
    elif metrics and path.is_file() and is_parquet(path):
        result = load_parquet(path)  # a large file is scored by columns, and only once
    else:
        result = load(path)
    if costs is not None or price is not None:
        result = what_if(with_rows(result, path), costs, price)
    return with_rows(result, path).scored(metrics, options) if metrics else result


def _kind(path: Path) -> str:
    if path.is_file() and is_parquet(path):
        return "parquet"
    kind = _TABLES.get(path.suffix.lower())
    if kind is None:
        raise InvalidValue(
            f"{path} is no table whose columns could be named; give a .csv, .tsv, .jsonl or "
            ".parquet file, or leave out the columns"
        )
    return kind


def _checked(given: JsonObject) -> ImportOptions:
    try:
        return ImportOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidValue(f"{first['loc'][0]}: {first['msg']}, not {first['input']!r}") from None


@contextmanager
def _from_python() -> Iterator[None]:
    """Name arguments where a message names the options of the command line."""
    try:
        yield
    except (InvalidValue, InvalidFile) as error:
        words = re.sub(r"--([a-z-]+) (?=\d|abstained)", r"--\1=", str(error))
        words = re.sub(r"--([a-z-]+)", lambda found: found[1].replace("-", "_"), words)
        raise type(error)(words) from None


def chosen_metrics(metrics: Sequence[Metric]) -> list[BaseMetric]:
    """Return metrics that are given as such or by name; a bundle gives all of its own."""
    found: list[BaseMetric] = []
    for one in [metrics] if isinstance(metrics, str) else metrics:
        found += metrics_from_names([one]) if isinstance(one, str) else [one]
    return found


def results_of(runs: Sequence[AnyRun] | Mapping[str, AnyRun]) -> dict[str, BenchmarkResult]:
    """Return runs by name: those of a mapping, else short ones; a folder is the runs in it."""
    if isinstance(runs, Mapping):
        return {
            name: run if isinstance(run, BenchmarkResult) else load(run)
            for name, run in runs.items()
        }
    given: list[Path | BenchmarkResult] = []
    for run in runs:
        given += [run] if isinstance(run, BenchmarkResult) else expanded([Path(run)])
    return load_results(given)
