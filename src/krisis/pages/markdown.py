"""Documents as Markdown, for issues, summaries of builds and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from krisis.display import spelled_out
from krisis.pages.document import BEST, Content, Document, Facts, Sentences, Table, Verdict
from krisis.pages.numbers import level

# Signs that Markdown, its tables, its links and HTML give a meaning; entities mean themselves in
# every renderer. An underscore inside a word has none.
_MARKDOWN = re.compile(
    r"[&<>|#`*\[\]~$\\@{}^]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\."
)


def escaped(text: object) -> str:
    """Return text on one line in which no sign is markup of Markdown.

    >>> escaped("a|b <i> *c* d_e\\nf")
    'a&#124;b &#60;i&#62; &#42;c&#42; d_e f'
    """
    line = " ".join(spelled_out(str(text)).split())
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[0])};", line)


def markdown_text(document: Document) -> str:
    """Return a document as Markdown.

    >>> print(markdown_text(Document(title="a*b", lead=["2 cases"])))
    ### a&#42;b
    <BLANKLINE>
    2 cases
    """
    blocks = [f"### {escaped(document.title)}", *map(escaped, document.lead)]
    if document.verdict is not None:
        blocks += _verdict(document.verdict)
    for section in document.sections:
        if not section.only_on_pages:
            blocks.append(f"#### {escaped(section.title)}")
            for part in section.parts:
                blocks += _blocks(part)
    return "\n\n".join(blocks)


def _verdict(verdict: Verdict) -> Iterator[str]:
    figures = "figures"
    if verdict.level is not None:
        figures = f"figures ({level(verdict.level)} intervals)"
    heads = ("question", "answer", figures)
    lines = [
        (line.question, f"**{line.answer}**" if line.answer else "", escaped(line.sentence()))
        for line in verdict.lines
    ]
    if verdict.about:
        yield escaped(f"Verdict on the {verdict.about}")
    yield "\n".join([_pipes(heads), _pipes(["---"] * 3), *map(_pipes, lines)])
    if verdict.note:
        yield escaped(verdict.note)


def _blocks(part: Content) -> Iterator[str]:
    if isinstance(part, Sentences):
        yield from map(escaped, part.lines)
    elif isinstance(part, Facts):
        yield "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in part.pairs)
    elif isinstance(part, Table):
        if part.title:
            yield f"**{escaped(part.title)}**"
        yield "\n".join(_table(part))
        yield from [escaped(part.note)] * bool(part.note)
        yield from [f"Bold: {BEST}."] * bool(part.best)


def _table(table: Table) -> Iterator[str]:
    yield _pipes(map(escaped, table.headings()))
    yield _pipes("---:" if column.is_number else "---" for column in table.columns)
    for at, line in enumerate(table.written()):
        yield _pipes(
            f"**{escaped(cell)}**" if (at, place) in table.best else escaped(cell)
            for place, cell in enumerate(line)
        )


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
