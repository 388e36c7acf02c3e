"""The drawing of the Decide page: risk over coverage, on the axis of its slider."""

from __future__ import annotations

import math

from krisis.json_values import JsonObject

WIDTH, HEIGHT = 600, 260
# Of the surest few answers the risk jumps: it does not set the scale.
_FIRST_COVERAGE = 0.05
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.2, 0.25)


def drawing(content: JsonObject) -> JsonObject | None:
    """Return places in a box of 600 by 260: line, band, target, working and certified point."""
    curve, point = content["curve"], content["point"]
    if not curve or point is None:
        return None
    question = content["question"]
    target = question["share"] if question["kind"] == "wrong" else None
    step, top = _scale(content, target)

    def y(risk: float) -> float:
        return round(HEIGHT - HEIGHT * risk / top, 2)

    def x(coverage: float) -> float:
        return round(WIDTH * coverage, 2)

    line = [f"{x(one['coverage'])},{y(one['risk'])}" for one in curve]
    band = [one for one in content["band"] if not math.isnan(one["low"])]
    upper = [f"{x(one['coverage'])},{y(one['high'])}" for one in band]
    lower = [f"{x(one['coverage'])},{y(one['low'])}" for one in reversed(band)]
    certified = content["certified"]
    risk = point["risk_interval"]
    return {
        "ticks": [
            {"y": y(i * step), "label": f"{round(100 * i * step, 4):g} %"}
            for i in range(round(top / step) + 1)
        ],
        "line": " ".join(line),
        "few": [tuple(map(float, one.split(","))) for one in line] if len(line) <= 40 else [],
        "band": " ".join(upper + lower) if len(band) > 1 else "",
        "target_y": None if target is None or target > top else y(target),
        "target_x": x(question["share"]) if question["kind"] == "answer" else None,
        "x": x(point["coverage"]),
        "y": None if math.isnan(point["risk"]) else y(point["risk"]),
        "low": None if math.isnan(risk["low"]) else y(risk["low"]),
        "high": None if math.isnan(risk["high"]) else max(0.0, y(risk["high"])),
        "certified": None
        if certified["threshold"] is None
        else (x(certified["coverage"]), y(certified["n_wrong"] / certified["n_kept"])),
    }


def _scale(content: JsonObject, target: float | None) -> tuple[float, float]:
    """Return a step that is labelled truly, and the top of the axis: four to eight steps."""
    curve, point = content["curve"], content["point"]
    seen = [one["risk"] for one in curve if one["coverage"] >= _FIRST_COVERAGE] or [
        one["risk"] for one in curve
    ]
    ends = [point["risk"], point["risk_interval"]["high"], 1.3 * (target or 0.0), *seen]
    highest = min(1.0, 1.1 * max([0.01, *(end for end in ends if not math.isnan(end))]))
    step = next((s for s in _STEPS if highest / s <= 6), 0.25)
    return step, step * math.ceil(round(highest / step, 9))
