"""The document of a threshold in use: the answer, what to do now, and the evidence over time."""

from __future__ import annotations

import math
from functools import partial

from krisis.pages.charts.spec import page_chart
from krisis.pages.document import (
    Column,
    Document,
    Finding,
    Reply,
    Section,
    Stated,
    Table,
    Verdict,
)
from krisis.pages.groups import spaced
from krisis.pages.numbers import Estimate, count, factor, given, level, share, threshold, whole
from krisis.verbs.monitor.chart import evidence
from krisis.verbs.monitor.evidence import MonitoredPart, Monitoring

_LATEST_LOOKS = 12
_ANSWERS: dict[str, Reply] = {"holds": "yes", "broken": "no", "cannot tell": "cannot tell"}


def monitor_document(found: Monitoring) -> Document:
    """Return all there is to show of a threshold in use."""
    bound = found.certificate.risk
    lead = [f"{spaced(name)}: the certificate has no threshold." for name in found.not_certified]
    if found.n_returning_rows:
        lead.append(
            f"{count(found.n_returning_rows)} rows of patients who had arrived before are not "
            "used: a patient counts once, at the first arrival."
        )
    return Document(
        title=f"Threshold in use · {found.certificate.identity.model}",
        lead=lead,
        verdict=Verdict([_line(found, part) for part in found.parts], level=None),
        sections=[
            Section.of_sentences("next", "What to do now", _next(found)),
            Section(
                key="evidence",
                title="Evidence over time",
                parts=[
                    page_chart("evidence", partial(evidence, found), wide=True),
                    *(_looks(part, bound) for part in found.parts),
                ],
            ),
            Section.of_sentences("assumptions", "What it rests on", _assumptions(found)),
        ],
        first=("next",),
    )


def _line(found: Monitoring, part: MonitoredPart) -> Finding:
    bound = found.certificate.risk
    whose = f"{spaced(part.group)}: r" if part.group else "R"
    figures, reason = [], "no answer was accepted yet"
    if not math.isnan(part.risk):
        words = f"{{}} wrong of {count(part.n_accepted)} accepted answers"
        if found.certificate.method == "crc":
            words = f"a mean loss of {{}} per patient, {count(part.n_accepted)} answers accepted"
        seen = Estimate(part.risk, bound=bound)
        figures, reason = [Stated(words=words, estimate=seen)], ""
    if part.alarm is not None:
        reason = f"broken since {_patient(part.alarm.since, part.alarm.since_patient)}"
    return Finding(
        key=part.group or "all",
        question=f"{whose}isk still at most {level(bound)}?",
        answer=_ANSWERS[part.state],
        figures=figures,
        reason=reason,
    )


def _patient(when: str, number: int) -> str:
    return f"{when} (patient {count(number)})"


def _next(found: Monitoring) -> list[str]:
    return [line for part in found.parts for line in _part_next(found, part)]


def _part_next(found: Monitoring, part: MonitoredPart) -> list[str]:
    whose = f"{spaced(part.group)}: " if part.group else ""
    begin = whose + ("the" if whose else "The")
    lines = []
    if part.alarm is not None:
        alarm = part.alarm
        since = Column("share", "").write(Estimate(alarm.risk, bound=found.certificate.risk))
        lines.append(
            f"{begin} evidence became decisive at {_patient(alarm.seen, alarm.seen_patient)}. "
            f"Since {_patient(alarm.since, alarm.since_patient)} the risk has been {since} "
            f"({count(alarm.n_accepted)} accepted answers). Stop answering at this threshold and "
            f"certify again, on the {count(alarm.n_patients)} patients since then and those to "
            "come: krisis certify. The beginning is an estimate."
        )
        return lines
    if part.state == "holds":
        lines.append(
            f"{begin} threshold may stay in use. There is no need to certify again; look again "
            "whenever there are new outcomes."
        )
    else:
        size = (
            f"about {count(part.n_to_tell)} labelled patients in all would tell (now "
            f"{count(part.n_patients)})"
            if part.n_to_tell is not None
            else "no realistic number of patients would tell"
        )
        lines.append(
            f"{begin} outcomes so far show neither that the risk holds nor that it is broken. If "
            f"they go on as they are, {size}. There is no reason to certify again yet."
        )
    if part.n_if_doubled is not None:
        lines.append(
            f"A risk of twice the bound would be noticed within about {count(part.n_if_doubled)} "
            "patients, with a probability of 80 %."
        )
    return lines


def _looks(part: MonitoredPart, bound: float) -> Table:
    """Return the latest looks; the evidence is shown as the factor that it is."""
    shown = part.looks[-_LATEST_LOOKS:]
    decisive = f"decisive from {given(1 / part.level)} on"
    left = len(part.looks) - len(shown)
    note = f"Evidence is {decisive}."
    note += f" {count(left)} earlier looks are in the JSON." if left else ""
    return Table.of(
        shown,
        {
            Column("name", "at the end of"): lambda look: look.when,
            Column("count", "patients"): lambda look: look.n_patients,
            Column("count", "accepted"): lambda look: look.n_accepted,
            Column("figure", "lost", "sum of the losses of the accepted answers"): lambda look: (
                whole(look.loss_sum)
            ),
            Column("share", "risk"): lambda look: Estimate(
                look.loss_sum / look.n_accepted if look.n_accepted else math.nan, bound=bound
            ),
            Column("figure", "evidence broken", decisive): lambda look: _factor(
                look.log_evidence_broken
            ),
            Column("figure", "evidence holds", decisive): lambda look: _factor(
                look.log_evidence_holds
            ),
        },
        title=spaced(part.group),
        note=note,
    )


def _factor(log_evidence: float) -> str:
    return factor(math.exp(min(log_evidence, 700.0)))


def _assumptions(found: Monitoring) -> list[str]:
    levels = {part.level for part in found.parts}
    divided = (
        f" With {len(found.parts)} groups each may err with {share(Estimate(max(levels)))}."
        if len(found.parts) > 1
        else ""
    )
    lines = [
        (
            "You may look as often as you like: as long as the risk never exceeds its bound, the "
            f"probability of ever reading broken is at most 5 %.{divided}"
        ),
        (
            "Patients arrive independently of each other, and which outcomes become known does "
            "not depend on whether the answer was right."
        ),
        (
            "Holds is about the mean risk since the first of these patients; it can become cannot "
            "tell again."
        ),
    ]
    if not found.time:
        lines.append(
            "No time was given, so the patients of one run arrive together, ordered by id."
        )
    if found.certificate.method == "crc":
        lines.append("crc bounds a mean over many calibrations, which one threshold cannot refute.")
    thresholds = [
        f"{spaced(part.group) + ': ' if part.group else ''}{threshold(part.threshold)}"
        for part in found.parts
    ]
    lines.append(f"Answers are accepted from a confidence of {', '.join(thresholds)} on.")
    return lines
