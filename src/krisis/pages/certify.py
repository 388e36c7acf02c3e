"""The documents of a certificate and of its check on new patients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.decisions.answers import DiseaseCounts
from krisis.decisions.certify import Certificate, Threshold
from krisis.decisions.run_sample import groups_of, rows_hash
from krisis.decisions.verify import PartVerdict, Verification, sample_for, verify_run
from krisis.metrics.explanations import method_lines
from krisis.metrics.items import RunItems
from krisis.pages.charts.curves import certified
from krisis.pages.charts.spec import page_chart
from krisis.pages.document import (
    Column,
    Content,
    Document,
    Finding,
    Reply,
    Section,
    Sentences,
    Stated,
    Table,
    Verdict,
)
from krisis.pages.embedded import parts_of
from krisis.pages.groups import spaced
from krisis.pages.numbers import (
    Estimate,
    count,
    figure,
    given,
    level,
    p_sentence,
    score_name,
    threshold,
    whole,
)

# Below this, scores are said to differ.
SUSPECT = 0.05
_HELD: dict[str, Reply] = {"held": "yes", "broken": "no", "cannot tell": "cannot tell"}
ONE_LOOK = (
    "This is for one look: looked at every month, a certificate that just holds is called broken "
    "in 12 % of three-year histories. To look again as patients arrive, use krisis monitor."
)


def _title(certificate: Certificate) -> str:
    made = certificate.identity
    suite = " / ".join(filter(None, (made.suite, made.task, made.features, made.mode)))
    return f"{made.model or 'unnamed model'} · {suite or 'unnamed suite'}"


def _name(group: str) -> str:
    """Name a group by its column and value; without groups, all cases."""
    return spaced(group) or "all"


def promise(certificate: Certificate) -> str:
    """Say in one sentence what is promised."""
    loss = "risk" if certificate.loss == "error" else "mean cost"
    bound = given(certificate.risk)
    if certificate.method == "crc":
        return (
            f"In expectation over the calibration patients, the {loss} per case, deferred cases "
            f"counting 0, is at most {bound}: another promise than a bound on the risk of the "
            "answered cases, and without a probability."
        )
    return (
        f"With a probability of at least {given(1 - (certificate.delta or 0))} over the "
        f"calibration patients, the {loss} among future answered cases is at most {bound}."
    )


# --- The certificate -------------------------------------------------------------------------


def certificate_document(certificate: Certificate) -> Document:
    """Return all there is to show of a certificate."""
    found = [part for part in certificate.parts if part.threshold is not None]
    return Document(
        title=f"{_title(certificate)} · risk at most {given(certificate.risk)}",
        lead=[promise(certificate)] if found else [],
        verdict=Verdict([_certified(certificate, part) for part in certificate.parts], level=0.95),
        sections=[
            Section(key="thresholds", title="Cases", parts=[_counts(certificate)]),
            Section.of_sentences("assumptions", "Assumptions", certificate.assumptions),
        ],
    )


def _certified(certificate: Certificate, part: Threshold) -> Finding:
    question = f"Certified: {_name(part.group)}?" if part.group else "Certified?"
    if part.threshold is None:
        return Finding(
            key=part.group or "all",
            question=question,
            answer="no" if part.no_size_helps else "cannot tell",
            reason=f"no threshold: {part.reason}",
        )
    risk = part.risk if part.risk is not None else float("nan")
    loss = "risk" if certificate.loss == "error" else "mean cost of an answer"
    return Finding(
        key=part.group or "all",
        question=question,
        answer="yes",
        figures=[
            Stated(
                words=f"answer where the {score_name(certificate.confidence)} is "
                f"{threshold(part.threshold)} or more: {{}} of cases",
                estimate=_coverage(part),
            ),
            Stated(words=f"observed {loss} {{}}", estimate=Estimate(risk, bound=certificate.risk)),
            *_cheapest(part),
        ],
    )


def _cheapest(part: Threshold) -> Iterator[Stated]:
    """Yield what the threshold costs, and the lowest certified one where it is another."""
    yield Stated(words="mean cost per case {}", estimate=Estimate(part.cost), kind="figure")
    if part.laxest is not None and part.laxest != part.threshold:
        cost = figure(Estimate(part.laxest_cost))
        yield Stated(
            words=f"the lowest certified threshold, {threshold(part.laxest)}, answers {{}} at a "
            f"cost of {cost}",
            estimate=Estimate(part.laxest_coverage),
        )


def disease_sentence(found: DiseaseCounts, positive: str = "") -> str:
    """Say what becomes of the diseased; the three numbers add up."""
    if not found.n:
        return f"No case has the positive answer{f', {positive}' if positive else ''}."
    return (
        f"Of {count(found.n)} cases with {positive or 'the disease'}, {count(found.found)} are "
        f"found, {count(found.told_otherwise)} told otherwise and {count(found.left_for_people)} "
        "left for people."
    )


def _disease(parts: Sequence[Threshold]) -> Iterator[str]:
    """Yield what becomes of the diseased at every threshold, where an answer means disease."""
    for part in parts:
        if part.disease is not None and part.threshold is not None:
            sentence = disease_sentence(DiseaseCounts(**part.disease.model_dump()))
            named = f"{_name(part.group)}: {sentence[0].lower()}{sentence[1:]}"
            yield named if part.group else sentence


def _coverage(part: Threshold) -> Estimate:
    return Estimate(part.coverage, part.coverage_low, part.coverage_high)


def _counts(certificate: Certificate) -> Table:
    parts, bound = certificate.parts, certificate.risk
    tests = dict.fromkeys(part.test for part in parts if part.test != "none")
    return Table.of(
        parts,
        {
            Column("name", "group"): lambda part: _name(part.group),
            Column("count", "patients"): lambda part: part.n_patients,
            Column("count", "cases"): lambda part: part.n_rows,
            Column("count", "answered"): lambda part: part.n_answered,
            Column("count", "accepted", "cases at or above the threshold"): lambda part: (
                part.n_accepted
            ),
            Column("figure", "lost", "sum of the losses of the accepted cases"): lambda part: whole(
                part.loss_sum
            ),
            Column("share", "risk"): lambda part: (
                None if part.risk is None else Estimate(part.risk, bound=bound)
            ),
            Column("count", "tested"): lambda part: part.n_tested if part.test != "none" else None,
        },
        keys=[part.group for part in parts],
        note=" ".join([*([f"Test: {', '.join(tests)}."] if tests else []), *_disease(parts)]),
    )


# --- The check on new patients ---------------------------------------------------------------


def verification_document(found: Verification) -> Document:
    """Return all there is to show of a certificate on new patients."""
    parts: list[Content] = [_new_cases(found)]
    if found.not_certified:
        names = ", ".join(map(_name, found.not_certified))
        parts.append(Sentences([f"Groups without a threshold in the certificate: {names}."]))
    levels = [part.risk_interval.level for part in found.parts]
    return Document(
        title=f"{_title(found.certificate)} · {found.verdict}",
        lead=[f"Promised: {promise(found.certificate)}"],
        verdict=Verdict([_held(found, part) for part in found.parts], level=levels[0]),
        sections=[
            Section(key="cases", title="New cases", parts=parts),
            Section.of_sentences(
                "exchangeability",
                "Are the new patients like the calibration patients?",
                _exchangeability(found),
            ),
        ],
    )


def _held(found: Verification, part: PartVerdict) -> Finding:
    bound = found.certificate.risk
    figures, reason = [], ""
    if not part.n_rows:
        reason = "the run has no case of this group"
    elif not part.risk_interval.defined:
        reason = "no case is accepted, so there is no risk"
    else:
        figures.append(
            Stated(
                words=f"risk {{}}{_drawn(found.certificate, part)}, promised at most "
                f"{level(bound)}",
                estimate=Estimate.of(part.risk, part.risk_interval, bound=bound),
            )
        )
        if part.verdict == "cannot tell":
            reason = "how many patients would tell is not known"
        if part.n_to_tell is not None:
            reason = f"about {count(part.n_to_tell)} similar patients would tell in 80 % of studies"
    if part.n_rows:
        figures.append(
            Stated(
                words=f"{{}} of cases are answered at {threshold(part.threshold)} or more",
                estimate=Estimate.of(part.coverage, part.coverage_interval),
            )
        )
    return Finding(
        key=part.group or "all",
        question=f"Held: {_name(part.group)}?" if part.group else "Held?",
        answer=_HELD[part.verdict],
        figures=figures,
        reason=reason,
    )


def _drawn(certificate: Certificate, part: PartVerdict) -> str:
    clustered = part.n_patients < part.n_rows and certificate.method != "crc"
    one_each = clustered and part.risk_interval.method != "betting"
    return ", on one case per patient" if one_each else ""


def _new_cases(found: Verification) -> Table:
    return Table.of(
        found.parts,
        {
            Column("name", "group"): lambda part: _name(part.group),
            Column("name", "verdict"): lambda part: part.verdict,
            Column("count", "patients"): lambda part: part.n_patients,
            Column("count", "cases"): lambda part: part.n_rows,
            Column("count", "accepted"): lambda part: part.n_accepted,
            Column("figure", "lost"): lambda part: whole(part.loss_sum),
            Column("threshold", "threshold"): lambda part: part.threshold,
        },
        keys=[part.group for part in found.parts],
        note=" ".join(method_lines(part.risk_interval.method for part in found.parts)),
    )


def _exchangeability(found: Verification) -> Iterator[str]:
    yield _differ("the calibration patients", found.p_scores)
    if found.p_time is not None:
        yield _differ("patients earlier or later in time", found.p_time)
    if found.certificate.method == "crc":
        yield "crc bounds a mean over many calibrations, which one threshold cannot refute."
    yield ONE_LOOK


def _differ(others: str, p: float) -> str:
    words = "the scores differ" if p <= SUSPECT else "no difference of the scores is shown"
    return f"Against {others}, {words} (permutation test, {p_sentence(p)})."


def certificate_section(
    certificate: Certificate, run: RunItems, *, calibrator: Calibrator | None = None
) -> Section:
    """Show a certificate on the curve of a run; on new patients also whether it holds.

    A run that is neither the calibration run nor of new patients of the same kind is refused.
    """
    sample = sample_for(certificate, run, calibrator)
    groups = groups_of(run, certificate.by) if certificate.by else {"": np.ones(run.n_items, bool)}
    thresholds = {part.group: part.threshold for part in certificate.parts}
    parts = {
        name or "all": (sample.part(rows), thresholds.get(name)) for name, rows in groups.items()
    }
    chart = page_chart("certificate", lambda style: certified(certificate.risk, parts, style))
    found = parts_of(certificate.document(), [chart])
    if rows_hash(run, sample) != certificate.calibration_rows_hash:
        verification = verify_run(certificate, run, calibrator=calibrator)
        found += [Sentences(["On the patients of this run:"]), *parts_of(verification.document())]
    return Section(key="certificate", title="Certified threshold", parts=found)
