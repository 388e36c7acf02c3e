"""The page around a document: one template and one style sheet, which the viewer shares."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from krisis import __version__
from krisis.display import spelled_out
from krisis.errors import MissingExtra
from krisis.json_values import JsonValue
from krisis.metrics.explanations import method_lines, reason_words
from krisis.pages import palette, wording
from krisis.pages.document import Document
from krisis.pages.html import chart_html, contents_html, opening_html, sections_html, table_html
from krisis.statistics.intervals import level_name


@cache
def style_sheet() -> str:
    """Return the whole style sheet: the colours, then the rules."""
    rules = (files("krisis.pages") / "static" / "page.css").read_text(encoding="utf-8")
    return palette.css_variables() + rules


def style_hash() -> str:
    """Return the hash by which a content security policy admits the style sheet and no other."""
    digest = hashlib.sha256(style_sheet().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def environment(*packages: str) -> JsonValue:
    """Return the template environment over the given packages; everything is escaped."""
    try:
        import jinja2
    except ImportError:
        raise MissingExtra.named("report", "writing HTML") from None

    loaders = [jinja2.PackageLoader(name) for name in (*packages, "krisis.pages")]
    built = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_nothing_hidden,
    )
    built.filters.update(visible=wording.visible, number=wording.number, percent=wording.percent)
    built.filters.update(beside=wording.percent_beside, reason=reason_words, methods=method_lines)
    built.filters.update(chart=chart_html, table=table_html)
    built.filters.update(level=lambda level: level_name([level]))
    return built


def _nothing_hidden(value: JsonValue) -> JsonValue:
    plain_text = isinstance(value, str) and not hasattr(value, "__html__")
    return spelled_out(value) if plain_text else value


def render(template: str, **context: JsonValue) -> str:
    """Fill a template with its context, as one self-contained file."""
    text: str = (
        environment()
        .get_template(template)
        .render(**context, style=style_sheet(), style_hash=style_hash(), version=__version__)
    )
    return text


def page(document: Document) -> str:
    """Return a document as one self-contained file that runs no script and fetches nothing."""
    parts = (opening_html(document), contents_html(document), sections_html(document))
    return render("page.html", title=document.title, body="".join(parts))
