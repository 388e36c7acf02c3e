"""Every method and every reason that krisis prints is explained where it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.documents import said

from krisis.errors import InvalidValue
from krisis.metrics.abstention import DeferralAlignment, SelectiveAccuracy
from krisis.metrics.accuracy import Accuracy, BalancedAccuracy
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.disease import DiseaseNPV, DiseasePPV
from krisis.metrics.explanations import METHODS, REASONS
from krisis.metrics.scoring import score_all
from krisis.metrics.selective_prediction import RiskAtCoverage
from krisis.metrics.table import Answers
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import side_by_side
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import REPLICATE_METHODS
from krisis.verbs.compare.page import runs_sections

SOURCE = Path(__file__).parents[2] / "src" / "krisis"
STAGES = ("statistics", "metrics", "confidence", "results", "verbs/selective", "verbs/compare")
CODE = r'"([a-z0-9]+(?:_[a-z0-9]+)+)"'
REASON = re.compile(
    rf"(?:Undefined\(|Interval\.undefined\(|no_case = |never = |reason = |answered = )\s*{CODE}"
    rf"|(?:^NO_[A-Z]+|NOTHING_PREDICTED|WITHOUT_CONFIDENCE|NOT_ORDERED|INFINITE|ONE_CLASS) = {CODE}"
    rf"|return {CODE}",
    re.MULTILINE,
)
METHOD = re.compile(r'(?:METHOD = |method=|level, )"([a-z_]+)"')
# The method of a quantile is NumPy's: it says which value is taken, not how an interval is made.
QUANTILE = re.compile(r"np\.quantile\(.*")


def written(pattern: re.Pattern[str]) -> set[str]:
    texts = [p.read_text(encoding="utf-8") for s in STAGES for p in (SOURCE / s).rglob("*.py")]
    found = [match for text in texts for match in pattern.findall(QUANTILE.sub("", text))]
    return {one for m in found for one in ([m] if isinstance(m, str) else m) if one}


def test_every_reason_in_the_source_is_explained() -> None:
    codes = written(REASON)
    assert {"coverage_is_never_reached", "no_rows", "labels_have_no_order"} <= codes
    assert codes - set(REASONS) == set()


def test_every_method_in_the_source_is_explained() -> None:
    names = written(METHOD) | set(REPLICATE_METHODS)
    assert {"mid_p", "test_inversion", "mover", "permutation_t"} <= names
    assert names - set(METHODS) - {"bounded"} == set()


def test_the_report_explains_the_methods_and_reasons_it_prints_and_no_others() -> None:
    rows = [EvaluationResult(1, 1, confidence=0.5), EvaluationResult(None, 1, abstained=True)]
    scores = score_all([Accuracy(), RiskAtCoverage()], rows, intervals=BootstrapOptions())
    report = said(BenchmarkResult(rows, scores, {}, "m").document())
    assert REASONS["coverage_is_never_reached"] in report
    assert "coverage_is_never_reached" not in report
    lines = [line for line in report.splitlines() if line.partition(":")[0] in METHODS]
    assert lines == [f"mid_p: {METHODS['mid_p']}"]


def test_a_notebook_explains_the_methods_and_reasons_it_shows() -> None:
    rows = [EvaluationResult(1, 1, confidence=0.5), EvaluationResult(None, 1, abstained=True)]
    scores = score_all([Accuracy(), RiskAtCoverage()], rows, intervals=BootstrapOptions())
    result = BenchmarkResult(rows, scores, {}, "m")
    assert f"is undefined: {REASONS['coverage_is_never_reached']}" in result._repr_html_()
    assert result._repr_html_().count(f"<p>mid_p: {METHODS['mid_p']}</p>") == 1
    silent = score_all([SelectiveAccuracy()], rows[1:], intervals=BootstrapOptions())
    unanswered = BenchmarkResult(rows[1:], silent, {}, "m")
    nothing = "is undefined: nothing was answered"
    (section,) = runs_sections(side_by_side({"m": unanswered}))
    assert f"Selective Accuracy of m {nothing}" in section.parts[1].lines
    with pytest.raises(InvalidValue, match="nothing was answered"):
        unanswered.risk_coverage_curve()


def test_a_run_without_answers_is_not_blamed_on_its_data() -> None:
    labelled = {"metadata": {"should_abstain": True}}
    failed = [EvaluationResult(None, truth, error="timeout", **labelled) for truth in (0, 1)]
    abstained = [EvaluationResult(None, truth, abstained=True, **labelled) for truth in (0, 1)]
    metrics = [BalancedAccuracy(), DeferralAlignment(), DiseasePPV(), DiseaseNPV()]

    def reasons(rows: list[EvaluationResult]) -> list[str]:
        answers = Rows(rows, Answers((0, 1), positive=1))
        return [metric(answers).details.get("reason", "") for metric in metrics]

    assert reasons(failed) == ["no_scored_rows"] * 4
    assert reasons(abstained) == ["", "", *["no_non_abstained_predictions"] * 2]
