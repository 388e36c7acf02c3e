"""A certificate in a report: its sentences, the curve of the run and the threshold on it."""

from __future__ import annotations

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.decisions.certificate import Certificate
from krisis.decisions.run_sample import groups_of, rows_hash, sample_of
from krisis.decisions.sample import Sample
from krisis.decisions.verify import score_options, verify_run
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.pages.figure import Figure, Mark, alt, data, unit_scale
from krisis.pages.palette import CORRECT, REFERENCE, WRONG
from krisis.reporting.report import Section
from krisis.reporting.risk_coverage import thinned

_READING = (
    "From left to right less confident answers are accepted. The horizontal rule is the bound on "
    "the risk; the large point is the certified threshold."
)


def certificate_facts(
    certificate: Certificate, run: RunItems, *, calibrator: Calibrator | None = None
) -> JsonObject:
    """Return a certificate, the curve of a run and, of other patients, the verification.

    A run that is neither the calibration run nor of new patients of the same kind is refused.
    """
    sample = sample_of(run, score_options(certificate, calibrator))
    calibrated = rows_hash(run, sample) == certificate.calibration_rows_hash
    verification = None if calibrated else verify_run(certificate, run, calibrator=calibrator)
    verified = [] if verification is None else verification.document().sentences()
    groups = groups_of(run, certificate.by) if certificate.by else {"": np.ones(run.n_items, bool)}
    thresholds = {part.group: part.threshold for part in certificate.parts}
    return {
        "certificate": certificate.to_json(),
        "sentences": certificate.document().sentences(),
        "is_calibration_run": calibrated,
        "verification": None if verification is None else verification.to_json(),
        "verification_sentences": verified,
        "curve": [
            point
            for name, rows in groups.items()
            for point in _points(name or "all", sample.part(rows), thresholds.get(name))
        ],
    }


def _points(group: str, sample: Sample, threshold: float | None) -> list[JsonObject]:
    """Return the points of a curve, and the one of the certified threshold."""
    curve = sample.curve
    points = [
        {
            "group": group,
            "threshold": float(curve.threshold[index]),
            "coverage": int(curve.n_accepted[index]) / sample.n_rows,
            "risk": curve.risk(index),
            "certified": False,
        }
        for index in thinned(curve.threshold.size).tolist()
    ]
    accepted = sample.accepts(threshold)
    if accepted.any():
        place = {"coverage": float(accepted.mean()), "risk": float(sample.loss[accepted].mean())}
        points.append({"group": group, "threshold": threshold, **place, "certified": True})
    return points


def certificate_section(
    certificate: Certificate, run: RunItems, *, calibrator: Calibrator | None = None
) -> Section:
    """Return the section of a report that shows a certificate."""
    facts = certificate_facts(certificate, run, calibrator=calibrator)
    sentences = [line.strip(" -") for line in facts["sentences"]]
    tables = {
        "Certificate": [{"": line} for line in sentences],
        "On the patients of this run": [{"": line} for line in facts["verification_sentences"]],
    }
    return Section(
        "certificate",
        "Certified threshold",
        [certificate_figure(certificate, facts["curve"])],
        "No answered row has a score.",
        tables=tables,
    )


def certificate_figure(certificate: Certificate, points: list[JsonObject]) -> Figure:
    """Draw risk over coverage with the bound and the certified thresholds."""
    names = list(dict.fromkeys(point["group"] for point in points))
    tones = [CORRECT, WRONG, REFERENCE]
    colour = alt.Color(
        "group:N",
        title=None,
        legend=None if len(names) < 2 else alt.Legend(symbolType="stroke"),
        scale=alt.Scale(domain=names, range=[str(tones[i % 3]) for i in range(len(names))]),
    )
    x = alt.X("coverage:Q", title="coverage", scale=unit_scale())
    y = alt.Y("risk:Q", title="risk of the answered cases", scale=alt.Scale(zero=True))
    shown = ["group:N", "threshold:Q", "coverage:Q", "risk:Q"]
    lines = alt.Chart(data([point for point in points if not point["certified"]]))
    marks = alt.Chart(data([point for point in points if point["certified"]]))
    bound = alt.Chart(data([{"risk": certificate.risk}]))
    chart = alt.layer(
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        bound.mark_rule(strokeDash=[4, 3], color=str(WRONG)).encode(y=y),
        marks.mark_point(filled=True, size=140).encode(x=x, y=y, color=colour, tooltip=shown),
    )
    title = "Risk, coverage and the certified threshold"
    properties = chart.properties(title=title, width=420, height=260)
    key = [
        Mark("dashes", WRONG, f"the bound on the risk, {certificate.risk:g}"),
        Mark("dot", CORRECT, "the certified threshold"),
    ]
    return Figure("certificate", title, _READING, properties, points, key)
