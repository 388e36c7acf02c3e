"""The verdict has the same words and figures in every medium, for twelve runs of known quality."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from krisis.costs import ASSUMED, Costs
from krisis.metrics import usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.pages.document import Document
from krisis.pages.html import html_fragment
from krisis.pages.latex import latex_tables
from krisis.pages.markdown import markdown_text
from krisis.pages.run import brief_document, run_document
from krisis.pages.shell import page
from krisis.pages.terminal import terminal_text
from krisis.results.report import format_report
from krisis.results.result import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.task_facts import TaskFacts


def readers(seed: int = 1, n: int = 120) -> dict[str, list[EvaluationResult]]:
    """Return the same cases as answered by readers of known quality."""
    draw = np.random.default_rng(seed)
    cases = [(float(p), int(draw.random() < p), i) for i, p in enumerate(draw.random(n))]

    def read(
        act: Callable[[float], tuple[int | None, float | None]], *, labelled: bool = True
    ) -> list[EvaluationResult]:
        rows = []
        for p, truth, i in cases:
            answer, stated = act(p)
            metadata = {"should_abstain": 0.2 < p < 0.8, "site": "ab"[i % 2]} if labelled else {}
            rows.append(
                EvaluationResult(
                    answer,
                    truth,
                    answer is None,
                    confidence=stated,
                    record_id=str(i),
                    cluster_id=str(i // 2 if labelled else i),
                    metadata=metadata,
                )
            )
        return rows

    def best(p: float) -> int:
        return int(p > 0.5)

    def sure(p: float) -> float:
        return round(max(p, 1 - p), 2)

    return {
        "ideal": read(lambda p: (None if 0.2 < p < 0.8 else best(p), sure(p))),
        "never defers": read(lambda p: (best(p), sure(p))),
        "always defers": read(lambda p: (None, None)),
        "no to everybody": read(lambda p: (0, 0.9)),
        "yes to everybody": read(lambda p: (1, 0.9)),
        "defers at random": read(lambda p: (None if draw.random() < 0.4 else best(p), sure(p))),
        "overconfident": read(lambda p: (best(p), 0.99)),
        "inverted": read(lambda p: (best(p), 1.5 - sure(p))),
        "half right": read(lambda p: (int(draw.random() < 0.5), 0.8)),
        "without confidence": read(lambda p: (best(p), None)),
        "without labels": read(lambda p: (best(p), sure(p)), labelled=False),
        "few": read(lambda p: (best(p), sure(p)))[:15],
    }


READERS = readers()


def run_of(name: str) -> BenchmarkResult:
    task = TaskFacts(
        "t",
        ((0, "CKD is absent"), (1, "CKD is present")),
        short_names=((0, "no CKD"), (1, "CKD")),
        positive=1,
        groups={"site": "site"},
        costs=ASSUMED if name in ("half right", "without labels") else Costs(price=0.2),
    )
    rows = READERS[name]
    result = BenchmarkResult(rows, {}, {}, name, {"task_facts": task})
    result = result.scored(usual_metrics(), BootstrapOptions(n_resamples=20))
    better = Rows(READERS["ideal"], result.rows.answers)
    result.baseline_rows = {"guideline": better} if name == "overconfident" else {}
    return result


def from_html(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\u00a0", " ")


def from_latex(text: str) -> str:
    text = re.sub(r"\\textbf\{([^}]*)\}", r"\1", text).replace(r"\\", " ")
    text = (
        text.replace("\\`{}", "`")
        .replace("{--}", "–")
        .replace("\\%", "%")
        .replace("~", " ")
        .replace("\\,", " ")
    )
    return text.replace("$-$", "−").replace("{[}", "[").replace("{]}", "]")


def from_markdown(text: str) -> str:
    return html.unescape(re.sub(r"\\(.)", r"\1", text).replace("**", ""))


MEDIA: dict[str, Callable[[Document], str]] = {
    "terminal": terminal_text,
    "notebook": lambda document: from_html(html_fragment(document)),
    "page": lambda document: from_html(page(document)),
    "markdown": lambda document: from_markdown(markdown_text(document)),
    "latex": lambda document: from_latex(latex_tables(document)),
}


def packed(text: str) -> str:
    """Return a text without spaces: each medium breaks its lines where it has to."""
    return re.sub(r"\s", "", text)


def test_there_are_twelve_and_their_words_differ() -> None:
    assert len(READERS) == 12
    words = {
        name: tuple(line.answer for line in brief_document(run_of(name)).verdict.lines)  # type: ignore[union-attr]
        for name in READERS
    }
    assert len(set(words.values())) >= 9
    assert {word for line in words.values() for word in line} == {
        *("yes", "partly", "no", "cannot tell", None)
    }


@pytest.mark.parametrize("name", READERS)
def test_every_medium_has_the_words_of_the_verdict(name: str) -> None:
    result = run_of(name)
    document = run_document(result)
    verdict = document.verdict
    assert verdict is not None
    for medium, write in MEDIA.items():
        shown = packed(write(document))
        for line in verdict.lines:
            if medium == "terminal":  # columns stand side by side
                assert packed(line.question) in shown
                continue
            said = packed(f"{line.answer or ''} {line.sentence()}")
            told = shown.replace("|", "").replace("&", "")
            assert said in told, (medium, said)


@pytest.mark.parametrize("name", READERS)
def test_the_first_screen_has_the_words_of_the_page(name: str) -> None:
    """What a terminal prints, read column by column, is what the lines say."""
    result = run_of(name)
    verdict = run_document(result).verdict
    assert verdict is not None
    for text in (terminal_text(brief_document(result), verbose=False), format_report(result)):
        lines = text.splitlines()
        start = next(at for at, one in enumerate(lines) if one.startswith("Worth using?"))
        found: dict[str, list[str]] = {}
        for one in lines[start : lines.index("", start)]:
            if one[:24].strip():
                found[one[:24].strip()] = [one[26:37].strip()]
                last = found[one[:24].strip()]
            last.append(one[39:])
        for line in verdict.lines:
            word, *said = found[line.question]
            assert word == (line.answer or "")
            assert packed("".join(said)).startswith(packed(line.brief()))


@pytest.mark.parametrize("name", READERS)
def test_json_has_the_words_and_every_digit(name: str) -> None:
    verdict = run_document(run_of(name)).verdict
    assert verdict is not None
    held = json.loads(json.dumps(verdict.to_dict(), allow_nan=True))
    for line in verdict.lines:
        assert held[line.key]["answer"] == line.answer
        assert held[line.key]["reason"] == line.reason
        values = [one["estimate"]["value"] for one in held[line.key]["figures"]]
        known = [one.estimate.value for one in line.figures]
        assert values == [None if math.isnan(value) else value for value in known]
