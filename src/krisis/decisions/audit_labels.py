"""What if labels are wrong: corrected risk, order of runs, agreement of labels, suspect rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from krisis.confidence.variants import scores_of
from krisis.decisions.label_agreement import TRUTH, LabelAgreement, agreement_lines, agreement_of
from krisis.decisions.label_noise import (
    CorrectedRisk,
    FlipRates,
    Judged,
    corrected_risk,
    swapping_rate,
)
from krisis.decisions.run_sample import ScoreOptions
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.labels import canonical_label
from krisis.metrics.table import IntArray

_N_RANGE = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """Flip rates, a range of them, and the metadata columns that hold further labels."""

    flip_rates: FlipRates | None = None
    flip_range: tuple[float, float] | None = None
    columns: Sequence[str] = ()
    score: ScoreOptions = field(default_factory=ScoreOptions)

    def __post_init__(self) -> None:
        low, high = self.flip_range or (0.0, 0.5)
        if not 0 <= low < high < 1:
            raise InvalidValue(
                f"the range of flip rates must rise within 0 and 1, not {low:g} to {high:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two runs on the rows that both answered, and the flip rate at which their order changes.

    ``rates`` gives for every kind of error in the labels the least flip rate that changes the
    order (None: none does) and the largest that these labels allow.
    """

    path: str
    model: str
    n_rows: int
    risk: float
    other_risk: float
    rates: Mapping[str, Mapping[str, float | None]]
    n_any_labels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAudit:
    """What the labels of a run allow to say."""

    n_answered: int
    n_patients: int
    observed_risk: float
    corrected: CorrectedRisk | None
    flip_rates: FlipRates | None
    range: Sequence[CorrectedRisk]
    order: Sequence[Order]
    agreement: LabelAgreement | None
    suspects: Sequence[Mapping[str, object]] | None
    no_suspects: str
    n_confident: int
    words: tuple[str, str]

    def to_json(self) -> JsonObject:
        """Return plain facts."""
        return asdict(self)


def audit_labels(
    run: RunItems, options: LabelOptions, others: Sequence[RunItems] = ()
) -> LabelAudit:
    """Audit the labels of a run, with other runs on the same records."""
    answered = run.predicted
    if not answered.any():
        raise InvalidValue(f"no row of {run.source.path} was answered, so there is no risk")
    judged = Judged.of(run, answered)
    rates = options.flip_rates
    low, high = options.flip_range or (math.nan, math.nan)
    steps = np.linspace(low, high, _N_RANGE).tolist() if options.flip_range else []
    suspects, n_confident, why_none = _suspects([run, *others], options)
    return LabelAudit(
        n_answered=int(answered.sum()),
        n_patients=int(np.unique(judged.patient).size),
        observed_risk=float((judged.answer != judged.label).mean()),
        corrected=None if rates is None else corrected_risk(judged, rates),
        flip_rates=rates,
        range=[corrected_risk(judged, FlipRates(rate)) for rate in steps],
        order=[_order(run, other, rates) for other in others],
        agreement=agreement_of(run, options.columns, options.score.seed)
        if options.columns
        else None,
        suspects=suspects,
        no_suspects=why_none,
        n_confident=n_confident,
        words=run.words,
    )


def _places(run: RunItems) -> dict[str, int]:
    """Return the place of every record, which must have a name of its own."""
    found = {row.record_id: place for place, row in enumerate(run.table.rows)}
    if "" in found or len(found) < run.n_items:
        raise InvalidValue(
            f"rows of {run.source.path} have no record_id of their own, so they cannot be matched "
            "with another run"
        )
    return found


def _shared(runs: Sequence[RunItems]) -> list[IntArray]:
    """Return the places of the records that every run answered, in one order."""
    places = [_places(run) for run in runs]
    first = places[0]
    common = [name for name in first if all(name in other for other in places[1:])]
    found = [np.array([place[name] for name in common], dtype=np.int64) for place in places]
    if not common:
        raise InvalidValue("the runs share no record_id, so there is nothing to compare")
    for run, place in zip(runs, found, strict=True):
        _refuse_other_truth(runs[0], found[0], run, place)
    both = np.all([run.predicted[p] for run, p in zip(runs, found, strict=True)], axis=0)
    if not both.any():
        raise InvalidValue("no record was answered by every run, so there is nothing to compare")
    return [place[both] for place in found]


