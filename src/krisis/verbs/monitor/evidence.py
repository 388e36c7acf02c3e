"""A certified threshold in use: does its risk still hold, looked at as often as one likes?

`verify` answers once. Looked at every month with the risk exactly at its bound, it says "broken" in
12 % of histories within three years. Here the evidence is a bet on patients in order of arrival
(`statistics.sequential`), so that over all looks together a false alarm has a probability of 5 % at
most; with several groups each has its share of the 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import groups_of
from krisis.decisions.verify import (
    Moment,
    Promise,
    moments_of,
    refuse_calibration_patients,
    refuse_other,
    sample_for,
)
from krisis.display import Documented
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.table import FloatArray
from krisis.statistics.sequential import (
    ALPHA,
    excess_beginning,
    excess_evidence,
    patients_to_tell,
    shortfall_evidence,
)

State = Literal["holds", "broken", "cannot tell"]
_SEED = 42
DOUBLED = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    """What had been seen at the end of one moment: a date, or a run where no time is given.

    The evidence is a logarithm: decisive from −log(level) on.
    """

    when: str
    n_patients: int
    n_accepted: int
    loss_sum: float
    log_evidence_broken: float
    log_evidence_holds: float


@dataclass(frozen=True, slots=True)
class Alarm:
    """When the evidence became decisive, and since when the risk has most plausibly been too high.

    Patients are counted from 1 in order of arrival. The counts and the risk are of the patients
    from the beginning of the excess up to now.
    """

    since: str
    since_patient: int
    seen: str
    seen_patient: int
    n_patients: int
    n_accepted: int
    risk: float


@dataclass(frozen=True, slots=True)
class MonitoredPart:
    """One threshold: what its patients say so far.

    ``level`` is the probability of a false alarm that it may have. ``n_to_tell`` is how many
    patients in all would decide (in 80 % of histories) at the risk seen so far, ``n_if_doubled``
    how many would show a risk of twice the bound; None where 16,000 would not.
    """

    group: str
    threshold: float
    state: State
    level: float
    n_patients: int
    n_rows: int
    n_accepted: int
    loss_sum: float
    risk: float
    alarm: Alarm | None
    n_to_tell: int | None
    n_if_doubled: int | None
    looks: Sequence[Look]
    # The logarithm of the evidence after every patient, for the picture.
    evidence_broken: FloatArray = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Monitoring(Documented):
    """What the patients since a certificate say to it; see `krisis.monitor`."""

    builder: ClassVar[str] = "krisis.verbs.monitor.page:monitor_document"

    certificate: Certificate
    parts: Sequence[MonitoredPart]
    not_certified: Sequence[str]
    time: str
    n_returning_rows: int

    @property
    def state(self) -> State:
        """Broken where any part is, holds where all do."""
        found = {part.state for part in self.parts}
        if "broken" in found:
            return "broken"
        return "holds" if found == {"holds"} else "cannot tell"

    def to_json(self) -> JsonObject:
        """Return the findings with stable keys: state and, per part, counts, alarm and looks."""
        return {
            "kind": "krisis.monitoring",
            "schema_version": 1,
            "state": self.state,
            "risk_bound": self.certificate.risk,
            "method": self.certificate.method,
            "model": self.certificate.identity.model,
            "time": self.time or None,
            "n_returning_rows": self.n_returning_rows,
            "groups_not_certified": list(self.not_certified),
            "parts": [_part_json(part) for part in self.parts],
        }


def _part_json(part: MonitoredPart) -> JsonObject:
    found = asdict(part)
    del found["evidence_broken"]
    return found


def monitor_runs(
    certificate: Certificate,
    runs: Sequence[RunItems],
    *,
    calibrator: Calibrator | None = None,
    time: str = "",
) -> Monitoring:
    """Follow a certificate over new patients, in the order in which they arrived.

    Runs arrive in the order given. ``time`` names a metadata column that orders the patients of
    all runs; without it those of one run arrive together. A patient counts once, at the first
    arrival: the rows of a later one depend on those of the first, and are only counted.
    """
    known = {part.group: part for part in certificate.parts if part.threshold is not None}
    if not known:
        raise InvalidValue("the certificate names no threshold, so there is nothing to monitor")
    if not runs:
        raise InvalidValue("no new patients are named; add --new with a run")
    level = ALPHA / len(known)
    promises = {name: Promise.of(certificate, part) for name, part in known.items()}
    arrivals: list[_Arrival] = []
    groups_seen: set[str] = set()
    for number, run in enumerate(runs):
        refuse_other(certificate, run, "", calibrator)
        found, names = _arrivals(certificate, run, number, promises, calibrator, time)
        arrivals += found
        groups_seen |= names
    first, n_returning = _first_arrivals(arrivals)
    return Monitoring(
        certificate,
        [_watched(name, promise, first, level) for name, promise in promises.items()],
        sorted(groups_seen - set(known)),
        time,
        n_returning,
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """The rows of one patient in one group at one moment.

    ``stake`` is what the bound applies to: the accepted rows, over the most that a patient can
    have; of a ``crc`` promise the patient as a whole. ``surplus`` is what the loss exceeds the
    bound by, between −risk and 1 − risk, which is bet on.
    """

    n_rows: int
    n_accepted: int
    lost: float
    stake: float
    surplus: float

    @classmethod
    def of(
        cls, promise: Promise, *, n_rows: int, n_accepted: int, lost: float, most_rows: int
    ) -> _Counts:
        """Count the rows of a patient for a promise."""
        stake = 1.0 if promise.whole else n_accepted / most_rows
        loss = lost / (n_rows if promise.whole else most_rows)
        return cls(n_rows, n_accepted, lost, stake, loss - promise.risk * stake)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The rows of one patient at one moment, by group."""

    patient: str
    run: int
    moment: Moment
    when: str
    n_rows: int
    of_group: dict[str, _Counts]


