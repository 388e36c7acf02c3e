"""Scripts and style sheets of the pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from krisis.pages.shell import style_sheet


@cache
def asset(name: str) -> str:
    """Return a script or a style sheet of the pages; every style begins with the shared one."""
    text = (files("krisis.viewer") / "static" / name).read_text(encoding="utf-8")
    return style_sheet() + text if name.endswith(".css") else text
