"""`--stop-when`: a question to a run, looked at after every record in a fixed random order.

Whatever order the answers arrive in, a patient is looked at when all its rows and those of every
patient before it are there. So the decision depends on neither the speed of a reply nor on kills
and resumes; calls in progress when it falls are kept in the run and have no part in it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from krisis.errors import InvalidValue
from krisis.execution.batches import Case
from krisis.execution.stopping import Stop
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics import default_classification_metrics, usual_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Share
from krisis.metrics.scoring import metric_from_name
from krisis.metrics.table import Answers, FloatArray, Table
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result
from krisis.results.matching import refuse_other_data
from krisis.results.rows import rows_fingerprint
from krisis.results.stops import Decided, StopRule
from krisis.statistics.sequential import (
    FEWEST_PATIENTS,
    LOG_DECISIVE,
    BetMixture,
    CoinMixture,
    RunningShare,
)

_BETTER = re.compile(r"\s*(?:(?P<metric>\S.*?)\s+)?better\s+than\s+(?P<run>\S.*?)\s*")
_WIDTH = re.compile(r"\s*half_width\s*\(\s*(?P<metric>[^()]+?)\s*\)\s*<=\s*(?P<limit>\S+)\s*")
_LIMIT = re.compile(
    r"\s*(?P<metric>[^()<>=\[\]]+?(?:\[[^\[\]]*\])?)\s*(?P<sign>>=|<=)\s*(?P<limit>\S+)\s*"
)
Answer = Literal["yes", "no", ""]
_FORMS = "'better than RUN', 'accuracy >= 0.85' or 'half_width(accuracy) <= 0.03'"
# A width this far above the limit by the crudest reckoning need not be worked out.
_FAR = 1.3


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: better than a run, a metric beyond a limit, or an interval narrow enough."""

    text: str
    kind: Literal["better", "limit", "width"]
    metric: str
    limit: float = 0.5
    at_least: bool = True
    run: str = ""

    @classmethod
    def parsed(cls, text: str) -> Question:
        """Read a question, or say in one sentence why it is none."""
        if found := _BETTER.fullmatch(text):
            return cls(text, "better", found["metric"] or "accuracy", run=found["run"])
        if found := _WIDTH.fullmatch(text):
            return cls(text, "width", found["metric"], _between(found["limit"], text, 0.5))
        if found := _LIMIT.fullmatch(text):
            limit = _between(found["limit"], text, 1.0)
            return cls(text, "limit", found["metric"], limit, found["sign"] == ">=")
        raise InvalidValue(f"{text!r} is not a rule to stop by; write {_FORMS}")