def _refuse_other_truth(left: RunItems, here: IntArray, right: RunItems, there: IntArray) -> None:
    for i, j in zip(here.tolist(), there.tolist(), strict=True):
        truths = [r.table.labels[r.table.truth[k]] for r, k in ((left, i), (right, j))]
        if truths[0] != truths[1]:
            raise InvalidValue(
                f"record {left.table.rows[i].record_id!r} has different right answers "
                f"({truths[0]!r} and {truths[1]!r}); the runs were made on different data"
            )


def _order(run: RunItems, other: RunItems, given: FlipRates | None) -> Order:
    """Compare two runs on the rows that both answered."""
    here, there = _shared([run, other])
    left, right = Judged.of(run, here), Judged.of(other, there)
    if left.labels != right.labels:
        raise InvalidValue("the runs have different answers, so that no flip rate suits both")
    kinds = {"every label": FlipRates(1.0)}
    kinds |= {f"labels of {one}": FlipRates(by_label={one: 1.0}) for one in left.labels}
    if given is not None and given.by_label is not None:
        most = max(given.by_label.values()) or 1.0
        scaled = {label: rate / most for label, rate in given.by_label.items()}
        kinds["labels in the proportions given"] = FlipRates(by_label=scaled)
    wrong = [int((one.answer != one.label).sum()) for one in (left, right)]
    ends = ("changes_at", "largest")
    rates = {
        kind: dict(zip(ends, swapping_rate(left, right, flips), strict=True))
        for kind, flips in kinds.items()
    }
    return Order(
        path=other.source.path,
        model=other.source.model,
        n_rows=here.size,
        risk=wrong[0] / here.size,
        other_risk=wrong[1] / here.size,
        rates=rates if wrong[0] != wrong[1] else {},
        # One label that turns from the better run's answer to the other's moves both.
        n_any_labels=abs(wrong[0] - wrong[1]) // 2 + 1,
    )


def _suspects(
    runs: Sequence[RunItems], options: LabelOptions
) -> tuple[list[Mapping[str, object]] | None, int, str]:
    """Return the rows on which all runs are sure of one answer that is not the label.

    Sure is a score that is at least the median of the run's answers. Without scores there are none,
    for a reason, unless scores were asked for.
    """
    if len(runs) < 2:
        return None, 0, ""
    places, score = _shared(runs), options.score
    try:
        scores = [scores_of(run, score.variant(run), calibrator=score.calibrator) for run in runs]
    except InvalidValue as error:
        if score.confidence or score.calibrator is not None:
            raise
        return None, 0, str(error)
    with np.errstate(invalid="ignore"):
        sure = np.all(
            [s[p] >= np.nanmedian(s) for s, p in zip(scores, places, strict=True)], axis=0
        )
    found: list[Mapping[str, object]] = []
    for i in np.flatnonzero(sure).tolist():
        where = [place[i] for place in places]
        given = [
            run.table.labels[run.table.prediction[k]] if run.table.prediction[k] >= 0 else None
            for run, k in zip(runs, where, strict=True)
        ]
        row = runs[0].table.rows[where[0]]
        label = canonical_label(row.ground_truth)
        if len(set(given)) == 1 and given[0] not in (None, label):
            found.append(
                {
                    "record_id": row.record_id,
                    "label": label,
                    "answer": given[0],
                    "confidence": [float(s[k]) for s, k in zip(scores, where, strict=True)],
                    "labels": {
                        name: row.metadata.get(name) for name in options.columns if name != TRUTH
                    },
                }
            )
    return found, int(sure.sum()), ""


_MOST_SHOWN = 20


