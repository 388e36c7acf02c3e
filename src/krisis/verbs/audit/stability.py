"""Whether a run says the same twice: repeats, other runs and forms, places in a call."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from krisis.answers import AnswerSet
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, plain
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import in_patient_order
from krisis.metrics.partition import verdict
from krisis.results.artefacts import kind_of
from krisis.results.base import BenchmarkResult
from krisis.results.matching import match_runs, refuse_other_data
from krisis.runs.load import load_run
from krisis.runs.places import is_run_file
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval, level_name
from krisis.statistics.repeatability import share_between, sign_flip_p, trend_within, within_sd
from krisis.statistics.shares import PRIOR_ICC, share_interval

# The askings of one case, all of them answered or abstained on.
Asked = Sequence[EvaluationResult]
Differs = Callable[[EvaluationResult, EvaluationResult], bool | None]
ValueOf = Callable[[EvaluationResult], float | None]
PLACE = "batch_position"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its 95 % interval and its denominator; ``reason`` says why it is undefined."""

    value: float
    n: int
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Shift:
    """A share under the first and the second form, and the p of the paired exact test."""

    first: float
    second: float
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far the askings of the same cases agree.

    A case is a record with its repeats, or a pair of askings of a record in two runs.
    ``answer_flips`` is the share of pairs of answers that differ, ``abstention_flips`` that of
    pairs of which one is an abstention. ``n_failed`` cases are left out because an asking has no
    reply, ``n_not_asked`` because they were not asked again.
    """

    name: str
    n_cases: int
    n_patients: int
    n_failed: int
    n_not_asked: int
    answer_flips: Figure
    abstention_flips: Figure
    confidence_sd: Figure
    confidence_between: Figure
    correct_between: Figure
    accuracy: Shift | None = None
    abstention: Shift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Accuracy and abstention by the place of a record in its call; slopes are per place."""

    shares: Sequence[Mapping[str, float]]
    accuracy_slope: float = math.nan
    accuracy_p: float = math.nan
    abstention_slope: float = math.nan
    abstention_p: float = math.nan
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Everything that a run says about its own stability."""

    repeats: Agreement | None
    against: Sequence[Agreement]
    places: Places | None
    assumptions: Sequence[str]

    def to_json(self) -> JsonObject:
        """Return the facts as JSON values."""
        return dict(plain(asdict(self)))


def stability_of(
    result: BenchmarkResult, against: Mapping[str, BenchmarkResult] | None = None, *, seed: int = 42
) -> Stability:
    """Return how stable a run is, by itself and against other runs of the same model.

    A run that asked in another form (``--perturb``) is one of them.
    """
    others = against or {}
    for name, other in others.items():
        if _asked_plainly(other) != _asked_plainly(result):
            raise InvalidValue(
                f"{name} is a run of {other.backend_name}, not of {result.backend_name}; name a "
                "run of the same model, or use `krisis compare`"
            )
    repeats = _repeats(result, seed)
    paired = [_against(result, name, other, seed) for name, other in others.items()]
    places = _places(result.evaluation_results, seed)
    return Stability(
        repeats=repeats,
        against=paired,
        places=places,
        assumptions=_assumptions([result, *others.values()], repeats, places),
    )


def stability_of_saved(
    run: str | Path | BenchmarkResult,
    against: Sequence[str | Path | BenchmarkResult] = (),
    *,
    seed: int = 42,
) -> Stability | None:
    """Return the stability of a run; None of a run file, which keeps one row per case."""
    result = _saved(run)
    if result is None:
        return None
    others = {
        f"run {number}" if isinstance(other, BenchmarkResult) else Path(other).name: found
        for number, other in enumerate(against, start=1)
        if (found := _saved(other)) is not None
    }
    return stability_of(result, others, seed=seed)


def _saved(run: str | Path | BenchmarkResult) -> BenchmarkResult | None:
    if isinstance(run, BenchmarkResult):
        return run
    path = Path(run)
    if is_run_file(path):
        return load_run(path)
    return BenchmarkResult.load(path) if kind_of(path) == "saved result" else None


def _form(result: BenchmarkResult) -> str:
    """Return the form in which a run asked; "" is the usual one."""
    asking = result.provenance.asking
    return asking.perturb if asking else ""


def _asked_plainly(result: BenchmarkResult) -> str:
    """Return the name of a model with how it is asked, but for the form."""
    return result.backend_name.removesuffix(f" · perturb {_form(result)}")


def _assumptions(
    runs: Sequence[BenchmarkResult], repeats: Agreement | None, places: Places | None
) -> list[str]:
    said = [
        (
            "A flip is another answer, or an abstention in place of an answer, to the same record; "
            f"intervals are of {level_name([DEFAULT_LEVEL])} and by patient, cases with a failed "
            "asking are left out."
        )
    ]
    if len({_form(run) for run in runs}) > 1 and repeats is None:
        said.append(
            "Records were asked once in each form: a model that samples at random flips without "
            "another form as well, which --repeats would show."
        )
    if places is not None and not places.reason:
        said.append(
            "The trend over places assumes that the order of the records within a call says "
            "nothing of how hard they are."
        )
    return said


def _repeats(result: BenchmarkResult, seed: int) -> Agreement | None:
    askings: dict[str, list[EvaluationResult]] = defaultdict(list)
    for row in in_patient_order(result.evaluation_results):
        if row.record_id:
            askings[row.record_id].append(row)
    groups = [rows for rows in askings.values() if len(rows) > 1]
    if not groups:
        return None
    return _agreement("repeats", groups, len(askings) - len(groups), seed)


def _against(result: BenchmarkResult, name: str, other: BenchmarkResult, seed: int) -> Agreement:
    runs = {"this run": result, name: other}
    refuse_other_data(runs)
    matched = match_runs(runs)
    groups = list(zip(*matched.rows.values(), strict=True))
    sizes = [run.provenance.batch_size for run in runs.values()]
    forms = [_form(run) or "the usual form" for run in runs.values()]
    asked = f"{forms[0]} here, {forms[1]} there; " if forms[0] != forms[1] else ""
    words = f"{name} ({asked}records per call: {sizes[0]} here, {sizes[1]} there)"
    n_not_asked = max(map(len, matched.unmatched.values()))
    n_failed = matched.n_matched - matched.n_compared
    return _agreement(words, groups, n_not_asked, seed, n_failed=n_failed)


def _agreement(
    name: str, groups: Sequence[Asked], n_not_asked: int, seed: int, *, n_failed: int = 0
) -> Agreement:
    settled = [[row for row in group if row.outcome != "not_evaluated"] for group in groups]
    kept = [rows for rows in settled if len(rows) > 1]
    two_forms = name != "repeats"
    confidences = _values(kept, lambda row: row.confidence if _is_answer(row) else None)
    correct = _values(kept, lambda row: float(verdict(row) == "right") if _is_answer(row) else None)
    return Agreement(
        name=name,
        n_cases=len(kept),
        n_patients=len({rows[0].cluster_id for rows in kept}),
        n_failed=len(groups) - len(kept) + n_failed,
        n_not_asked=n_not_asked,
        answer_flips=_flips(kept, _other_answer),
        abstention_flips=_flips(kept, lambda a, b: _abstains(a) != _abstains(b)),
        confidence_sd=_spread(confidences, seed),
        confidence_between=_between(confidences),
        correct_between=_between(correct),
        accuracy=_shift(kept, lambda row: verdict(row) == "right", seed) if two_forms else None,
        abstention=_shift(kept, _abstains, seed) if two_forms else None,
    )


def _other_answer(one: EvaluationResult, other: EvaluationResult) -> bool | None:
    """Say whether two answers differ; None where one of them is none."""
    if not (_is_answer(one) and _is_answer(other)):
        return None
    return not AnswerSet().same(one.prediction, other.prediction)


def _is_answer(row: EvaluationResult) -> bool:
    return row.outcome == "answered"


def _abstains(row: EvaluationResult) -> bool:
    return row.outcome == "abstained"


def _flips(groups: Sequence[Asked], differs: Differs) -> Figure:
    """Return the share of pairs of askings that differ, by patient."""
    hits: Counter[str] = Counter()
    n_pairs: Counter[str] = Counter()
    several = False
    for rows in groups:
        judged = [differs(one, other) for one, other in combinations(rows, 2)]
        known = [flip for flip in judged if flip is not None]
        hits[rows[0].cluster_id] += sum(known)
        n_pairs[rows[0].cluster_id] += len(known)
        several |= len(known) > 1
    n = n_pairs.total()
    if not n:
        return Figure(math.nan, 0, reason="no pair of answers")
    patients = list(n_pairs)
    found = share_interval(
        [hits[name] for name in patients],
        [n_pairs[name] for name in patients],
        prior_icc=1.0 if several else PRIOR_ICC,  # pairs of one case are assumed to be alike
    )
    return Figure(hits.total() / n, n, found.low, found.high)


def _values(groups: Sequence[Asked], value_of: ValueOf) -> dict[str, list[list[float]]]:
    """Return the values of every case that has two or more, by patient."""
    found: dict[str, list[list[float]]] = {}
    for rows in groups:
        values = [value for row in rows if (value := value_of(row)) is not None]
        if len(values) > 1:
            found.setdefault(rows[0].cluster_id, []).append(values)
    return found


def _spread(cases: Mapping[str, list[list[float]]], seed: int) -> Figure:
    """Return the mean standard deviation within a case, with its interval over patients."""
    if not cases:
        return Figure(math.nan, 0, reason="no case with two stated confidences")
    spreads = [within_sd(one) for one in cases.values()]
    sums, counts = np.array([one.sum() for one in spreads]), np.array([one.size for one in spreads])
    drawn = cluster_bootstrap(
        lambda weights: {"sd": (sums @ weights) / (counts @ weights)},
        len(spreads),
        options=BootstrapOptions(seed=seed),
    )
    found = drawn.interval("sd") if len(spreads) > 1 else Interval.undefined("one_patient")
    return Figure(float(sums.sum() / counts.sum()), int(counts.sum()), found.low, found.high)


def _between(cases: Mapping[str, list[list[float]]]) -> Figure:
    flat = [values for one in cases.values() for values in one]
    share = share_between(flat)
    return Figure(share, len(flat), reason="nothing varies" if math.isnan(share) else "")


def _shift(groups: Sequence[Asked], holds: Callable[[EvaluationResult], bool], seed: int) -> Shift:
    moved: Counter[str] = Counter()
    firsts = seconds = 0
    for first, second in groups:
        before, after = holds(first), holds(second)
        firsts, seconds = firsts + before, seconds + after
        moved[first.cluster_id] += after - before
    n = len(groups) or math.nan
    p = sign_flip_p(list(moved.values()), seed=seed)
    return Shift(firsts / n, seconds / n, p if groups else math.nan)


def _places(rows: Iterable[EvaluationResult], seed: int) -> Places | None:
    """Return the trend over the places of a call; None of a run without calls about several."""
    settled = [
        row
        for row in rows
        if row.outcome != "not_evaluated"
        and type(row.signals.get(PLACE)) is int
        and not row.metadata.get("sample_index")  # a repeat of a call is no further evidence
    ]
    if not settled:
        return None
    place = np.array([row.signals[PLACE] for row in settled])
    # A call begins where the place does not go on rising.
    call = np.cumsum(np.concatenate([[0], place[1:] <= place[:-1]]))
    right = np.array([verdict(row) == "right" for row in settled], dtype=np.float64)
    abstained = np.array([_abstains(row) for row in settled], dtype=np.float64)
    shares = [
        {"place": int(at), "n": int(here.sum())}
        | {"accuracy": float(right[here].mean()), "abstention": float(abstained[here].mean())}
        for at in np.unique(place)
        if (here := place == at).any()
    ]
    together = Counter(
        (row.cluster_id, number) for row, number in zip(settled, call.tolist(), strict=True)
    )
    if max(together.values()) > 1:
        reason = "rows of one patient share a call, in an order that is not random"
        return Places(shares=shares, reason=reason)
    slope, p = trend_within(right, place, call, seed=seed)
    other_slope, other_p = trend_within(abstained, place, call, seed=seed)
    return Places(
        shares=shares,
        accuracy_slope=slope,
        accuracy_p=p,
        abstention_slope=other_slope,
        abstention_p=other_p,
    )
