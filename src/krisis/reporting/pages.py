"""The HTML templates and the style sheet that the report and the viewer share."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from krisis import __version__
from krisis.display import escaped, spelled_out
from krisis.errors import MissingExtra
from krisis.json_values import JsonValue
from krisis.metrics.explanations import method_lines, reason_words
from krisis.pages import palette
from krisis.pages.document import Document
from krisis.pages.html import body_html, partition_html, table_html, verdict_html
from krisis.reporting import wording
from krisis.statistics.intervals import level_name


@cache
def style_sheet() -> str:
    """Return the whole style sheet: the colours, then the rules."""
    rules = (files("krisis.reporting") / "static" / "report.css").read_text(encoding="utf-8")
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

    loaders = [jinja2.PackageLoader(name) for name in (*packages, "krisis.reporting")]
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
    built.filters.update(verdict=verdict_html, partition=partition_html, table=table_html)
    built.filters.update(level=lambda level: level_name([level]))
    return built


def _nothing_hidden(value: JsonValue) -> JsonValue:
    plain_text = isinstance(value, str) and not hasattr(value, "__html__")
    return spelled_out(value) if plain_text else value


def render(template: str, **context: JsonValue) -> str:
    """Fill a template of the report with its context, as one self-contained file."""
    text: str = (
        environment()
        .get_template(template)
        .render(**context, style=style_sheet(), style_hash=style_hash(), version=__version__)
    )
    return text


def document_page(document: Document, *, eyebrow: str = "") -> str:
    """Return a document as one self-contained page."""
    lead = "".join(f'<p class="headline">{escaped(line)}</p>' for line in document.lead)
    return render(
        "document.html",
        title=document.title,
        heading=document.title,
        eyebrow=eyebrow,
        body=lead + body_html(document),
    )