def _arrivals(
    certificate: Certificate,
    run: RunItems,
    number: int,
    promises: dict[str, Promise],
    calibrator: Calibrator | None,
    time: str,
) -> tuple[list[_Arrival], set[str]]:
    """Return the patients of a run with what they say at every moment, and the groups they have."""
    sample = sample_for(certificate, run, calibrator)
    refuse_calibration_patients(certificate, run, sample)
    groups = groups_of(run, certificate.by)
    moments: list[Moment | None] = [float(number)] * run.n_items  # runs arrive one after another
    if time:
        moments = moments_of(run, time)
        if n_missing := moments.count(None):
            raise InvalidValue(
                f"{n_missing} of {run.n_items} rows of {run.source.path} have no {time!r}, so they "
                "have no place in the order of arrival; add it or leave them out"
            )
    by_visit: dict[tuple[int, Moment], list[int]] = {}
    for row, (code, moment) in enumerate(zip(run.participant.tolist(), moments, strict=True)):
        assert moment is not None
        by_visit.setdefault((code, moment), []).append(row)
    inside = {name: groups[name] for name in promises if name in groups}
    accepted = {name: sample.accepts(promises[name].threshold) for name in inside}
    found = []
    for (code, moment), rows in by_visit.items():
        of_group = {}
        for name, mask in inside.items():
            place = np.array(rows)[mask[rows]]
            if place.size:
                taken = accepted[name][place]
                of_group[name] = _Counts.of(
                    promises[name],
                    n_rows=place.size,
                    n_accepted=int(taken.sum()),
                    lost=float(sample.loss[place][taken].sum()),
                    most_rows=sample.most_rows,
                )
        name = run.participants[code]
        unnamed = name.startswith("row ")  # a number, not a name: nobody to recognise
        found.append(
            _Arrival(
                patient=f"{number} {name}" if unnamed else name,
                run=number,
                moment=moment,
                when=_written(moment) if time else Path(run.source.path).name,
                n_rows=len(rows),
                of_group=of_group,
            )
        )
    return found, set(groups)


def _written(moment: Moment) -> str:
    if not isinstance(moment, datetime):
        return f"{moment:g}"
    midnight = moment.time() == datetime.min.time() and moment.tzinfo is None
    return moment.date().isoformat() if midnight else moment.isoformat()


