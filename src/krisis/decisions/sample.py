"""Rows with scores and losses: the thresholds they offer, and those that a method certifies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from krisis.costs import TOLERANCE
from krisis.errors import InvalidValue
from krisis.metrics.table import BoolArray, FloatArray, IntArray
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval
from krisis.statistics.risk_tests import (
    allowed_errors,
    betting_p,
    binomial_p,
    exact_interval,
    fewest_rows,
    first_alike,
    hoeffding_bentkus_p,
    inverted_interval,
)
from krisis.statistics.row_mean import PatientRows, row_mean
from krisis.statistics.shares import share_interval

# This share of delta goes to the threshold that answers everything, the rest to the chains: the
# contract's fifth. With 0.17 the chains would accept 0.223 in place of 0.212 of 100 patients with 8
# rows (ICC 0.1).
WHOLE_SHARE = 0.2
# The first of two chains tests at this share of their delta, the second at the rest.
FIRST_SHARE = 0.3
# Neither start accepts less than this share of the answers, in per cent.
_STRICTEST_PERCENT = 35


@dataclass(frozen=True, slots=True)
class Chain:
    """Candidates that are tested one after the other at one level, up to the first failure."""

    level: float
    candidates: Sequence[int]


@dataclass(frozen=True, slots=True)
class CandidateTest:
    """One candidate that was tested."""

    candidate: int
    p: float
    level: float

    @property
    def passed(self) -> bool:
        """Tell whether a risk above the bound is rejected."""
        return self.p <= self.level


def laxest_passed(tests: Iterable[CandidateTest]) -> int | None:
    """Return the laxest candidate that passed; None where none did."""
    return max((test.candidate for test in tests if test.passed), default=None)


def divided(delta: float) -> tuple[float, float]:
    """Divide delta: the level at which answering everything is tested, and the delta of the chains.

    >>> divided(0.5)
    (0.1, 0.4)
    """
    whole = WHOLE_SHARE * delta
    return whole, delta - whole


def chain_starts(n_answers: int, risk: float, delta: float) -> list[tuple[float, int]]:
    """Return the level and the fewest accepted rows of every chain, from counts alone."""
    fewest = fewest_rows(risk, delta)
    part = -(-_STRICTEST_PERCENT * n_answers // 100)
    if n_answers < 4 * fewest:
        return [(delta, first_alike(max(fewest, part), risk, delta))]
    second = first_alike(max(2 * fewest, part), risk, delta)
    low = FIRST_SHARE * delta
    first = first_alike(2 * fewest_rows(risk, low), risk, low)
    if first >= second:
        return [(delta, second)]
    return [(low, first), ((1 - FIRST_SHARE) * delta, second)]


def chains_of(accepted: IntArray, risk: float, delta: float) -> list[Chain]:
    """Return the chains over candidates that accept so many rows.

    The first of two chains ends before the first candidate of the second.
    """
    if not accepted.size:
        return []
    starts = chain_starts(int(accepted[-1]), risk, delta)
    chains: list[Chain] = []
    stop = accepted.size
    for level, start in reversed(starts):
        within = np.flatnonzero(accepted[:stop] >= start)
        candidates = _thinned(within, allowed_errors(accepted[within], risk, level))
        chains.insert(0, Chain(level, candidates))
        stop = candidates[0] if candidates else stop
    return chains


def _thinned(candidates: IntArray, allowed: IntArray) -> list[int]:
    """Keep a candidate only if it allows more errors than the last one kept."""
    before = np.concatenate([[-1], allowed[:-1]]) if allowed.size else allowed
    kept: list[int] = candidates[allowed > before].tolist()  # more rows never allow fewer
    return kept


def fixed_sequence(
    accepted: IntArray,
    p_values: Callable[[Sequence[int]], Iterable[float]],
    risk: float,
    delta: float,
) -> list[CandidateTest]:
    """Test whether everything may be answered, then one or two chains.

    ``p_values`` gives those of some candidates, as far as they are asked for. A first chain that
    passed everything hands its level on to the second.

    With several thresholds the chance to accept any whose risk exceeds the bound is at most
    ``delta``: each chain is a fixed sequence, both together are a fallback procedure, and the
    threshold that answers everything has a level of its own (Bonferroni). So any of the accepted
    thresholds may be chosen afterwards, and stricter ones are tested even where everything may be
    answered: one of them may cost less.

    References: Angelopoulos et al., Learn then test, Annals of Applied Statistics 19 (2025);
    Wiens and Dmitrienko, The fallback procedure, J. Biopharmaceutical Statistics 15 (2005) 929–942.
    """
    tests: list[CandidateTest] = []
    whole_level, delta = divided(delta)
    if accepted.size and int(allowed_errors(accepted[-1], risk, whole_level)) >= 0:
        everything = accepted.size - 1
        tests += [CandidateTest(everything, p, whole_level) for p in p_values([everything])]
    whole = True
    for number, chain in enumerate(chains_of(accepted, risk, delta)):
        level = delta if number == 1 and whole else chain.level
        for candidate, p in zip(chain.candidates, p_values(chain.candidates), strict=False):
            tests.append(CandidateTest(candidate, p, level))
            if not tests[-1].passed:
                whole = False
                break
    return tests


def sgr(accepted: IntArray, errors: IntArray, risk: float, delta: float) -> list[CandidateTest]:
    """Bisect the candidates, each test at delta/⌈log₂ A⌉; valid where risk rises as scores fall.

    Reference: Geifman and El-Yaniv, Selective classification for deep neural networks,
    NeurIPS 2017.
    """
    tests: list[CandidateTest] = []
    if not accepted.size:
        return tests
    most_tests = max(1, math.ceil(math.log2(int(accepted[-1]))))
    low, high = -1, accepted.size
    # One test more than the level was divided by could follow where A is a power of 2.
    while high - low > 1 and len(tests) < most_tests:
        middle = (low + high) // 2
        p = float(binomial_p(errors[middle], accepted[middle], risk))
        tests.append(CandidateTest(middle, p, delta / most_tests))
        low, high = (middle, high) if tests[-1].passed else (low, middle)
    return tests


def crc(loss_sums: FloatArray, n_population: int, risk: float) -> int | None:
    """Return the laxest candidate with (Σ loss + 1)/(N + 1) ≤ risk, of the whole population.

    ``loss_sums`` are those of the accepted rows (or patient means) of every candidate. The promise
    is another one: the expected loss per case, deferred ones counting 0, is at most ``risk``.

    Reference: Angelopoulos et al., Conformal risk control, ICLR 2024.
    """
    within = np.flatnonzero(loss_sums + 1 <= risk * (n_population + 1))
    return int(within[-1]) if within.size else None


# The risk that answered cases may have, and the chance of certifying it wrongly, unless given.
DEFAULT_RISK, DEFAULT_DELTA = 0.05, 0.1
Method = Literal["fixed-sequence", "sgr", "crc"]
METHODS: tuple[Method, ...] = ("fixed-sequence", "sgr", "crc")
FEWEST_FOR_BETTING = 5
"""With several rows per patient: so many times the fewest rows must there be patients to bet on."""
_LEAST_RISK = 1e-6
_TESTS_AT_ONCE = 1024
_USUAL = 0.1  # so few losses have at least this chance
TestName = Literal["exact binomial", "Hoeffding–Bentkus", "betting", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The distinct scores from strict to lax: the rows that each accepts, the sum of their losses.

    ``order`` are the rows with a score from the surest on, so that a candidate accepts the first.
    """

    order: IntArray
    threshold: FloatArray
    n_accepted: IntArray
    loss_sum: FloatArray

    @classmethod
    def of(cls, score: FloatArray, loss: FloatArray) -> Candidates:
        """Put the rows in order; those without a score are accepted by none."""
        scored = np.flatnonzero(~np.isnan(score))
        order = scored[np.argsort(-score[scored], kind="stable")]
        ranked = score[order]
        last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))[: order.size]
        return cls(order, ranked[last], last + 1, np.cumsum(loss[order])[last])

    def risk(self, candidate: int) -> float:
        """Return the mean loss of the accepted rows."""
        return float(self.loss_sum[candidate] / self.n_accepted[candidate])


