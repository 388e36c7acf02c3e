"""The page of one row: what was shown, asked, answered and due."""

from __future__ import annotations

from collections.abc import Mapping

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.reporting.deferral import CELLS, deferral_cell
from krisis.reporting.report import reasons_of
from krisis.results.rows import row_to_dict
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.page import Page
from krisis.viewer.pages.rows import tone_of

SHOWN_CHARACTERS = 50_000


def page(catalogue: Catalogue, name: str, position: int, query: Mapping[str, str]) -> Page:
    """Show everything that is stored of one row."""
    run = catalogue.load(name)
    if not 0 <= position < run.n_rows:
        raise InvalidValue(f"the run has rows 0 to {run.n_rows - 1}, not {position}")
    row = run.row(position)
    cell = deferral_cell(row)
    content: JsonObject = {
        "name": name,
        "position": position,
        "n_rows": run.n_rows,
        "row": row_to_dict(row),
        "tone": tone_of(row),
        "cell": cell,
        "cell_words": CELLS[cell][3] if cell else "",
        "reasons": reasons_of(row.metadata),
        "features": run.features.get(position),
    }
    whole = query.get("reply") == "all"
    reply = row.raw_response if whole else row.raw_response[:SHOWN_CHARACTERS]
    context = {
        "heading": run.result.backend_name,
        "reply": reply,
        "n_more": len(row.raw_response) - len(reply),
        "metadata": sorted(row.metadata.items()),
        "signals": sorted(row.signals.items()),
    }
    return Page("row.html", f"{row.record_id or position} · {name}", content, context)
