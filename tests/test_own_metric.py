"""A user's metric of ten lines is first class: one walk through everything that shows numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from tests.documents import has_row, said
from tests.invented_runs import invented_rows
from typer.testing import CliRunner

from krisis import registry
from krisis.cli.app import app
from krisis.errors import InvalidValue
from krisis.metrics import Accuracy, BootstrapOptions, score_all
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.metrics.forms import Form, Share, Uncertainty
from krisis.metrics.table import Table
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import best_first, side_by_side
from krisis.verbs.check.gate import Gate, check_run
from krisis.verbs.compare.pairs import CompareOptions, compare_runs


class ConfidentErrors(BaseMetric):
    name, direction = "Confident errors", "lower"

    def __init__(self, level: float = 0.8) -> None:
        self.level = level

    def form(self, table: Table) -> Form:
        sure = table.answered & (table.confidence >= self.level)
        return Share(~table.correct, among=sure)


class LongestReply(BaseMetric):
    name, direction = "Longest reply", "lower"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        lengths = [len(row.raw_response) for row in results]
        return MetricScore(self.name, float(max(lengths, default=0)), n_evaluated=len(lengths))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that a package registers the first metric, under a name of its own."""
    known = registry.table
    own = {"metrics": {"sure_but_wrong": f"{__name__}:ConfidentErrors"}}
    monkeypatch.setattr(registry, "table", lambda kind: {**known(kind), **own.get(kind, {})})
    monkeypatch.setattr(
        registry, "import_module", lambda name: sys.modules.get(name) or import_module(name)
    )


def scored(metrics: Sequence[BaseMetric], name: str, skill: float) -> BenchmarkResult:
    rows = invented_rows(400, skill=skill)
    scores = score_all(metrics, rows, intervals=BootstrapOptions(n_resamples=300))
    return BenchmarkResult(rows, scores, {"suite": "toy", "task": "triage"}, name)


