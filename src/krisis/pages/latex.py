"""Documents as LaTeX: every table as a float, in plain ASCII, so that pdflatex sets every sign."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from krisis.display import spelled_out
from krisis.pages.document import BEST, Document, Table

NEEDS = r"% Needs \usepackage{booktabs} and \usepackage{array}."
# Letters that fit a line of a page at the size of a table, and that a first column may take.
_LINE, _FIRST = 95, 28
_HEADING = 16  # longer headings are broken between words
_GAP = 2  # letters that the space between two columns takes
_PAGE = 52  # lines of tables on a page, with room for caption and notes


def latex_tables(document: Document) -> str:
    """Return the tables of a document as floats; the first one has the lead as its notes.

    >>> print(latex_tables(Document(title="ckd")))
    % Needs \\usepackage{booktabs} and \\usepackage{array}.
    """
    lines = [NEEDS]
    notes = list(document.lead)
    for section, table in document.tables():
        name = f"{section.title}: {table.title}" if table.title else section.title
        below = [*notes, *([table.note] if table.note else [])]
        below += [f"Bold: {BEST}."] if table.best else []
        lines += _float(table, f"{name}. {document.title}", below)
        notes = []
    return "\n".join(lines)


def _float(table: Table, caption: str, notes: Sequence[str]) -> Iterator[str]:
    cells = _cells(table)
    panels = _panels(table.headings(), cells)
    n_lines = sum(2 if _is_broad(line) else 1 for line in cells) + 4
    at_once = max(1, _PAGE // n_lines)
    for start in range(0, len(panels), at_once):
        yield from (r"\begin{table}[htbp]", r"\centering", r"\footnotesize")
        yield r"\setlength{\tabcolsep}{4pt}"
        again = " (continued)" if start else ""
        yield f"\\caption{{{latex_text(caption + again)}}}"
        for number, places in enumerate(panels[start : start + at_once]):
            yield from [r"\par\medskip"] * bool(number)
            yield from _tabular(table, cells, places)
        if notes and start + at_once >= len(panels):
            below = r" \\ ".join(map(latex_text, notes))
            yield r"\par\smallskip"
            yield f"\\parbox{{\\linewidth}}{{\\scriptsize\\raggedright {below}}}"
        yield r"\end{table}"


def _cells(table: Table) -> list[list[str]]:
    return [[" ".join(cell.split()) for cell in line] for line in table.written()]


def _is_broad(line: Sequence[str]) -> bool:
    return len(line[0]) > _FIRST


def _tabular(table: Table, cells: Sequence[Sequence[str]], places: Sequence[int]) -> Iterator[str]:
    sides = ["r" if column.is_number else "l" for column in table.columns]
    wide = {place for place in places[1:] if _longest(cells, place) > _FIRST}
    columns = "".join(_BROKEN if place in wide else sides[place] for place in places[1:])
    broad = any(map(_is_broad, cells))
    yield f"\\begin{{tabular}}{{@{{}}{_BROKEN if broad else 'l'}{columns}@{{}}}}"
    yield r"\toprule"
    headings = table.headings()
    yield _ampersands(_heading(headings[place], sides[place]) for place in places)
    yield r"\midrule"
    for at, line in enumerate(cells):
        shown = [
            f"\\textbf{{{latex_text(line[place])}}}"
            if (at, place) in table.best
            else latex_text(line[place])
            for place in places
        ]
        yield _ampersands([_breakable(shown[0]) if broad else shown[0], *shown[1:]])
    yield from (r"\bottomrule", r"\end{tabular}")


_BROKEN = r">{\raggedright\arraybackslash}p{0.3\linewidth}"


def _longest(cells: Sequence[Sequence[str]], place: int) -> int:
    return max((len(line[place]) for line in cells), default=0)


def _ampersands(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _heading(text: str, side: str) -> str:
    lines = list(map(latex_text, _broken(text)))
    stacked = r" \\ ".join(lines)
    return stacked if len(lines) == 1 else f"\\shortstack[{side}]{{{stacked}}}"


def _broken(text: str) -> list[str]:
    return textwrap.wrap(text, _HEADING, break_long_words=False, break_on_hyphens=False) or [""]


def _breakable(text: str) -> str:
    """Let a long name be broken after a slash, hyphen, underscore or colon."""
    for sign in ("/", "{-}", r"\_", ":"):
        text = text.replace(sign, sign + r"\allowbreak{}")
    return text


def _panels(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[int]]:
    """Divide the columns so that each part fits a page; the first column is in every one."""
    widths = [
        min(max([_longest(cells, place), *map(len, _broken(heading))]), _FIRST)
        for place, heading in enumerate(headings)
    ]
    panels, used = [[0]], widths[0]
    for place, width in enumerate(widths[1:], start=1):
        if used + width + _GAP > _LINE and len(panels[-1]) > 1:
            panels.append([0])
            used = widths[0]
        panels[-1].append(place)
        used += width + _GAP
    return panels


_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\`{}",
    "'": "{'}",
    '"': r"\char34{}",
    # In front of a line a bracket or a star would be taken for an argument of the line before.
    **{sign: f"{{{sign}}}" for sign in "[]*-"},
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    "\u00a0": "~",
    "\u2013": "{--}",
    "\u2014": "{---}",
    "\u2212": "$-$",
    "\u2026": r"\ldots{}",
    "\u2018": "{`}",
    "\u2019": "{'}",
    "\u201c": "{``}",
    "\u201d": "{''}",
    "\u00b7": r"$\cdot$",
    "\u2022": r"\textbullet{}",
    "\u00d7": r"$\times$",
    "\u00b1": r"$\pm$",
    "\u2248": r"$\approx$",
    "\u2260": r"$\neq$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u221e": r"$\infty$",
    "\u2192": r"$\rightarrow$",
    "\u2190": r"$\leftarrow$",
    "\u2191": r"$\uparrow$",
    "\u2193": r"$\downarrow$",
    "\u00b0": r"$^{\circ}$",
    "\u00b5": r"$\mu$",
    "\u03bc": r"$\mu$",
    "\u03b1": r"$\alpha$",
    "\u03b2": r"$\beta$",
    "\u03b3": r"$\gamma$",
    "\u03b4": r"$\delta$",
    "\u03ba": r"$\kappa$",
    "\u03c3": r"$\sigma$",
    "\u0394": r"$\Delta$",
    "\u00df": r"\ss{}",
    "\u00e6": r"\ae{}",
    "\u00c6": r"\AE{}",
    "\u00f8": r"\o{}",
    "\u00d8": r"\O{}",
    "\u0153": r"\oe{}",
    "\u0152": r"\OE{}",
    "\u0142": r"\l{}",
    "\u0141": r"\L{}",
    **{sign: f"$^{{{digit}}}$" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{sign: f"$_{{{digit}}}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}
# Combining sign → the accent of LaTeX that every encoding of fonts has.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}


def latex_text(text: object) -> str:
    """Return text on one line in which no sign is a command; unknown signs are code points.

    >>> latex_text("50 % of a_b"), latex_text("m² ≥ 3"), latex_text("café")
    ('50 \\\\% of a\\\\_b', 'm$^{2}$ $\\\\geq$ 3', "caf\\\\'{e}")
    """
    line = " ".join(spelled_out(str(text)).split())
    return "".join(_sign(sign) for sign in unicodedata.normalize("NFC", line))


def _sign(sign: str) -> str:
    known = _SIGNS.get(sign)
    if known is not None:
        return known
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    letter, mark = parts[0], parts[1:]
    if letter.isascii() and letter.isalpha() and mark in _ACCENTS:
        base = {"i": r"\i", "j": r"\j"}.get(letter, letter)
        return f"\\{_ACCENTS[mark]}{{{base}}}"
    return f"{{[}}U+{ord(sign):04X}{{]}}"
