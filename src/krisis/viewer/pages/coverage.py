"""The coverage slider: what deferring the least confident answers would change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.selective_prediction import RiskCoverageCurve
from krisis.reporting.risk_coverage import thinned
from krisis.reporting.risk_curves import points_at, run_curve
from krisis.viewer.catalogue import Catalogue, LoadedRun
from krisis.viewer.page import Page, number_of
from krisis.viewer.pages.rows import row_line
from krisis.viewer.row_index import RowFilter

N_ROWS_SHOWN = 20


def page(catalogue: Catalogue, name: str, query: Mapping[str, str]) -> Page:
    """Show the curve and the working point nearest above the coverage asked for."""
    run = catalogue.load(name)
    columns = run.table
    curve = run_curve(columns)
    content: JsonObject = {
        "name": name,
        "n_scored": columns.n_scored,
        "point": None,
        "curve": [],
    }
    if curve is not None:
        coverage = number_of(query, "coverage")
        wanted = curve.cmax if coverage is None else coverage
        points = points_at(curve, thinned(curve.coverage.size))
        content |= {"cmax": curve.cmax, "wanted": wanted, "curve": points}
        content["point"] = _working_point(run, curve, wanted)
    context = {"heading": run.result.backend_name, "drawing": _drawing(content["curve"])}
    return Page("coverage.html", f"Coverage · {name}", content, context)


def _working_point(run: LoadedRun, curve: RiskCoverageCurve, wanted: float) -> JsonObject:
    index = min(int(np.searchsorted(curve.coverage, wanted)), curve.coverage.size - 1)
    threshold = float(curve.threshold[index])
    deferred = run.select(RowFilter(deferred_at=threshold, sort="-confidence"))
    n_wrong = run.select(RowFilter(deferred_at=threshold, correct="no")).size
    return {
        **points_at(curve, np.array([index]))[0],
        "n_accepted": int(curve.n_accepted[index]),
        "n_wrong_accepted": int(curve.loss_accepted[index]),
        "n_deferred": len(deferred),
        "n_wrong_deferred": n_wrong,
        "n_right_deferred": len(deferred) - n_wrong,
        "rows": [row_line(run, int(position)) for position in deferred[:N_ROWS_SHOWN]],
    }


def _drawing(points: list[dict[str, float]]) -> JsonObject:
    """Return the two curves as the points of SVG polylines in a box of 600 by 300."""
    highest = max((point["selective_risk"] for point in points), default=0.0)
    top = min(1.0, max(0.1, np.ceil(highest * 11) / 10))
    lines = {
        risk: " ".join(
            f"{point['coverage'] * 600:.1f},{300 - point[risk] / top * 300:.1f}" for point in points
        )
        for risk in ("selective_risk", "generalized_risk")
    }
    ticks = [{"y": 300 - 300 * i / 4, "label": f"{top * i / 4:.0%}"} for i in range(5)]
    return {"top": float(top), "lines": lines, "ticks": ticks}
