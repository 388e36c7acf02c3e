"""A document as a section of another one, such as a certificate in the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from krisis.pages.document import Chart, Content, Document, Facts, Sentences, Table


def parts_of(document: Document, charts: Sequence[Chart] = ()) -> list[Content]:
    """Return a document as the parts of one section: its answer, its charts, then its evidence."""
    found: list[Content] = [Sentences(document.lead)] if document.lead else []
    if document.verdict is not None:
        said = [
            (line.question, ": ".join(filter(None, (line.answer, line.sentence()))))
            for line in document.verdict.lines
        ]
        found.append(Facts(said))
    found += charts
    for section in document.sections:
        first = next((part for part in section.parts if isinstance(part, Table)), None)
        for part in section.parts:
            if isinstance(part, Table) and part is first and not part.title:
                found.append(replace(part, title=section.title))
            elif isinstance(part, Sentences):
                found.append(Sentences([f"{section.title}:", *part.lines]))
            else:
                found.append(part)
    return found
