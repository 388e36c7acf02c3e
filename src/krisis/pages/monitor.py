"""The document of a threshold in use: the answer, what to do now, and the evidence over time."""

from __future__ import annotations

import math

import numpy as np

from krisis.decisions.monitor import MonitoredPart, Monitoring
from krisis.json_values import JsonObject
from krisis.metrics.risk_coverage import spread_evenly
from krisis.pages.document import (
    Cell,
    Chart,
    Column,
    Document,
    Reply,
    Section,
    Sentences,
    Stated,
    Table,
    Verdict,
    VerdictLine,
)
from krisis.pages.figure import Figure, alt, data
from krisis.pages.numbers import Estimate, count, evidence, given, level, share, threshold
from krisis.pages.palette import CORRECT, REFERENCE, WRONG
from krisis.pages.style import Mark, Series

_MOST_POINTS = 400
_LATEST_LOOKS = 12
_ANSWERS: dict[str, Reply] = {"holds": "yes", "broken": "no", "cannot tell": "cannot tell"}


def monitor_document(found: Monitoring) -> Document:
    """Return all there is to show of a threshold in use."""
    bound = found.certificate.risk
    lead = [f"{name}: the certificate has no threshold." for name in found.not_certified]
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
            Section(key="next", title="What to do now", parts=[Sentences(_next(found))]),
            Section(
                key="evidence",
                title="Evidence over time",
                parts=[
                    Chart(key="evidence", draw=lambda: evidence_figure(found)),
                    *(_looks(part, bound) for part in found.parts),
                ],
            ),
            Section(
                key="assumptions", title="What it rests on", parts=[Sentences(_assumptions(found))]
            ),
        ],
        first=("next",),
    )


def _line(found: Monitoring, part: MonitoredPart) -> VerdictLine:
    bound = found.certificate.risk
    whose = f"{part.group}: r" if part.group else "R"
    figures, reason = [], "no answer was accepted yet"
    if not math.isnan(part.risk):
        words = f"{{}} wrong of {count(part.n_accepted)} accepted answers"
        if found.certificate.method == "crc":
            words = f"a mean loss of {{}} per patient, {count(part.n_accepted)} answers accepted"
        seen = Estimate(part.risk, bound=bound)
        figures, reason = [Stated(words=words, estimate=seen)], ""
    if part.alarm is not None:
        reason = f"broken since {_patient(part.alarm.since, part.alarm.since_patient)}"
    return VerdictLine(
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
    whose = f"{part.group}: " if part.group else ""
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
    columns = (
        Column("name", "at the end of"),
        Column("count", "patients"),
        Column("count", "accepted"),
        Column("figure", "lost", "sum of the losses of the accepted answers"),
        Column("share", "risk"),
        Column("figure", "evidence broken", f"decisive from {given(1 / part.level)} on"),
        Column("figure", "evidence holds", f"decisive from {given(1 / part.level)} on"),
    )
    rows: list[list[Cell]] = [
        [
            look.when,
            look.n_patients,
            look.n_accepted,
            look.loss_sum,
            Estimate(look.loss_sum / look.n_accepted if look.n_accepted else math.nan, bound=bound),
            _factor(look.log_evidence_broken),
            _factor(look.log_evidence_holds),
        ]
        for look in shown
    ]
    left = len(part.looks) - len(shown)
    note = f"Evidence is decisive from {given(1 / part.level)} on."
    note += f" {count(left)} earlier looks are in the JSON." if left else ""
    return Table(columns=columns, rows=rows, title=part.group, note=note)


def _factor(log_evidence: float) -> str:
    return evidence(math.exp(min(log_evidence, 700.0)))


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
        f"{part.group + ': ' if part.group else ''}{threshold(part.threshold)}"
        for part in found.parts
    ]
    lines.append(f"Answers are accepted from a confidence of {', '.join(thresholds)} on.")
    return lines


def _domain(table: list[JsonObject], decisive: float) -> list[float]:
    """Return the ends of the axis of evidence; what is decisive is always on it."""
    seen = [row["evidence"] for row in table]
    return [min(0.1, *seen), max(5 * decisive, *seen)] if seen else [0.1, 5 * decisive]


def evidence_figure(found: Monitoring) -> Figure:
    """Draw the evidence that the risk is broken over the patients, with what is decisive."""
    table: list[JsonObject] = []
    for part in found.parts:
        n = part.evidence_broken.size
        for place in spread_evenly(n, _MOST_POINTS).tolist() if n else []:
            evidence = float(np.exp(np.clip(part.evidence_broken[place], -14.0, 14.0)))
            name = part.group or "all patients"
            table.append({"group": name, "patients": place + 1, "evidence": evidence})
    decisive = max(1 / part.level for part in found.parts)
    x = alt.X("patients:Q", title="patients in order of arrival", axis=alt.Axis(tickCount=6))
    powers = alt.Axis(values=[10.0**power for power in range(-6, 7, 2)], format="~r")
    scale = alt.Scale(type="log", domain=_domain(table, decisive))
    y = alt.Y("evidence:Q", title="evidence for a broken bound", axis=powers, scale=scale)
    names = [part.group or "all patients" for part in found.parts]
    tones = [str((REFERENCE, CORRECT)[i % 2]) for i in range(len(names))]
    colour = alt.Color(
        "group:N",
        title=None,
        legend=None if len(names) == 1 else alt.Legend(symbolType="stroke"),
        scale=alt.Scale(domain=names, range=tones),
    )
    lines = alt.Chart(data(table)).mark_line().encode(x=x, y=y, color=colour)
    rule = alt.Chart(data([{"decisive": decisive}])).mark_rule(
        strokeDash=[4, 3], color=str(WRONG), strokeWidth=1.5
    )
    chart = (rule.encode(y="decisive:Q") + lines).properties(width=560, height=220)
    title = {
        "broken": "The evidence that the risk is above its bound is decisive",
        "holds": "The risk holds",
        "cannot tell": "The evidence that the risk is above its bound is not decisive",
    }[found.state]
    return Figure(
        "monitor",
        title,
        f"Each new patient multiplies the evidence. It starts at 1 and is decisive from "
        f"{given(decisive)} on (dashed). A line that falls speaks for the bound.",
        chart,
        table,
        key=[Mark("line", Series(WRONG, (4, 3)), f"decisive: {given(decisive)}")],
    )
