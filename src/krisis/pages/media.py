"""The media that a document is written in, by name."""

from __future__ import annotations

from collections.abc import Callable

from krisis.errors import UnknownName
from krisis.pages.document import Document
from krisis.pages.html import html_fragment
from krisis.pages.latex import latex_tables
from krisis.pages.markdown import markdown_text
from krisis.pages.number_lines import csv_text
from krisis.pages.terminal import terminal_text

MEDIA: dict[str, Callable[[Document], str]] = {
    "table": terminal_text,
    "csv": csv_text,
    "markdown": markdown_text,
    "latex": latex_tables,
    "html": html_fragment,
}


def written(document: Document, medium: str) -> str:
    """Return all of a document as text of a medium: table, csv, markdown, latex or html.

    >>> written(Document(title="ckd"), "table")
    'ckd'
    """
    if medium not in MEDIA:
        raise UnknownName.among("medium", medium, MEDIA)
    return MEDIA[medium](document)
