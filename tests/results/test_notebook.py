"""What a shell and a notebook show of results: short, escaped, and with every denominator."""

from __future__ import annotations

import math
import sys
from html.parser import HTMLParser
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import line_of
from tests.invented_runs import invented_rows, result_of

from krisis import Benchmark
from krisis.backends.openai import OpenAIBackend
from krisis.data.base import PatientRecord, RecordListSuite, Task
from krisis.display import cut
from krisis.errors import InvalidValue, MissingExtra
from krisis.metrics import EvaluationResult, Interval, MetricScore, score_all
from krisis.metrics.abstention import AnswerRate, SelectiveAccuracy
from krisis.metrics.base import MetricScores, Rows
from krisis.metrics.risk_coverage import risk_coverage_curve
from krisis.metrics.selective_prediction import AURC
from krisis.pages.numbers import Estimate, change
from krisis.results.account import RunFacts
from krisis.results.result import BenchmarkResult
from krisis.results.stops import Interrupted
from krisis.verbs.compare.comparison import Comparison
from krisis.verbs.compare.pairs import CompareOptions, compare_runs

METRICS = [SelectiveAccuracy(), AnswerRate(), AURC()]
ROWS = [
    EvaluationResult(1, 1, confidence=0.9, record_id="a"),
    EvaluationResult(0, 1, confidence=0.8, record_id="b"),
    EvaluationResult(None, 0, abstained=True, record_id="c"),
    EvaluationResult(None, 0, record_id="d", error="no answer", failure_class="timeout"),
]


