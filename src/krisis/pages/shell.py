"""The page around a document: one template and one style sheet, which the viewer shares."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from krisis import __version__
from krisis.display import HIDDEN, spelled_out
from krisis.errors import MissingExtra
from krisis.json_values import JsonValue
from krisis.pages import palette
from krisis.pages.document import Document
from krisis.pages.html import contents_html, opening_html, sections_html
from krisis.pages.numbers import Estimate, dollars, share, stored, threshold
from krisis.pages.worst import shortened

if TYPE_CHECKING:
    from markupsafe import Markup

_LIST_LETTERS = 200


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
    built.filters.update(
        visible=visible,
        brief=_brief,
        number=stored,
        share=_share,
        threshold=threshold,
        dollars=dollars,
    )
    return built


def _brief(text: object) -> str:
    """Cut what a list shows of a text: an id or an answer of a stranger's run has any length."""
    return shortened(str(text), n_letters=_LIST_LETTERS)


def _share(
    value: float, interval: Mapping[str, float] | None = None, bound: float | None = None
) -> str:
    """Write a share, with the ends of its interval where a page has them."""
    ends = {name: interval[name] for name in ("low", "high")} if interval else {}
    return share(Estimate(value, bound=bound, **ends))


def visible(text: object) -> Markup:
    """Return text as escaped HTML in which hidden characters show as their code points."""
    from markupsafe import Markup, escape

    raw = str(text)
    pieces: list[Markup] = []
    end = 0
    for match in HIDDEN.finditer(raw):
        name = unicodedata.name(match.group(), "control character").lower()
        code = f"{ord(match.group()):04X}"
        mark = Markup('<span class="hidden-character" title="{}">U+{}</span>').format(name, code)
        pieces += [escape(raw[end : match.start()]), mark]
        end = match.end()
    return Markup("").join([*pieces, escape(raw[end:])])


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