def _between(text: str, whole: str, highest: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < highest:
        raise InvalidValue(
            f"{whole!r} must end with a number between 0 and {highest:g}, not {text!r}"
        )
    return value


class Watch:
    """Looks at the rows of a run in the order asked, and ends the run when the answer is known."""

    def __init__(
        self, text: str, cases: Sequence[Case], *, answers: Answers, description: JsonMapping
    ) -> None:
        question = Question.parsed(text)
        self._answers = answers
        self._metric = _share_metric(question, cases, answers)
        self._identity: JsonObject = {"rule": text}
        self._baseline: dict[int, float] | None = None
        if question.kind == "better":
            question = replace(question, at_least=self._metric.direction == "higher")
            run = load_result(Path(question.run))
            this_run = BenchmarkResult([], {}, description)
            refuse_other_data({question.run: run, "this run": this_run})
            self._baseline = _hits_of(run, question.run, cases, self._metric, answers)
            self._identity["against"] = rows_fingerprint(run.evaluation_results)
        patients: dict[str, list[int]] = {}
        for case in cases:
            patients.setdefault(case.record.cluster_id, []).append(case.position)
        self._patients = list(patients.values())
        self._question = question
        self._test = _test_of(question, max(map(len, self._patients)))
        self._n_cases = len(cases)
        self._n_patients, self._n_records, self._n_failed, self._n_skipped = 0, 0, 0, 0
        self._answer: Answer = ""

    def identity(self) -> JsonObject:
        """Return what the decision depends on beside the rows: the rule, and the rows of RUN."""
        return self._identity

    def look(self, rows: Mapping[int, EvaluationResult], stop: Stop) -> None:
        """Go on to the first patient that is not complete; ask for the end at a decision."""
        ready: list[list[int]] = []
        while not self._answer and (at := self._n_patients + len(ready)) < len(self._patients):
            if not all(position in rows for position in self._patients[at]):
                break
            ready.append(self._patients[at])
        hits = self._hits([position for patient in ready for position in patient], rows)
        for patient in ready:
            scored = [at for at in patient if rows[at].outcome != "not_evaluated"]
            self._n_patients += 1
            self._n_records += len(patient)
            self._n_failed += len(patient) - len(scored)
            self._n_skipped += sum(not self._is_comparable(position) for position in scored)
            counted = [hits[position] for position in scored if position in hits]
            self._test.add(sum(counted), len(counted))
            self._answer = self._test.answer()
            if self._answer:
                break
        if self._answer and len(rows) < self._n_cases:
            stop.request(Decided(self.outcome().sentence))

    def _is_comparable(self, position: int) -> bool:
        return self._baseline is None or position in self._baseline

    def _hits(
        self, positions: Sequence[int], rows: Mapping[int, EvaluationResult]
    ) -> dict[int, float]:
        """Return what each row that counts adds: its hit, less that of RUN on the same record."""
        scored = [
            position
            for position in positions
            if rows[position].outcome != "not_evaluated" and self._is_comparable(position)
        ]
        table = Table([rows[position] for position in scored], self._answers, as_given=True)
        share = _share(self._metric, table) if scored else None
        if share is None:
            return {}
        before = self._baseline or {}
        found = zip(scored, share.hits.tolist(), share.among.tolist(), strict=True)
        return {at: hit - before.get(at, 0.0) for at, hit, counts in found if counts}

    def outcome(self) -> StopRule:
        """Return the answer so far, with what it rests on."""
        counts = {"not evaluated": self._n_failed, "not scored in the other run": self._n_skipped}
        left_out = ", ".join(f"{n} {words}" for words, n in counts.items() if n)
        records = f"{self._n_records} of {self._n_cases} records in random order"
        records += f" ({left_out}: left out)" if left_out else ""
        after = f"{self._answer}, after" if self._answer else "not decided by"
        words = self._test.words(self._metric.identifier, self._question.run)
        return StopRule(
            rule=self._question.text,
            answer=self._answer or "not decided",
            found=f"{after} {records}: {words}",
            n_records=self._n_records,
            n_patients=self._n_patients,
            n_failed=self._n_failed,
            n_skipped=self._n_skipped,
            e_value=self._test.e_value(),
        )


def _share(metric: BaseMetric, table: Table) -> Share | None:
    """Return a metric as a share of rows; None where it has no value or is none."""
    try:
        form = metric.form(table)
    except Exception:  # a metric of one's own; how it fails is said when the run is scored
        return None
    return form if isinstance(form, Share) else None


def _share_metric(question: Question, cases: Sequence[Case], answers: Answers) -> BaseMetric:
    """Return the metric of a question, tried on right answers and on abstentions."""
    tables = [
        Table([_row(case, abstained=abstained) for case in cases], answers, as_given=True)
        for abstained in (False, True)
    ]

    def fits(metric: BaseMetric) -> bool:
        answered, abstained = (_share(metric, table) for table in tables)
        if answered is None or question.kind != "better":
            return answered is not None
        # The answer may not decide whether a row counts: else the runs count different ones.
        same = abstained is not None and np.array_equal(answered.among, abstained.among)
        return same and metric.direction != "neither"

    metric = metric_from_name(question.metric)
    if not fits(metric):
        known = [*usual_metrics(), *default_classification_metrics()]
        usable = ", ".join(one.key for one in known if fits(one))
        what = "the same rows in both runs" if question.kind == "better" else "these rows"
        raise InvalidValue(
            f"{question.text!r}: {question.metric} is not a share of {what}; a run can be stopped "
            f"by one of {usable}"
        )
    return metric


def _row(case: Case, *, abstained: bool) -> EvaluationResult:
    record = case.record
    return EvaluationResult(record.label, record.label, abstained, metadata=record.metadata)


def _hits_of(
    run: BenchmarkResult, name: str, cases: Sequence[Case], metric: BaseMetric, answers: Answers
) -> dict[int, float]:
    """Return the hits of a saved run by the position of the case."""
    seen: Counter[str] = Counter()
    stored: dict[tuple[str, int], EvaluationResult] = {}
    for one in run.evaluation_results:
        stored[one.record_id, seen[one.record_id]] = one
        seen[one.record_id] += 1
    shared, rows = [], []
    for case in cases:
        row = stored.get((case.record.record_id, case.sample_index))
        if row is None or row.outcome == "not_evaluated":
            continue
        if not answers.same(row.ground_truth, case.record.label):
            raise InvalidValue(
                f"record {row.record_id!r} has the right answer {row.ground_truth!r} in {name} and "
                f"{case.record.label!r} here; the runs are on different data"
            )
        shared.append(case.position)
        rows.append(row)
    share = _share(metric, Table(rows, answers, as_given=True)) if rows else None
    if share is None:
        raise InvalidValue(
            f"{name} has scored no record of this run, so nothing can be better than it; name a "
            "run or a full result of the same suite and task"
        )
    pairs = zip(shared, share.hits.tolist(), share.among.tolist(), strict=True)
    return {position: float(hit) for position, hit, counts in pairs if counts}


class _Test(Protocol):
    """Takes the patients in, and says when the answer is known."""

    def add(self, hits: float, n_rows: int) -> None:
        """Take in one patient: the sum of its hits, or of its differences, and its rows."""

    def answer(self) -> Answer:
        """Return the answer, nothing as long as there is none."""

    def words(self, metric: str, run: str) -> str:
        """Say what was found."""

    def e_value(self) -> float | None:
        """Return the evidence, where the test is of that kind."""


def _test_of(question: Question, most_rows: int) -> _Test:
    if question.kind == "width":
        return _Width(question.limit, clustered=most_rows > 1)
    return _Evidence(question, most_rows)


class _Evidence:
    """`better than` and `>=`: two-sided, at most 5 % wrong over all looks."""

    def __init__(self, question: Question, most_rows: int) -> None:
        self._question = question
        self._most_rows = most_rows
        self._coin = CoinMixture(question.limit) if most_rows == 1 else None
        self._bets = BetMixture()
        self._sum, self._n_rows = 0.0, 0

    def add(self, hits: float, n_rows: int) -> None:
        """Take in one patient."""
        self._sum += hits
        self._n_rows += n_rows
        limit, is_pair = self._question.limit, self._question.kind == "better"
        if self._coin is not None and is_pair:  # only pairs that differ are tosses
            self._coin.add(hits > 0, abs(hits))
        elif self._coin is not None:
            self._coin.add(hits, n_rows)
        elif is_pair:
            self._bets.add(hits / self._most_rows)
        else:
            largest = self._most_rows * max(limit, 1 - limit)
            self._bets.add((hits - limit * n_rows) / largest)

    def answer(self) -> Answer:
        """Return the side that the evidence is for, once it is decisive."""
        test = self._coin or self._bets
        if test.log_evidence < LOG_DECISIVE:
            return ""
        return "yes" if bool(test.favours_more) == self._question.at_least else "no"

    def words(self, metric: str, run: str) -> str:
        """Say the estimate and the evidence."""
        share = self._sum / self._n_rows if self._n_rows else math.nan
        figure = f"{metric} differs by {share:+.4f} from {run}" if run else f"{metric} {share:.4f}"
        return f"{figure}, e-value {self.e_value():.3g} (decided at 20)"

    def e_value(self) -> float:
        """Return the evidence."""
        return math.exp(min(700.0, float((self._coin or self._bets).log_evidence)))


class _Width:
    """`half_width`: the ordinary interval, narrow enough; asymptotic, for its n is not fixed."""

    def __init__(self, limit: float, *, clustered: bool) -> None:
        self._limit = limit
        self._share = RunningShare(clustered=clustered)
        self._n_rows = 0
        self._limits: FloatArray | None = None  # known at the stop alone

    def add(self, hits: float, n_rows: int) -> None:
        """Take in one patient."""
        self._share.add(hits, n_rows)
        self._n_rows += n_rows

    def answer(self) -> Answer:
        """Return yes once the interval is narrow enough; never no."""
        if self._share.n_patients < FEWEST_PATIENTS:
            return ""
        share = float(self._share.share[0])
        if 1.96 * math.sqrt(share * (1 - share) / self._n_rows) > _FAR * self._limit:
            return ""
        limits = self._share.limits()
        if float(limits[1, 0] - limits[0, 0]) / 2 > self._limit:
            return ""
        self._limits = limits
        return "yes"

    def words(self, metric: str, run: str) -> str:
        """Say the interval at the stop, and none before."""
        if self._limits is None:
            few = self._share.n_patients < FEWEST_PATIENTS
            why = f"of fewer than {FEWEST_PATIENTS} patients" if few else "still wider"
            return f"the interval of {metric} is {why}"
        low, high = self._limits[:, 0]
        share = float(self._share.share[0])
        return f"{metric} {share:.4f}, interval {low:.4f} to {high:.4f} (asymptotic)"

    def e_value(self) -> None:
        """Return nothing: a width is no evidence."""