class Read(HTMLParser):
    """The elements and the text of a page, as a browser would read it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def a_result(
    name: str = "rule", suite: str = "toy", rows: list[EvaluationResult] = ROWS
) -> BenchmarkResult:
    return BenchmarkResult(rows, score_all(METRICS, rows), {"suite": suite}, name, {"n_loaded": 5})


@pytest.fixture(scope="module")
def compared() -> Comparison:
    skills = {"A": 1.0, "B": 0.7}
    runs = {name: result_of(invented_rows(40, skill=skill), name) for name, skill in skills.items()}
    return compare_runs(runs, CompareOptions(METRICS, n_permutations=19))


def test_the_repr_of_ten_thousand_rows_stays_below_two_kilobytes() -> None:
    reply = "word " * 200
    rows = [
        EvaluationResult(1, i % 2, confidence=0.5, raw_response=reply, record_id=f"case-{i}")
        for i in range(10_000)
    ]
    scores = {f"m{i}": MetricScore(f"m{i}" * 40, 0.5) for i in range(200)}
    result = BenchmarkResult(rows, scores, {"suite": "s" * 5_000}, "b" * 5_000)
    for thing in (result, result.rows, result.rows.table, result.metric_scores, result.rows[0]):
        assert len(repr(thing).encode()) <= 2048
    assert "Rows(10,000 rows)" in repr(result.rows)
    assert "10,000 answered" in repr(result)


def test_the_repr_of_a_row_names_what_was_given_and_cuts_what_is_long() -> None:
    row = EvaluationResult(1, 0, confidence=0.5, raw_response="long " * 50, record_id="a")
    text = "long long long long long long long long long long long lon…"
    assert repr(row) == (
        f"EvaluationResult(prediction=1, ground_truth=0, confidence=0.5, raw_response='{text}, "
        "record_id='a', cluster_id='a')"
    )
    assert len(text) + 1 == 60


def test_text_is_cut_to_one_line_without_hidden_characters() -> None:
    assert cut("two\nlines\x1b[2J") == "two lines[U+001B][2J"
    assert cut("x" * 60) == "x" * 60
    assert cut("x" * 61) == "x" * 59 + "…"
    assert cut(" " * 1000) == "…"


def test_the_reprs_of_results_curves_comparisons_and_tables_say_what_they_rest_on(
    compared: Comparison,
) -> None:
    assert repr(a_result()) == (
        "BenchmarkResult(toy, rule)\n"
        "1 of 4 records NOT EVALUATED: 5 loaded → 4 sent → "
        "2 answered / 1 abstained / 1 not evaluated\n"
        "MetricScores(selective_accuracy=0.5000, answer_rate=0.6667, aurc=0.0833)"
    )
    assert repr(a_result().rows.table) == "Table(4 rows, 1 not evaluated, 2 answers)"
    curve = a_result().risk_coverage_curve()
    # Risks 0 and 1/2 at 1/3 and 2/3 of three items: AURC 1/12, AUGRC (0 + 1/3)/2 · 1/3 = 1/18.
    assert repr(curve) == (
        "RiskCoverageCurve(2 working points, 3 items, Cmax 0.6667, AURC 0.0833, AUGRC 0.0556)"
    )
    assert repr(compared) == f"Comparison(A, B; {compared.pairs[0].basis})"
    assert compared.pairs[0].basis.endswith("patients")
    assert len(repr(compared.pairs[0])) < 300
    unpaired = compare_runs({n: BenchmarkResult([], a_result().metric_scores, {}, n) for n in "AB"})
    assert repr(unpaired) == "Comparison(A, B; unpaired)"
    assert "UNPAIRED" in unpaired._repr_html_()


def test_no_repr_of_a_backend_shows_a_key_or_an_address() -> None:
    secret = "sk-1234"
    address = f"http://{secret}@127.0.0.1:1/v1"
    backend = OpenAIBackend("m", api_key=secret)
    backend.base_url = address
    suite = RecordListSuite([PatientRecord({"x": 1}, 0)], Task("triage"))
    assert repr(backend) == "OpenAIBackend('openai/m')"
    assert repr(suite.records()) == "Records(1 records)"
    assert repr(suite) == "RecordListSuite('records', task='triage')"
    assert (
        repr(Benchmark(suite, backend, METRICS)) == f"Benchmark({suite!r}, {backend!r}, 3 metrics)"
    )


def test_the_first_line_of_a_notebook_is_what_became_of_the_records() -> None:
    found = Read(a_result()._repr_html_())
    assert found.text[0] == (
        "1 of 4 records NOT EVALUATED: 5 loaded → 4 sent → "
        "2 answered / 1 abstained / 1 not evaluated"
    )
    assert found.text.index("Knew when not to answer?") < found.text.index("abstained")
    cells = found.text[found.text.index("abstained") - 3 :]
    assert cells[:4] == ["Metrics", "value", "n", "abstained"]
    assert cells[4:8] == ["Answer Rate (Coverage)", "0.667", "3", "1"]


def test_a_notebook_shows_no_figure_of_a_run_that_answered_nothing() -> None:
    failed = [EvaluationResult(None, 0, record_id=r, error="down") for r in "ab"]
    document = a_result(rows=failed).document()
    assert "nothing to score" in document.lead[-1]
    assert document.verdict is None
    assert [one.key for one in document.sections] == ["failures", "how", "inputs"]


def test_baselines_sources_and_damage_are_shown() -> None:
    result = a_result()
    assert "Baselines" not in result._repr_html_()
    result.baselines = {"majority": result.metric_scores}
    result.damage, result.stop = "line 3 is damaged", Interrupted("interrupted")
    found = Read(result._repr_html_())
    assert found.text[0] == "line 3 is damaged"
    assert line_of(result.document(), "majority") == {
        "model": "majority",
        "Right when answered": 0.5,
        "Answered": 2 / 3,
    }
    result.scores_by_source = dict.fromkeys(("real", "synthetic"), result.metric_scores)
    page = result._repr_html_()
    assert "<summary>Metrics, real patients</summary>" in page
    assert "<summary>Metrics, synthetic patients</summary>" in page
    bare = BenchmarkResult([], {}, {}, facts=RunFacts())
    assert "<table" not in bare._repr_html_()


def test_scores_show_reasons_levels_and_methods() -> None:
    scores = MetricScores(
        {
            "a": MetricScore("a", 0.5, n_evaluated=1234, interval=Interval(0.1, 0.9, 0.9, "exact")),
            "b": MetricScore("b", 0.5, interval=Interval.undefined("too few")),
            "c": MetricScore("c", math.nan, details={"reason": "no rows"}),
            "d": MetricScore("d", 0.5, interval=Interval.undefined("")),
        }
    )
    assert Read(scores._repr_html_()).text == [
        *("Scores", "Metrics", "Answers", "metric", "value (90 % interval)", "n"),
        *("a", "0.500 ", "(0.100–0.900)", "1,234"),
        *("b", "0.500", "0"),
        *("c", "undefined", "0"),
        *("d", "0.500", "0"),
        "c is undefined: no rows",
        "b has no interval: too few",
    ]


ALLOWED = {"p", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td"}
OF_A_DOCUMENT = {"h1", "h2", "h3", "section", "details", "summary", "div", "dl", "dt", "dd", "pre"}
OF_BARS = {"svg", "rect", "ul", "li", "span"}
OF_CHARTS = {
    "tspan",
    "figure",
    "figcaption",
    "g",
    "path",
    "line",
    "text",
    "circle",
    "clippath",
    "defs",
}


@given(st.text(min_size=1), st.text(min_size=1))
def test_nothing_that_a_file_brought_is_markup(name: str, words: str) -> None:
    hostile = f"<script>alert(1)</script>{words}<img src=x onerror='a()'>\u202e"
    rows = [*ROWS, EvaluationResult(None, 0, record_id="e", error=hostile, failure_class=hostile)]
    result = a_result(hostile + name, suite=hostile, rows=rows)
    result.metric_scores["own"] = MetricScore(hostile, math.nan, details={"reason": hostile})
    result.baselines = {hostile: result.metric_scores}
    with mock.patch("krisis.pages.run._charts", return_value=[]):
        page = result._repr_html_()
    found = Read(page)
    assert set(found.elements) <= ALLOWED | OF_A_DOCUMENT | OF_BARS
    assert not found.attributes & {"href", "src", "style", "onerror", "onload"}
    assert not found.open
    assert "\u202e" not in page
    assert "\u202e" not in repr(result)


def test_nothing_that_a_file_brought_is_markup_in_a_chart() -> None:
    hostile = "<script>alert(1)</script>\"><img src=x onerror='a()'>\u202e"
    page = a_result(hostile, suite=hostile)._repr_html_()
    found = Read(page)
    assert "figure" in found.elements
    assert set(found.elements) <= ALLOWED | OF_A_DOCUMENT | OF_BARS | OF_CHARTS
    assert not found.attributes & {"href", "src", "style", "onerror", "onload"}
    assert "\u202e" not in page


def test_a_comparison_shows_its_basis_differences_and_verdicts(compared: Comparison) -> None:
    found = Read(compared._repr_html_())
    assert any(text.startswith("B compared with A") for text in found.text)
    assert any("common cases of" in text for text in found.text)
    assert set(found.elements) <= ALLOWED | OF_A_DOCUMENT | OF_BARS | OF_CHARTS
    delta = compared.pairs[0].deltas["answer_rate"]
    cells = found.text[found.text.index("Coverage") :]
    assert cells[1:3] == [f"{delta.left:.3f}", f"{delta.right:.3f}"]
    assert "".join(cells[3:5]) == change(Estimate.of(delta.delta, delta.interval))
    delta.reason = "no reason"
    assert "Not comparable: Answer Rate (Coverage): no reason." in compared._repr_html_()
    delta.reason = ""


def test_a_curve_shows_its_points_and_the_areas_under_it() -> None:
    # Coverage 1/4 and 1/2, risks 0 and 1/2.
    found = Read(risk_coverage_curve([0.0, 1.0], [0.9, 0.8], 4)._repr_html_())
    assert set(found.elements) <= ALLOWED | OF_A_DOCUMENT | OF_BARS | OF_CHARTS
    assert "Mean loss 0.500 of all answers, 0.000 of the most confident 50 %" in found.text
    assert not any("best order" in text for text in found.text)  # the curve does not know it
    assert found.text[-10:] == [
        *("items", "working points", "Cmax", "AURC", "AUGRC"),
        *("4", "2", "0.500", "0.063", "0.031"),
    ]


def test_a_perfect_curve_a_hopeless_one_and_none_are_shown_too() -> None:
    for loss in (0.0, 1.0):
        curve = risk_coverage_curve([loss], [1], 1)
        assert f"Mean loss {loss:.3f} of all answers" in curve._repr_html_()
    nothing = "No item of 3 was predicted, so there is no curve."
    assert nothing in str(risk_coverage_curve([], [], 3))


def test_a_long_curve_is_drawn_by_few_points() -> None:
    long = risk_coverage_curve([float(i % 2) for i in range(5000)], range(5000), 5000)
    assert len(repr(long)) < 200
    (chart,) = long.document().charts()
    assert len(chart.draw().table) == 300


def test_a_result_without_confidence_has_no_curve() -> None:
    result = a_result(rows=[EvaluationResult(1, 1)])
    with pytest.raises(InvalidValue, match="answered_rows_without_confidence"):
        result.risk_coverage_curve()


def test_a_frame_has_a_line_per_metric_with_everything_a_table_needs() -> None:
    result = a_result()
    result.metric_scores["answer_rate"].interval = Interval(0.2, 0.9, 0.9, "exact")
    result.metric_scores["aurc"].interval = Interval.undefined("too few", method="exact")
    result.metric_scores["own"] = MetricScore(
        "Own [k=2]", math.nan, key="own", details={"reason": "empty"}
    )
    frame = result.scores_frame()
    assert list(frame.columns) == [
        *("key", "name", "source", "value", "low", "high", "level", "method"),
        *("n_evaluated", "n_abstained", "direction", "reason"),
    ]
    assert list(frame.key) == ["selective_accuracy", "answer_rate", "aurc", "own[k=2]"]
    assert frame.loc[1].tolist() == [
        *("answer_rate", "Answer Rate (Coverage)", "all", 2 / 3, 0.2, 0.9, 0.9, "exact"),
        *(3, 1, "neither", ""),
    ]
    assert list(frame.reason) == ["", "", "too few", "empty"]
    assert math.isnan(frame.value[3])
    result.scores_by_source = {"real": result.metric_scores}
    assert list(result.scores_frame().source) == ["all"] * 4 + ["real"] * 4


def test_comparisons_have_frames(compared: Comparison) -> None:
    frame = compared.to_frame().set_index("key")
    delta = compared.pairs[0].deltas["aurc"]
    assert frame.loc["aurc", "delta"] == delta.delta
    assert frame.loc["aurc", "compared_by"] == "AURC / Cmax"
    assert frame.loc["aurc", "verdict"] == delta.verdict()


def test_without_pandas_a_frame_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"scores_frame\(\) needs the extra 'frames'; type: pip"):
        a_result().scores_frame()
    with pytest.raises(MissingExtra, match=r"^to_frame\(\) needs the extra 'frames'"):
        a_result().to_frame()


def test_rows_of_a_kind_of_their_own_say_so() -> None:
    class Own(Rows):
        pass

    assert repr(Own(ROWS)) == "Own(4 rows)"