def _first_arrivals(arrivals: Sequence[_Arrival]) -> tuple[list[_Arrival], int]:
    """Return every patient at the first arrival, in order, and the rows of later ones.

    Patients of one moment are ordered by run and name, which no outcome can change.
    """
    try:
        ordered = sorted(arrivals, key=lambda one: (one.moment, one.run, one.patient))
    except TypeError:
        raise InvalidValue(
            "the times of the runs cannot be put in one order: numbers and dates, or some with a "
            "time zone; write all in one way"
        ) from None
    first: dict[str, _Arrival] = {}
    n_returning = 0
    for one in ordered:
        if one.patient in first:
            n_returning += one.n_rows
        else:
            first[one.patient] = one
    return list(first.values()), n_returning


def _watched(
    group: str, promise: Promise, arrivals: Sequence[_Arrival], level: float
) -> MonitoredPart:
    mine = [one for one in arrivals if group in one.of_group]
    counts = [one.of_group[group] for one in mine]
    surplus, stake = (np.array([getattr(c, n) for c in counts]) for n in ("surplus", "stake"))
    broken = excess_evidence(surplus, promise.risk)
    holds = shortfall_evidence(surplus, promise.risk)
    decisive = np.flatnonzero(broken >= -math.log(level))
    state: State = "cannot tell"
    alarm = None
    if decisive.size:
        state, seen = "broken", int(decisive[0])
        begun = excess_beginning(surplus[: seen + 1], promise.risk)
        alarm = Alarm(
            since=mine[begun].when,
            since_patient=begun + 1,
            seen=mine[seen].when,
            seen_patient=seen + 1,
            n_patients=len(mine) - begun,
            n_accepted=sum(one.n_accepted for one in counts[begun:]),
            risk=_risk(surplus[begun:], stake[begun:], promise.risk),
        )
    elif holds.size and holds[-1] >= -math.log(level):
        state = "holds"
    return MonitoredPart(
        group=group,
        threshold=promise.threshold,
        state=state,
        level=level,
        n_patients=len(mine),
        n_rows=sum(one.n_rows for one in counts),
        n_accepted=sum(one.n_accepted for one in counts),
        loss_sum=math.fsum(one.lost for one in counts),
        risk=_risk(surplus, stake, promise.risk),
        alarm=alarm,
        n_to_tell=_n_to_tell(surplus, promise.risk, level) if state == "cannot tell" else None,
        n_if_doubled=_n_if_doubled(stake, promise.risk, level),
        looks=_looks(mine, counts, broken, holds),
        evidence_broken=broken,
    )


def _risk(surplus: FloatArray, stake: FloatArray, bound: float) -> float:
    total = float(stake.sum())
    return bound + float(surplus.sum()) / total if total else math.nan


def _looks(
    mine: Sequence[_Arrival], counts: Sequence[_Counts], broken: FloatArray, holds: FloatArray
) -> list[Look]:
    """Return what was known at the end of every moment."""
    found, n_accepted, lost = [], 0, 0.0
    for place, (one, count) in enumerate(zip(mine, counts, strict=True)):
        n_accepted, lost = n_accepted + count.n_accepted, lost + count.lost
        if place + 1 == len(mine) or mine[place + 1].moment != one.moment:
            evidence = float(broken[place]), float(holds[place])
            found.append(Look(one.when, place + 1, n_accepted, lost, *evidence))
    return found


def _n_to_tell(surplus: FloatArray, risk: float, level: float) -> int | None:
    """Return how many patients like those so far would decide, either way."""
    if not surplus.any():
        return None
    evidence = excess_evidence if surplus.mean() > 0 else shortfall_evidence

    def drawn(shape: tuple[int, int]) -> FloatArray:
        return np.random.default_rng(_SEED).choice(surplus, shape)

    return patients_to_tell(drawn, evidence, risk, level=level)


def _n_if_doubled(stake: FloatArray, risk: float, level: float) -> int | None:
    """Return how many patients would show twice the risk; a patient's rows are wrong together.

    That is the worst case: independent rows tell sooner. ``stake`` are the rows at stake of the
    patients so far, over the most that one can have.
    """
    doubled = min(1.0, DOUBLED * risk)
    if not stake.any() or doubled <= risk:
        return None

    def drawn(shape: tuple[int, int]) -> FloatArray:
        generator = np.random.default_rng(_SEED)
        wrong = generator.random(shape) < doubled
        found: FloatArray = generator.choice(stake, shape) * (wrong - risk)
        return found

    return patients_to_tell(drawn, excess_evidence, risk, level=level)
