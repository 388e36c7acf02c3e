"""What the documentation site does beyond its theme: math, pictures, changelog, decisions."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_build import gallery

ROOT = Path(__file__).parents[1]
MATH = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)
# Decisions tell why a thing was built so; whoever searches wants to use it.
DECISIONS_BOOST = 0.01


def on_files(files: Files, config: Any) -> Files:
    """Add what the programs of the gallery write."""
    for name, content in gallery.artefacts(Path(config.docs_dir) / gallery.PAGE).items():
        files.append(File.generated(config, f"{gallery.FOLDER}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Fill the pages whose content is written elsewhere."""
    place = page.file.src_uri
    if place == "about/changelog.md":
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        return text.replace("](docs/", "](../")
    if place == "decisions/index.md":
        return markdown + decisions(Path(config.docs_dir) / "decisions")
    if place.startswith("decisions/"):
        page.meta["search"] = {"boost": DECISIONS_BOOST}
    return markdown


def decisions(folder: Path) -> str:
    """List the records of a folder by their titles."""
    records = sorted(folder.glob("0*.md"))
    titles = [path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for path in records]
    return "\n".join(
        f"- [{title}]({path.name})" for title, path in zip(titles, records, strict=True)
    )


def on_page_content(content: str, **_: Any) -> str:
    """Turn LaTeX into MathML, which browsers draw without a script."""
    return MATH.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    return convert(html.unescape(found[3]).strip(), display=display)


def on_post_page(output: str, **_: Any) -> str:
    """Give the search of the theme the name that a screen reader asks for."""
    return output.replace(
        'data-md-component="search" role="dialog"',
        'data-md-component="search" role="dialog" aria-label="Search"',
    )
