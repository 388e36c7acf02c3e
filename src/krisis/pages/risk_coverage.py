"""The document of one risk–coverage curve."""

from __future__ import annotations

from krisis.metrics.risk_coverage import RiskCoverageCurve
from krisis.pages.charts.curves import Curve, risk_coverage
from krisis.pages.document import Chart, Column, Document, Section, Table
from krisis.pages.numbers import count
from krisis.pages.style import Style


def curve_document(curve: RiskCoverageCurve) -> Document:
    """Return what a risk–coverage curve shows of itself: its points and the areas under it."""
    title, n_points = "Risk–coverage curve", curve.n_accepted.size
    if not n_points:
        nothing = f"No item of {count(curve.n_items)} was predicted, so there is no curve."
        return Document(title=title, lead=[nothing])
    counts = (Column("count", "items"), Column("count", "working points"))
    areas = {"Cmax": curve.cmax, "AURC": curve.aurc(), "AUGRC": curve.augrc()}
    table = Table(
        columns=(*counts, *(Column("figure", name) for name in areas)),
        rows=[[curve.n_items, n_points, *areas.values()]],
    )
    style = Style()
    chart = Chart(
        key="risk_coverage",
        draw=lambda: risk_coverage({"the curve": Curve.alone(curve)}, style).figure(style),
    )
    section = Section(key="curve", title="Points and areas", parts=[chart, table])
    return Document(title=title, sections=[section], first=["curve"])