def label_lines(audit: LabelAudit) -> list[str]:
    """Return the audit of labels in words."""
    whose = f"{audit.n_answered} answered rows of {audit.n_patients} {audit.words[0]}s"
    lines = [f"Labels ({whose}), share of wrong answers by the labels {audit.observed_risk:.4f}"]
    lines += [] if audit.corrected is None else _corrected_lines(audit.corrected)
    lines += _range_lines(audit.range)
    for order in audit.order:
        lines += _order_lines(order)
    lines += [] if audit.agreement is None else agreement_lines(audit.agreement)
    lines += [] if audit.suspects is None else _suspect_lines(audit)
    lines += [f"no list of suspect labels: {audit.no_suspects}"] if audit.no_suspects else []
    assumed = label_assumptions(audit)
    return [*lines, *(["Assumptions:"] if assumed else []), *(f"  - {one}" for one in assumed)]


def _corrected_lines(found: CorrectedRisk) -> list[str]:
    bounds = f"between {found.any_low:.4f} and {found.any_high:.4f}"
    corrected = f"{found.risk:.4f} ({found.low:.4f} to {found.high:.4f})"
    lines = [f"corrected risk {corrected}; if any labels may be wrong, {bounds}"]
    if not 0 <= found.unbounded <= 1:
        lines.append(
            f"the estimate itself is {found.unbounded:.4f}: more labels would be wrong than "
            "the errors that were seen"
        )
    if not found.possible:
        lines.append("no mix of true answers gives these labels at these flip rates")
    return lines


def _range_lines(found: Sequence[CorrectedRisk]) -> list[str]:
    if not found:
        return []
    risks = [one.risk for one in found]
    low, high = min(one.low for one in found), max(one.high for one in found)
    over = f"flip rates from {found[0].flip_rate:g} to {found[-1].flip_rate:g}"
    bounds = f"between {min(risks):.4f} and {max(risks):.4f}"
    return [f"{over}: risk {bounds}, intervals from {low:.4f} to {high:.4f}"]


def _order_lines(order: Order) -> list[str]:
    risks = f"risk {order.risk:.4f} and {order.other_risk:.4f}"
    other = order.model or order.path
    lines = [f"against {other}: {risks} on {order.n_rows} rows that both answered"]
    if not order.rates:
        return [*lines, "  the runs have the same risk, so there is no order to change"]
    for kind, found in order.rates.items():
        said = f"no flip rate changes it (up to {found['largest']:.3f}, the largest possible)"
        if found["changes_at"] is not None:
            said = f"changes at a flip rate of {found['changes_at']:.4f}"
        lines.append(f"  order if {kind} may be wrong: {said}")
    share = order.n_any_labels / order.n_rows
    lines.append(
        f"  order if any labels may be wrong: {order.n_any_labels} of them ({share:.4f}), chosen "
        "against it, change it"
    )
    return lines


def _suspect_lines(audit: LabelAudit) -> list[str]:
    suspects = audit.suspects or []
    sure = f"{audit.n_confident} rows that every run is sure of (its surer half)"
    lines = [f"{len(suspects)} of {sure} have one answer of all runs against the label"]
    lines += [
        f"  {row['record_id']}: label {row['label']}, answer {row['answer']}"
        for row in suspects[:_MOST_SHOWN]
    ]
    left = len(suspects) - _MOST_SHOWN
    return lines + ([f"  and {left} more (--json lists all)"] if left > 0 else [])


def label_assumptions(audit: LabelAudit) -> list[str]:
    """Say what the audit of labels rests on, one sentence each."""
    found = []
    if audit.corrected is not None or audit.range or audit.order:
        found.append(
            "Given the true answer, a label flips independently of what the model answers and of "
            "whether it answers."
        )
        found.append("A wrong label is any of the other answers with the same chance.")
    if audit.corrected is not None or audit.range:
        found.append("The flip rates are known, so that the intervals hold no doubt about them.")
    if audit.agreement is not None:
        found.append(f"α is resampled by {audit.words[0]}; labels are missing at random.")
    return found
