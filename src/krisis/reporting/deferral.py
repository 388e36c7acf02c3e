"""The deferral confusion: what the case asked for against what the model did."""

from __future__ import annotations

from collections import Counter

from krisis.json_values import JsonObject
from krisis.metrics.base import MetricScore
from krisis.pages.figure import Chart, Figure, alt, data
from krisis.pages.palette import CORRECT, INK, MUTED, WRONG

# Cell → (what the case asked for, what the model did, whether that is aligned, in plain words).
CELLS = {
    "defer_when_needed": ("deferral was due", "abstained", True, "deferred when needed"),
    "answer_when_should_defer": (
        "deferral was due",
        "answered",
        False,
        "answered, but deferral was due",
    ),
    "abstain_when_should_answer": (
        "an answer was safe",
        "abstained",
        False,
        "abstained needlessly",
    ),
    "answer_when_safe": ("an answer was safe", "answered", True, "answered when safe"),
    "no_answer_when_should_defer": (
        "deferral was due",
        "gave no answer",
        False,
        "no answer, but deferral was due",
    ),
    "no_answer_when_safe": (
        "an answer was safe",
        "gave no answer",
        False,
        "no answer, though one was safe",
    ),
}


def confusion_table(score: MetricScore) -> list[JsonObject]:
    """Return the cells with their share of what the case asked for."""
    confusion = score.details.get("confusion", {})
    totals: Counter[str] = Counter()
    for cell, n_rows in confusion.items():
        totals[CELLS[cell][0]] += n_rows
    return [
        {
            "case": asked,
            "model": did,
            "meaning": words,
            "n": int(confusion[cell]),
            "share_of_case": int(confusion[cell]) / totals[asked] if totals[asked] else None,
            "aligned": aligned,
        }
        for cell, (asked, did, aligned, words) in CELLS.items()
        if cell in confusion
    ]


def confusion_figure(score: MetricScore, whose: str = "") -> Figure | None:
    """Draw what was due against what was done, or return None where no row says what was due."""
    table = confusion_table(score)
    if not table:
        return None
    details = score.details
    return Figure(
        "_".join(["deferral_confusion", *whose.split()[1:2]]),
        f"Did it defer when it should have?{whose}",
        (
            f"Of {score.n_evaluated:,} rows that say what was due, {score.value:.1%} are aligned. "
            f"Always answering would score {details['always_answer']:.1%} and always deferring "
            f"{details['always_defer']:.1%} on the same rows, so read both rows of the table: "
            "the share in each cell is of its own row. Framed cells are the misses."
        ),
        _grid(table),
        table,
    )


def _grid(table: list[JsonObject]) -> Chart:
    base = _tiles_base([_tile(row) for row in table])
    tone = alt.condition("datum.aligned", alt.value(str(CORRECT)), alt.value(str(WRONG)))
    strength = alt.Scale(domain=[0, 1], range=[0.05, 0.4])
    tiles = base.mark_rect(cornerRadius=3).encode(
        fill=tone,
        stroke=tone,
        strokeWidth=alt.condition("datum.aligned", alt.value(0.5), alt.value(1.6)),
        fillOpacity=alt.FillOpacity("strength:Q", scale=strength, legend=None),
    )
    large = base.mark_text(dy=-14, fontSize=22, fontWeight=600, color=str(INK))
    words = base.mark_text(dy=10, fontSize=12, color=str(INK)).encode(text=alt.Text("meaning:N"))
    shares = base.mark_text(dy=27, fontSize=11, color=str(MUTED)).encode(text=alt.Text("share:N"))
    return tiles + large.encode(text=alt.Text("count:N")) + words + shares


def _tile(row: JsonObject) -> JsonObject:
    share = row["share_of_case"]
    words = "no such case" if share is None else f"{share:.1%} of row"
    return {**row, "count": f"{row['n']:,}", "share": words, "strength": share or 0.0}


def _tiles_base(tiles: list[JsonObject]) -> Chart:
    bare = {"ticks": False, "domain": False}
    return alt.Chart(data(tiles), width=420, height=190).encode(
        x=alt.X(
            "model:N",
            sort=["abstained", "answered", "gave no answer"],
            axis=alt.Axis(title="the model …", orient="top", labelAngle=0, **bare),
            scale=alt.Scale(paddingInner=0.03),
        ),
        y=alt.Y(
            "case:N",
            sort=["deferral was due", "an answer was safe"],
            axis=alt.Axis(title=None, minExtent=120, **bare),
            scale=alt.Scale(paddingInner=0.06),
        ),
    )