@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        ([Accuracy(), ConfidentErrors()], "confident_errors"),
        ([Accuracy(), ConfidentErrors(level=0.9)], "confident_errors[level=0.9]"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_plug_in_metric_is_shown_compared_ranked_and_gated(
    tmp_path: Path, metrics: list[BaseMetric], key: str
) -> None:
    runs = {name: scored(metrics, name, skill) for name, skill in (("good", 1.0), ("poor", 0.6))}
    paths = [run.save(tmp_path / f"{name}.json") for name, run in runs.items()]
    stored = BenchmarkResult.load(paths[0])
    score = stored.metric_scores[key]
    assert (score.direction, score.key) == ("lower", "confident_errors")
    assert score.parameters["level"] == metrics[1].level  # type: ignore[attr-defined]
    assert score.interval is not None
    assert score.interval.low < score.value < score.interval.high

    assert has_row(stored.document(), metrics[1].label)
    assert metrics[1].label in page_of(run_document(stored))

    comparison = compare_runs(
        {path.stem: BenchmarkResult.load(path) for path in paths},
        CompareOptions((key,), n_permutations=399),
    )
    delta = comparison.pairs[0].deltas[key]
    assert delta.left == score.value
    assert delta.verdict() == "worse"
    assert comparison.tied_with_best()[key] == ["good"]

    found = side_by_side(runs)
    (column,) = [one for one in found.columns if one.heading == metrics[1].label]
    assert [entry.name for entry in best_first(found.entries, column)] == ["good", "poor"]

    gate = Gate([f"{key} <= 0.9"])
    assert check_run(stored, gate)[0].state == "not judged"  # 2 % of the calls were lost
    assert check_run(stored, gate, max_not_evaluated=0.05)[0].state == "met"
    against = check_run(
        BenchmarkResult.load(paths[1]),
        Gate(no_worse=[f"{key} by 0.05"]),
        against=stored,
        max_not_evaluated=0.05,
    )
    assert against[0].state == "failed"

    shown = CliRunner().invoke(app, ["compare", *map(str, paths), "--permutations", "199"])
    assert shown.exit_code == 0, shown.output
    assert "Confident errors" in shown.output


def test_a_metric_with_compute_alone_walks_the_same_way_from_python() -> None:
    metrics = [Accuracy(), LongestReply()]
    runs = {name: scored(metrics, name, skill) for name, skill in (("a", 1.0), ("b", 0.7))}
    score = runs["a"].metric_scores["longest_reply"]
    assert (score.direction, score.key) == ("lower", "longest_reply")
    assert score.interval is not None
    comparison = compare_runs(runs, CompareOptions(metrics, n_permutations=99))
    delta = comparison.pairs[0].deltas["longest_reply"]
    assert not math.isnan(delta.p_value)
    assert delta.interval is not None
    assert comparison.n_permutations == 99
    assert "longest_reply" in {column.name for column in side_by_side(runs).columns}
    verdicts = check_run(runs["a"], Gate(["longest_reply >= 1"]), max_not_evaluated=0.05)
    assert verdicts[0].state == "met"


def test_a_metric_that_is_not_installed_here_is_named_and_left_out() -> None:
    metrics = [Accuracy(), ConfidentErrors()]
    runs = {name: scored(metrics, name, skill) for name, skill in (("a", 1.0), ("b", 0.7))}
    comparison = compare_runs(runs, CompareOptions(n_permutations=99))
    assert list(comparison.pairs[0].deltas) == ["accuracy"]
    assert "not installed" in comparison.left_out["confident_errors"]


class Raising(BaseMetric):
    """Fails on some rows, as metrics of one's own do."""

    name, direction = "Raising", "higher"

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        if len({row.record_id for row in results}) > self.limit:
            raise ZeroDivisionError("no such rows")
        return MetricScore(self.name, 0.5, n_evaluated=len(results))


class RaisingForm(BaseMetric):
    name = "Raising form"

    def form(self, table: Table) -> Form:
        raise KeyError("lactate")


def test_a_metric_that_raises_is_undefined_and_costs_no_other(tmp_path: Path) -> None:
    runs = {
        name: scored([Accuracy(), Raising(), RaisingForm()], name, skill)
        for name, skill in (("first", 0.8), ("second", 0.7))
    }
    for result in runs.values():
        score = result.metric_scores["raising"]
        assert math.isnan(score.value)
        assert score.details["reason"] == "the metric raised ZeroDivisionError: no such rows"
        assert (
            result.metric_scores["raising_form"].details["reason"].endswith("KeyError: 'lactate'")
        )
        assert result.metric_scores["accuracy"].interval is not None
        assert "Raising is undefined: the metric raised ZeroDivisionError" in said(
            result.document()
        )
        assert "the metric raised ZeroDivisionError" in page_of(run_document(result))
        result.save(tmp_path / f"{result.backend_name}.json")
    options = CompareOptions(metrics=(Accuracy(), Raising(), RaisingForm()), n_permutations=99)
    (pair,) = compare_runs(runs, options).pairs
    assert pair.deltas["accuracy"].interval is not None
    assert "ZeroDivisionError" in pair.deltas["raising"].reason
    assert "KeyError" in pair.deltas["raising_form"].reason
    files = [str(tmp_path / f"{name}.json") for name in runs]
    for command in (
        ["show", files[0]],
        ["show", files[0], "-m", "accuracy"],
        ["compare", *files, "--permutations", "99"],
    ):
        assert CliRunner().invoke(app, command).exit_code == 0
    (verdict,) = check_run(runs["first"], Gate(require=("raising >= 0.4",)))
    assert verdict.state == "not judged"


def test_a_metric_that_raises_on_drawn_rows_has_a_value_and_says_why_no_interval() -> None:
    rows = [row for row in invented_rows(40, skill=0.8) if row.error is None]

    class OnAllRowsOnly(BaseMetric):
        name = "On all rows only"

        def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
            assert len({row.record_id for row in results}) == len(rows), "rows are missing"
            return MetricScore(self.name, 0.5, n_evaluated=len(rows))

    score = score_all([OnAllRowsOnly()], rows, intervals=BootstrapOptions(n_resamples=50))
    found = score["on_all_rows_only"]
    assert found.value == 0.5
    assert found.interval is not None
    assert found.interval.reason == "fewer_than_two_valid_resamples"


def test_a_form_whose_interval_raises_keeps_its_value() -> None:
    class Broken(Share):
        def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
            raise RuntimeError("singular")

    class Own(BaseMetric):
        name = "Own"

        def form(self, table: Table) -> Form:
            return Broken(table.correct, among=table.answered)

    found = score_all([Own()], invented_rows(20, skill=0.8), intervals=BootstrapOptions())["own"]
    assert 0 < found.value <= 1
    assert found.interval is not None
    assert found.interval.reason == "the metric raised RuntimeError: singular"


def test_a_metric_that_writes_into_the_table_changes_no_other() -> None:
    class Writing(BaseMetric):
        name = "Writing"

        def form(self, table: Table) -> Form:
            table.correct[:] = False
            return Share(table.correct, among=table.answered)

    rows = invented_rows(40, skill=0.8)
    scores = score_all([Writing(), Accuracy()], rows)
    assert "read-only" in scores["writing"].details["reason"]
    assert scores["accuracy"].value == score_all([Accuracy()], rows)["accuracy"].value


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (0.5, "compute(results) must return a MetricScore, not float"),
        (None, "compute(results) must return a MetricScore, not NoneType"),
        (MetricScore("Odd", math.nan), "the metric gave no reason"),
        (SystemExit(2), "the metric raised SystemExit: 2"),
    ],
)
def test_a_metric_of_ones_own_always_says_why_it_has_no_value(
    returned: object, reason: str
) -> None:
    class Odd(BaseMetric):
        name = "Odd"

        def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
            if isinstance(returned, BaseException):
                raise returned
            return returned  # type: ignore[return-value]

    score = score_all([Odd()], invented_rows(10, skill=0.8))["odd"]
    assert math.isnan(score.value)
    assert reason in score.details["reason"]


def test_a_direction_that_is_none_is_refused() -> None:
    class Sideways(Raising):
        name, direction = "Sideways", "sideways"  # type: ignore[assignment]

    with pytest.raises(InvalidValue, match=r"direction of the metric 'Sideways'.*'sideways'"):
        score_all([Sideways()], invented_rows(10, skill=0.8))
