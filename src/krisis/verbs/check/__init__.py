"""A run against requirements, each met, failed or not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from krisis.api.given import AnyRun, from_rows, run_file_of
from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.errors import InvalidValue
from krisis.results.base import BenchmarkResult
from krisis.runs.ledger import CHECK, note_decision
from krisis.verbs.check.gate import Check, Gate, check_run


def check(
    run: AnyRun,
    *,
    require: Sequence[str] = (),
    against: AnyRun | None = None,
    no_worse: Sequence[str] = (),
    non_inferior: Sequence[str] = (),
    max_not_evaluated: float = MOST_NOT_EVALUATED,
) -> Check:
    """Check a run against requirements, each met, failed or not judged.

    Arguments:
        run: A run by its path, or in memory; its rows are scored anew.
        require: Sentences such as ``accuracy >= 0.85`` or ``lower(accuracy) >= 0.8``.
        against: Another run on the same cases, for the two below.
        no_worse: Such as ``accuracy by 0.03``: no loss beyond that.
        non_inferior: Such as ``accuracy by 0.03``: a larger loss must be excluded.
        max_not_evaluated: Largest share of cases without a reply on which a run is judged.

    Returns:
        A `Check` with its verdicts; printed, one line each.

    >>> import krisis
    >>> run = krisis.score({"y": [0, 1] * 50, "p": [0, 1] * 50}, truth="y", prediction="p")
    >>> krisis.check(run, require=["lower(accuracy) >= 0.9"]).passed
    True
    """
    texts: Mapping[str, Sequence[str]] = {
        "require": require,
        "no_worse": no_worse,
        "non_inferior": non_inferior,
    }
    gate = Gate(**{name: [one] if isinstance(one, str) else one for name, one in texts.items()})
    if against is not None and not (gate.no_worse or gate.non_inferior):
        place = "a run" if isinstance(against, BenchmarkResult) else against
        raise InvalidValue(
            f"{place} is named to compare with, but nothing is required against it; add for "
            "instance --no-worse 'accuracy by 0.03'"
        )
    baseline = None if against is None else from_rows(against)
    verdicts = check_run(
        from_rows(run), gate, against=baseline, max_not_evaluated=max_not_evaluated
    )
    path = run_file_of(run)
    found = Check(tuple(verdicts), run="" if path is None else path.resolve().name)
    return found if path is None else _noted_check(found, path, gate, against)


def _noted_check(found: Check, path: Path, gate: Gate, against: AnyRun | None) -> Check:
    """Note the check in the ledger of the run; it then says how many different ones there were."""
    other = None if against is None else run_file_of(against)
    question = {**asdict(gate), "against": None if other is None else other.name}
    answer = {0: "passed", 1: "failed"}.get(found.exit_code, "not judged")
    noted = note_decision(path, kind=CHECK, question=question, answer=answer)
    return replace(found, n_checks=len(noted.questions))
