"""A run as a `BenchmarkResult`, and the runs of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from krisis import __version__
from krisis.errors import InvalidFile
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.account import Prompts, Provenance, RunFacts, Spending
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult
from krisis.results.repeats import mark_agreement
from krisis.results.stops import Unfinished
from krisis.runs.columns import BaselineColumns, RunColumns
from krisis.runs.description import NEVER, RunDescription
from krisis.runs.places import is_run_file
from krisis.runs.read import LedgerEntry, RunContents, RunFile, open_run
from krisis.runs.schema import SUFFIX, Checksums, storable
from krisis.runs.write import store_scores, write_briefly

_NOT_ENDED = "the run has not ended: resume it, or wait for its process"


def read_description(path: str | Path) -> RunDescription:
    """Read what a run is, without a look at its rows."""
    with open_run(path, checked=True) as run:
        return run.description


def list_runs(folder: str | Path) -> list[Path]:
    """Return the run files in a folder, newest first; one that cannot be read counts as oldest."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    found = {}
    for path in folder.glob(f"*{SUFFIX}"):
        if is_run_file(path):
            found[path] = NEVER
            with suppress(InvalidFile):
                found[path] = read_description(path).started_at
    return sorted(found, key=lambda path: (found[path], path.name), reverse=True)


def load_run(path: str | Path) -> BenchmarkResult:
    """Read a run as a result: its rows, and its scores where they are of these rows.

    Scores that another version of krisis computed are left out, to be computed again.
    """
    with open_run(path) as run:
        return result_of(run)


def result_of(run: RunFile) -> BenchmarkResult:
    """Return the result that an open run file holds."""
    described = run.description
    columns = RunColumns.of(run)
    contents = run.contents(with_rows=columns is None)
    rows: Sequence[EvaluationResult]
    rows = contents.in_order() if columns is None else Rows(columns)
    agreement = mark_agreement(rows) if described.identity.repeats > 1 else None
    ended = stored_result(run)
    if ended is not None:
        result = BenchmarkResult(
            rows,
            ended.metric_scores,
            ended.suite_description,
            ended.backend_name,
            facts=ended,
        )
    else:
        facts = _facts_so_far(described, contents, rows)
        facts.agreement = agreement
        if run.scores() is not None:  # it had ended: what is missing was lost
            is_whole = len(rows) == described.n_cases
            facts.stop = None if is_whole else _lost(described)
        description = described.suite_description
        if described.is_reading:
            description = {**description, "read": f"{len(rows):,} of {described.n_cases:,}"}
        named = (description, described.backend_name)
        result = BenchmarkResult(rows, {}, *named, facts=facts)
    result.baseline_rows = StoredBaselines(run.path, run.baseline_names(), result)
    result.damage = run.damage
    result.provenance = replace(
        result.provenance,
        run_id=described.run_id,
        run_file=str(run.path),
        git_commit=described.git_commit,
        versions=described.versions,
        config=described.config,
        imported=described.imported,
        asking=described.asking,
        removed=removal_sentence(described, run.ledger()),
    )
    return result


def removal_sentence(described: RunDescription, ledger: Sequence[LedgerEntry]) -> str | None:
    """Say how many patients were removed from a run, and what that makes stale; None if none."""
    n = described.n_removed
    if not n:
        return None
    patients = "1 patient was" if n == 1 else f"{n:,} patients were"
    told = f"{patients} removed from this run"
    n_stale = sum(one.is_stale for one in ledger)
    if not n_stale:
        return told
    are = "1 earlier certificate is" if n_stale == 1 else f"{n_stale:,} earlier certificates are"
    return f"{told}; {are} stale: certify again"


class StoredBaselines(Mapping[str, Rows]):
    """The answers of the baselines of a run, each read from its file when it is asked for."""

    def __init__(self, path: Path, names: Sequence[str], result: BenchmarkResult) -> None:
        self._path, self._names, self._rows = path, names, result.rows
        self._read: dict[str, Rows] = {}

    def __getitem__(self, name: str) -> Rows:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            with open_run(self._path, checked=True) as run:
                found = BaselineColumns.of(run, name, self._rows.columns)
            self._read[name] = Rows(found, self._rows.answers)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def stored_result(run: RunFile) -> BenchmarkResult | None:
    """Return what the run came to, without rows; None where that is not of these rows.

    The scores are those that this user computed with this version of krisis, or none.
    """
    stored = run.scores()
    left_out = run.left_out["rows"] + run.left_out["cases"]
    if stored is None or left_out or run.is_broken or stored.rows_hash != run.rows_hash:
        return None
    is_known = stored.is_own and stored.version == __version__
    scores = stored.scores if is_known else {}
    with suppress(InvalidFile):
        return BenchmarkResult.from_dict(
            {**stored.facts, "metric_scores": scores}, place=str(run.path)
        )
    return None


def stored_parts(result: BenchmarkResult) -> tuple[str, str]:
    """Return what a run file keeps of a result beside its rows: facts, and scores."""
    content = result.to_dict(include_results=False)
    scores = content.pop("metric_scores")
    return storable(dumps(content, indent=None)), storable(dumps(scores, indent=None))


def keep_scores(path: Path, result: BenchmarkResult) -> bool:
    """Keep scores that were computed again in a closed run; say whether that could be done."""
    facts, scores = stored_parts(result)
    checksums = Checksums(result.provenance.run_id or "")
    return write_briefly(
        path,
        lambda connection: store_scores(
            connection, checksums, version=__version__, facts=facts, scores=scores
        ),
    )


def _lost(described: RunDescription) -> Unfinished:
    again = "import" if described.imported else "resume the run to ask"
    return Unfinished(f"their rows were lost; {again} them again")


def _facts_so_far(
    described: RunDescription, contents: RunContents, rows: Sequence[EvaluationResult]
) -> RunFacts:
    identity, imported = described.identity, described.imported
    stop: Unfinished | None = Unfinished(_NOT_ENDED)
    if imported:  # no model was asked: rows that are not there were lost
        stop = _lost(described) if len(rows) < described.n_cases else None
    n_loaded = imported.n_expected if imported else described.n_cases
    if described.is_reading:
        stop, n_loaded = None, len(rows)
    return RunFacts(
        provenance=Provenance(
            task_facts=described.task,
            models_answered=dict(Counter(row.model for row in rows if row.model)),
            batch_size=identity.batch_size,
            repeats=identity.repeats,
            seed=identity.seed,
            suite_content_hash=identity.data,
            krisis_version=described.versions.get("krisis"),
            started_at=described.created_at,
        ),
        spending=Spending.of(contents.totals, rows, elapsed_seconds=contents.elapsed_seconds),
        prompts=Prompts.of(rows, verified=bool(identity.prompts)),
        attrition=Attrition(n_loaded=n_loaded),
        stop=contents.stop or stop,
    )