def accepts(score: FloatArray, threshold: float | None) -> BoolArray:
    """True where a row is answered at a threshold; None defers everything, and so does no score."""
    if threshold is None:
        return np.zeros(score.size, dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        return np.asarray(score >= threshold)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of the population: score (NaN: deferred at every threshold), loss and patient.

    ``binary`` says that a loss can only be 0 or 1, ``most_rows`` how many rows a patient can have.
    ``saved`` is what answering a row saves against deferring it, by the costs of the task; without
    it no threshold is cheaper than another.
    """

    score: FloatArray
    loss: FloatArray
    patient: IntArray
    n_patients: int
    binary: bool = True
    most_rows: int = 1
    seed: int = 42
    saved: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Count the rows, deferred ones among them."""
        return self.score.size

    @cached_property
    def clustered(self) -> bool:
        """Tell whether a patient has several rows."""
        return self.n_patients < self.n_rows

    @cached_property
    def n_scored(self) -> int:
        """Count the answered rows with a score."""
        return int(np.count_nonzero(~np.isnan(self.score)))

    @cached_property
    def candidates(self) -> Candidates:
        """The thresholds that the rows offer."""
        return Candidates.of(self.score, self.loss)

    @cached_property
    def betting_order(self) -> IntArray:
        """The patients in the seeded random order in which bets are placed."""
        return np.random.default_rng(self.seed).permutation(self.n_patients)

    def accepts(self, threshold: float | None) -> BoolArray:
        """True where a row is answered at a threshold; None accepts nothing."""
        return accepts(self.score, threshold)

    def patient_sums(self, values: FloatArray | BoolArray) -> FloatArray:
        """Add up one number per row within every patient, in the order of the bets."""
        sums = np.bincount(self.patient, weights=values, minlength=self.n_patients)
        return np.asarray(sums[self.betting_order], dtype=np.float64)

    def part(self, rows: BoolArray) -> Sample:
        """Return some of the rows, with the patients who have any."""
        kept, patient = np.unique(self.patient[rows], return_inverse=True)
        return replace(
            self,
            score=self.score[rows],
            loss=self.loss[rows],
            patient=patient.astype(np.int64),
            n_patients=kept.size,
            saved=None if self.saved is None else self.saved[rows],
        )

    def one_row_each(self) -> Sample:
        """Return one row per patient, drawn as a place from 1 to ``most_rows``.

        A patient without a row at that place is skipped: so every row is drawn with one chance,
        and the risk of the drawn rows is the risk per row.
        """
        generator = np.random.default_rng(self.seed)
        wanted = generator.integers(self.most_rows, size=self.n_patients)
        order = np.argsort(self.patient, kind="stable")
        counts = np.bincount(self.patient, minlength=self.n_patients)
        place = np.empty(self.n_rows, dtype=np.int64)
        place[order] = np.arange(self.n_rows) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.part(place == wanted[self.patient])

    def cheapest(self, thresholds: FloatArray) -> int:
        """Return the place of the threshold that saves the most; of equals, the laxest."""
        if self.saved is None:
            return int(thresholds.argmin())
        curve = Candidates.of(self.score, self.saved)
        place = np.searchsorted(-curve.threshold, -thresholds, side="right") - 1
        saved = curve.loss_sum[place] / self.n_rows
        best = np.flatnonzero(saved >= saved.max() - TOLERANCE)
        return int(best[thresholds[best].argmin()])

    def few_patients(self, risk: float, delta: float) -> bool:
        """Tell whether there are too few patients to bet on their sums."""
        return self.n_patients < FEWEST_FOR_BETTING * fewest_rows(risk, divided(delta)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSearch:
    """What a method tested on a sample, and the candidate that it recommends, if it accepts any.

    Of several that were accepted, ``chosen`` is the cheapest and ``laxest`` answers the most cases.
    ``tested`` is the sample itself, or the rows of it that were drawn, one per patient.
    """

    method: Method
    risk: float
    delta: float
    test: TestName
    tested: Sample
    tests: Sequence[CandidateTest]
    chosen: int | None
    laxest: int | None

    @property
    def threshold(self) -> float | None:
        """The certified threshold that is recommended."""
        return None if self.chosen is None else float(self.tested.candidates.threshold[self.chosen])

    @property
    def laxest_threshold(self) -> float | None:
        """The lowest of the certified thresholds."""
        return None if self.laxest is None else float(self.tested.candidates.threshold[self.laxest])

    @property
    def best(self) -> int | None:
        """The tested candidate that came closest to passing, of those with a risk below the bound.

        Where none has, the one with the lowest risk; the laxest where there are too few rows to
        test any, and None without a row to answer.
        """
        risk_of, n = self.tested.candidates.risk, self.tested.candidates.threshold.size
        if not self.tests:
            return n - 1 if n else None
        below = [test for test in self.tests if risk_of(test.candidate) < self.risk]
        if below:
            return min(below, key=lambda test: test.p).candidate
        return self.lowest

    @property
    def lowest(self) -> int | None:
        """The tested candidate with the lowest risk; None where none was tested."""
        tested = (test.candidate for test in self.tests)
        return min(tested, key=self.tested.candidates.risk, default=None)

    def exceeds_everywhere(self, level: float = DEFAULT_LEVEL) -> bool:
        """Tell whether no threshold, tested or not, may be under the bound, so that no size helps.

        The lower limit of the lowest tested risk is at least the bound, and no stricter threshold,
        of too few rows for a test, looks better: as few losses as its own are usual at the lowest
        tested risk. Where the true risk is the bound everywhere, that all estimates exceed it
        happens in 34 % of the samples of 200 patients; this in 0. Of `crc`, which bounds another
        risk, nothing is said.
        """
        sample, lowest = self.tested, self.lowest
        if self.method == "crc" or self.chosen is not None or lowest is None:
            return False
        found = sample.candidates
        accepted = np.zeros(sample.n_rows, dtype=np.bool_)
        accepted[found.order[: found.n_accepted[lowest]]] = True
        patients, losses = sample.patient[accepted], sample.loss[accepted]
        if sample.binary:
            rows = PatientRows.of(patients)
            low = share_interval(rows.sums(losses), rows.size, level=level).low
        else:
            low = row_mean(losses, patients).lower(level)
        if low < self.risk:
            return False
        tested = min(found.n_accepted[test.candidate] for test in self.tests)
        strict = found.n_accepted < tested
        size = sample.most_rows if sample.clustered else 1
        n, lost = found.n_accepted[strict] // size, np.floor(found.loss_sum[strict] / size)
        return bool((binomial_p(lost, n, found.risk(lowest)) >= _USUAL).all())


def check_bounds(risk: float, delta: float) -> None:
    """Refuse a bound or a delta that is no probability."""
    for name, value in (("risk", risk), ("delta", delta)):
        if not 0 < value < 1:
            percent = f"; for {value:g} % write {value / 100:g}" if 1 <= value < 100 else ""
            raise InvalidValue(f"the {name} must be between 0 and 1, not {value!r}{percent}")
    if risk < _LEAST_RISK:
        raise InvalidValue(
            f"a risk of {risk!r} would take millions of cases; choose {_LEAST_RISK:g} or more"
        )


def find_threshold(sample: Sample, method: Method, risk: float, delta: float) -> ThresholdSearch:
    """Return the search of a method for the thresholds that it certifies on a sample.

    Of those that `fixed_sequence` accepts the cheapest is recommended; `sgr` and `crc` give one.
    """
    drawn = sample.clustered and (method == "sgr" or sample.few_patients(risk, delta))
    tested = sample.one_row_each() if drawn and method != "crc" else sample
    found, tests = tested.candidates, list[CandidateTest]()
    test: TestName = "none"
    if method == "crc":
        laxest = crc(_patient_mean_sums(sample), sample.n_patients, risk)
    else:
        if tested.clustered:
            test = "betting"
            equivalents = found.n_accepted // tested.most_rows  # patients, all of whose rows count
            tests = fixed_sequence(
                equivalents,
                lambda js: (_betting_p(tested, j, risk, delta) for j in js),
                risk,
                delta,
            )
        elif method == "sgr":
            test = "exact binomial"
            tests = sgr(found.n_accepted, np.rint(found.loss_sum).astype(np.int64), risk, delta)
        else:
            test = "exact binomial" if tested.binary else "Hoeffding–Bentkus"
            tests = fixed_sequence(
                found.n_accepted, lambda js: _row_p(tested, js, risk), risk, delta
            )
        laxest = laxest_passed(tests)
    chosen = laxest
    if method == "fixed-sequence" and laxest is not None:
        passed = np.array([one.candidate for one in tests if one.passed])
        chosen = int(passed[sample.cheapest(found.threshold[passed])])
    return ThresholdSearch(
        method=method,
        risk=risk,
        delta=delta,
        test=test,
        tested=tested,
        tests=tests,
        chosen=chosen,
        laxest=laxest,
    )


def _row_p(sample: Sample, candidates: Sequence[int], risk: float) -> Iterator[float]:
    """Give the p-values of candidates, many at once: a chain may have 100,000 and end early."""
    for start in range(0, len(candidates), _TESTS_AT_ONCE):
        block = candidates[start : start + _TESTS_AT_ONCE]
        n, total = sample.candidates.n_accepted[block], sample.candidates.loss_sum[block]
        if sample.binary:
            yield from binomial_p(np.rint(total), n, risk).tolist()
        else:
            pairs = zip(total.tolist(), n.tolist(), strict=True)
            yield from (hoeffding_bentkus_p(one, rows, risk) for one, rows in pairs)


def _betting_p(sample: Sample, candidate: int, risk: float, delta: float) -> float:
    rows = sample.candidates.order[: sample.candidates.n_accepted[candidate]]
    patient, n = sample.patient[rows], sample.n_patients
    losses = np.bincount(patient, weights=sample.loss[rows], minlength=n).astype(np.float64)
    counts = np.bincount(patient, minlength=n).astype(np.float64)
    order = sample.betting_order
    return betting_p(losses[order], counts[order], risk, most_rows=sample.most_rows, level=delta)


def _patient_mean_sums(sample: Sample) -> FloatArray:
    """Return, per candidate, the sum of accepted losses, each patient's rows averaged."""
    found = sample.candidates
    counts = np.bincount(sample.patient, minlength=sample.n_patients)
    means = sample.loss / counts[sample.patient]
    sums: FloatArray = np.cumsum(means[found.order])[found.n_accepted - 1]
    return sums


def ratio_interval(
    sample: Sample, hits: FloatArray | BoolArray, rows: BoolArray, *, level: float = 0.95
) -> Interval:
    """Return the interval of Σ hits / Σ rows, valid for any number of patients.

    ``hits`` lie in [0, 1] and are 0 outside ``rows``; those that are true or false, or losses of a
    ``binary`` sample, are counted.
    """
    counted = hits.dtype == np.bool_ or sample.binary
    n, total = int(rows.sum()), float(hits.sum())
    if n == 0:
        return Interval.undefined("no_rows", level=level)
    if not sample.clustered:
        if counted:
            return exact_interval(total, n, level)
        return inverted_interval(
            lambda r: hoeffding_bentkus_p(total, n, r),
            lambda r: hoeffding_bentkus_p(n - total, n, 1 - r),
            level,
            "Hoeffding–Bentkus",
        )
    sums, counts = sample.patient_sums(hits), sample.patient_sums(rows)
    tail = (1 - level) / 2

    def p(found: FloatArray, r: float) -> float:
        return betting_p(found, counts, r, most_rows=sample.most_rows, level=tail)

    return inverted_interval(
        lambda r: p(sums, r), lambda r: p(counts - sums, 1 - r), level, "betting"
    )
