"""A run by its path, whatever form it was saved in: a run, a result, a run file, Parquet."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, read_object
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metric_of, registered_metrics
from krisis.plain_run import PlainRun
from krisis.results.artefacts import kind_of, kind_of_content, refused
from krisis.results.base import BenchmarkResult
from krisis.results.plain_runs import result_of_plain_run, run_of_format
from krisis.runs.load import keep_scores, list_runs, load_run, read_description
from krisis.runs.schema import SUFFIX


def load_result(path: Path, mode: str | None = None) -> BenchmarkResult:
    """Read a run, a saved result, a run file or a Parquet file of rows.

    ``mode`` chooses an experiment of a run file. A run that has not ended is scored as it is.
    """
    if not path.exists() and (missing := refused(path)) is not None:
        raise missing
    if is_run(path):
        return _scored_run(path)
    found = stored_run(path, mode)
    return scored_as_it_is(result_of_plain_run(found) if isinstance(found, PlainRun) else found)


def stored_run(path: Path, mode: str | None = None) -> PlainRun | BenchmarkResult:
    """Read a file other than a run as it is, without scoring: by its name, else by its content."""
    if (found := run_of_format(path, mode)) is not None:
        return found
    content = content_of_run(path)
    return run_of_format(path, mode, content) or BenchmarkResult.from_dict(content, place=str(path))


def is_run(path: Path) -> bool:
    """Say whether a path is to be read as a run, also one that can only be refused."""
    return path.suffix == SUFFIX or (path.is_dir() and kind_of(path) == "old run")


def _scored_run(path: Path) -> BenchmarkResult:
    """Read a run with its scores; where they were computed again, they are kept for next time."""
    stored = load_run(path)
    result = scored_as_it_is(stored)
    if result is not stored and stored.stop is None and not stored.damage:
        keep_scores(path, result)
    return result


def content_of_run(path: Path) -> JsonObject:
    """Read the JSON of a saved result, a metrics file or a run file; say what another file is."""
    try:
        content = read_object(path)
    except InvalidFile as error:
        # Programs write a missing signal of a run file as NaN: it is refused where it is needed.
        if kind_of(path) == "run file":
            return read_object(path, lenient=True)
        raise refused(path) or error from None
    kind = kind_of_content(content)
    if kind and kind not in ("saved result", "metrics file", "run file"):
        raise refused(path) or InvalidFile(f"{path} is no run")
    return content


def with_rows(result: BenchmarkResult, path: Path) -> BenchmarkResult:
    """Return a result that has rows, or say that the file holds scores alone."""
    if result.evaluation_results:
        return result
    told = refused(path) if kind_of(path) == "metrics file" else None
    raise told or InvalidFile(f"{path} holds no rows; name a run or a full result")


def expanded(paths: Sequence[Path]) -> list[Path]:
    """Return runs by their paths: in place of a folder of runs, or of a grid, the runs in it."""
    found: list[Path] = []
    for path in paths:
        inside = list_runs(path) if path.is_dir() and not is_run(path) else [path]
        if not inside:
            raise InvalidFile(f"{path} contains no runs; name runs, saved results or their folder")
        found += inside
    return found


def scored_as_it_is(result: BenchmarkResult) -> BenchmarkResult:
    """Return a result with scores, where the rows were stored without any."""
    if result.evaluation_results and not result.metric_scores:
        return result.scored(metrics_asked(result), BootstrapOptions())
    return result


def scored_from_rows(result: BenchmarkResult) -> BenchmarkResult:
    """Return a result whose scores were computed here and now: stored ones may have been edited.

    A stored score whose metric is not installed is left out.
    """
    found = [metric_of(score) for score in result.metric_scores.values()]
    metrics = [metric for metric in found if metric is not None]
    return result.scored(metrics or metrics_asked(result), BootstrapOptions())


def metrics_asked(result: BenchmarkResult) -> list[BaseMetric]:
    """Return the metrics that the run's configuration names, else the usual ones.

    Registered ones only: to look at a run may not execute a file that the run names.
    """
    chosen = registered_metrics(result.provenance.config.get("metrics"))
    task = result.provenance.task_facts
    return chosen or usual_metrics(task.metrics if task else ())


def load_results(runs: Sequence[Path | BenchmarkResult]) -> dict[str, BenchmarkResult]:
    """Return several runs under short names: the model, with the file where models repeat.

    Results in memory have no file: where their models repeat, they are numbered.
    """
    paths = [run for run in runs if isinstance(run, Path)]
    places = {path.resolve() for path in paths} | {id(run) for run in runs} - set(map(id, paths))
    if len(places) < len(runs):
        raise InvalidValue("the same run appears twice; name different runs")
    results = [load_result(run) if isinstance(run, Path) else run for run in runs]
    stems = [
        run.resolve().name.removesuffix(".json").removesuffix(SUFFIX)
        if isinstance(run, Path)
        else str(number)
        for number, run in enumerate(runs, start=1)
    ]
    if len(set(stems)) < len(stems):
        stems = [
            str(run) if isinstance(run, Path) else stem
            for run, stem in zip(runs, stems, strict=True)
        ]
    names = distinct_names([result.backend_name for result in results], stems)
    return dict(zip(names, results, strict=True))


_MAKER = re.compile(r"^(?:[\w.@:-]+/)+(?=[^/\s])")


def short_models(models: Sequence[str]) -> list[str]:
    """Return models without their makers, except where two makers use one name.

    >>> short_models(["openai/gpt-x", "azure/gpt-x", "local/tiny"])
    ['openai/gpt-x', 'azure/gpt-x', 'tiny']
    """
    shorts = [_MAKER.sub("", model) for model in models]
    makers: dict[str, set[str]] = {}
    for short, model in zip(shorts, models, strict=True):
        makers.setdefault(short, set()).add(model)
    return [
        short if len(makers[short]) == 1 else model
        for short, model in zip(shorts, models, strict=True)
    ]


def distinct_names(models: Sequence[str], runs: Sequence[str]) -> list[str]:
    """Return the short name of each model, with that of its run where models repeat.

    >>> distinct_names(["m/a", "m/b", "m/a"], ["x", "y", "z"])
    ['a (x)', 'b', 'a (z)']
    """
    named = [model or "unnamed model" for model in short_models(models)]
    repeated = Counter(named)
    return [
        model if repeated[model] == 1 else f"{model} ({run})"
        for model, run in zip(named, runs, strict=True)
    ]


def place_in_commands(path: Path) -> str:
    """Write a path for a shell in the current folder: relative to it where that is possible."""
    place, here = path.resolve(), Path.cwd().resolve()
    shown = place.relative_to(here) if place.is_relative_to(here) else place
    text = str(shown)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def reproduce_command(path: Path) -> str:
    """Return the commands that repeat a run, or its scoring where only the result was saved."""
    place = place_in_commands(path)
    if is_run(path):
        imported = read_description(path).imported
        if imported is not None:
            return f"{imported.command}   # the same import again"
        return f"krisis run --config {place}   # the same run again"
    return f"krisis show {place} --metric default   # the metrics again, from the stored rows"
