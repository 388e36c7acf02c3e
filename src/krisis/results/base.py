"""Stage 4: `BenchmarkResult`, everything that a run produced, and its file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from krisis import __version__
from krisis.display import Documented, cut
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject, dumps, plain, read_object, write_text
from krisis.metrics.base import (
    BaseMetric,
    EvaluationResult,
    MetricScore,
    MetricScores,
    Rows,
)
from krisis.metrics.curve_form import CurveFigure
from krisis.metrics.explanations import explained
from krisis.metrics.forms import Undefined
from krisis.metrics.labels import Answers
from krisis.metrics.risk_coverage import RiskCoverageCurve
from krisis.metrics.scoring import registered_metrics, score_all
from krisis.metrics.selective_prediction import AURC
from krisis.metrics.table import Loss
from krisis.results.account import (
    Prompts,
    Provenance,
    RunFacts,
    Spending,
    brief_scores,
)
from krisis.results.attrition import Attrition, FailureClass
from krisis.results.frames import frame_of, rows_frame, score_lines
from krisis.results.rows import row_from_dict, row_to_dict, score_from_dict
from krisis.results.stops import StopCause
from krisis.results.suite_facts import SuiteFacts
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import common_level

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Attrition",
    "BenchmarkResult",
    "FailureClass",
    "Prompts",
    "Provenance",
    "RunFacts",
    "Spending",
    "StopCause",
]

SCHEMA_VERSION = 2


@dataclass(slots=True, init=False)
class BenchmarkResult(RunFacts, Documented):
    """Rows and scores of a run, with the facts of how it came about and went.

    >>> result = BenchmarkResult([EvaluationResult(1, 1)], {}, {"suite": "toy"}, "rule")
    >>> result.provenance.suite, result.attrition.n_answered
    ('toy', 1)
    """

    builder: ClassVar[str] = "krisis.pages.run:run_document"
    brief_builder: ClassVar[str] = "krisis.pages.run:brief_document"

    evaluation_results: Rows
    metric_scores: MetricScores
    suite_description: JsonObject
    backend_name: str

    def __init__(
        self,
        evaluation_results: Sequence[EvaluationResult],
        metric_scores: Mapping[str, MetricScore],
        suite_description: JsonMapping,
        backend_name: str = "",
        extras: JsonMapping | None = None,
        *,
        facts: RunFacts | None = None,
    ) -> None:
        """Take rows, scores and either typed ``facts`` or the flat ``extras`` that name them."""
        known = facts or RunFacts.from_extras(extras or {})
        for one in fields(RunFacts):
            setattr(self, one.name, getattr(known, one.name))
        # The rows carry what is known of their task: a metric must not guess it from the labels.
        task = known.provenance.task_facts
        answers = None if task is None else Answers.of(task)
        rows = evaluation_results
        self.evaluation_results = (
            rows.with_answers(answers) if isinstance(rows, Rows) else Rows(rows, answers)
        )
        self.metric_scores = MetricScores(metric_scores)  # readable by name and by key
        self.suite_description = dict(suite_description)
        self.backend_name = backend_name
        self.provenance = _described(known.provenance, self.suite_description, backend_name)
        if self.evaluation_results:
            n_loaded = known.attrition.n_loaded or None
            self.attrition = Attrition.of(self.evaluation_results, n_loaded)

    def __repr__(self) -> str:
        made = " / ".join(part for part in (self.provenance.suite, self.provenance.task) if part)
        named = f"{cut(made) or 'unnamed suite'}, {cut(self.backend_name) or 'unnamed backend'}"
        scores = textwrap.wrap(repr(self.metric_scores), 100, break_on_hyphens=False)
        return "\n".join([f"BenchmarkResult({named})", str(self.attrition), *scores])

    @property
    def rows(self) -> Rows:
        """The rows with what is known of their task, ready to be scored."""
        return self.evaluation_results

    @property
    def suite(self) -> SuiteFacts:
        """What the suite says of itself, as far as others read it."""
        return SuiteFacts.of(self.suite_description)

    @property
    def n_left(self) -> int:
        """Return how many askings of the run have no row yet."""
        return self.attrition.n_left

    def scored(self, metrics: Sequence[BaseMetric], options: BootstrapOptions) -> BenchmarkResult:
        """Return the same run with other scores, those of each source among them."""
        rows = self.rows
        again = BenchmarkResult(
            self.evaluation_results,
            score_all(metrics, rows, intervals=options),
            self.suite_description,
            self.backend_name,
            facts=self,
        )
        again.scores_by_source = scores_by_source(metrics, rows, options)
        return again

    def also_scored(self, names: Iterable[str]) -> BenchmarkResult:
        """Return the run with the scores of further registered metrics, where it has rows."""
        asked = registered_metrics([name for name in names if name not in self.metric_scores])
        if not asked or not self.rows:
            return self
        lacking = list({metric.identifier: metric for metric in asked}.values())
        level = common_level(score.interval for score in self.metric_scores.values())
        again = self.scored(lacking, BootstrapOptions(level=level))
        again.metric_scores = MetricScores({**self.metric_scores, **again.metric_scores})
        again.scores_by_source = {
            source: MetricScores({**scores, **again.scores_by_source.get(source, {})})
            for source, scores in {**again.scores_by_source, **self.scores_by_source}.items()
        }
        return again

    def to_dict(self, *, include_results: bool = True) -> JsonObject:
        """Return everything as plain JSON values, with the rows or without."""
        content: JsonObject = {
            "kind": "krisis.result" if include_results else "krisis.metrics",
            "schema_version": SCHEMA_VERSION,
            "krisis_version": __version__,
            "backend_name": self.backend_name,
            "suite_description": plain(self.suite_description),
            "attrition": self.attrition.to_dict(),
            "metric_scores": {
                name: plain(asdict(score)) for name, score in self.metric_scores.items()
            },
            "extras": self.extras,
        }
        if include_results:
            content["evaluation_results"] = [row_to_dict(row) for row in self.evaluation_results]
        return content

    def to_json(self, include_results: bool = True) -> str:
        """Return strict JSON of the whole result, or of all but its rows."""
        return dumps(self.to_dict(include_results=include_results))

    def metrics_to_json(self) -> str:
        """Return the scores with backend, suite and execution: enough for a comparison."""
        return self.to_json(include_results=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one line per row as a pandas frame, metadata and signals under their own names."""
        return rows_frame(map(row_to_dict, self.evaluation_results))

    def scores_frame(self) -> pd.DataFrame:
        """Return one line per metric as a pandas frame: value, interval, counts and direction.

        ``source`` is ``all``; of a run on real and synthetic patients each kind follows.
        """
        found = {"all": self.metric_scores, **self.scores_by_source}
        lines = (score_lines(scores, source) for source, scores in found.items())
        return frame_of([line for part in lines for line in part], "scores_frame()")

    def risk_coverage_curve(self, loss: Loss | None = None) -> RiskCoverageCurve:
        """Return the risk over coverage, by falling confidence; the task names the usual loss."""
        form = AURC(loss=loss).form(self.rows.table)
        if isinstance(form, Undefined):
            raise InvalidValue(
                f"the result has no risk–coverage curve: {explained(form.reason)}; it needs "
                "answers that all state a confidence"
            )
        assert isinstance(form, CurveFigure)
        return form.curve

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the whole result to a JSON file."""
        path = Path(path)
        write_text(path, self.to_json() + "\n", overwrite=overwrite)
        return path

    @classmethod
    def load(cls, path: str | Path) -> BenchmarkResult:
        """Read back what `save` or `metrics_to_json` wrote; `runs.load.load_run` reads a run."""
        return cls.from_dict(read_object(Path(path)), place=str(path))

    @classmethod
    def from_dict(cls, content: JsonMapping, *, place: str = "result") -> BenchmarkResult:
        """Read back what `to_dict` returned."""
        _check_envelope(content, place)
        rows = [
            row_from_dict(row, f"{place}: row {i}")
            for i, row in enumerate(content.get("evaluation_results", []))
        ]
        scores = MetricScores(
            (name, score_from_dict(score, f"{place}: metric {name!r}"))
            for name, score in content["metric_scores"].items()
        )
        try:
            facts = RunFacts.from_extras({**content["extras"], "attrition": content["attrition"]})
        except InvalidValue as error:
            raise InvalidFile(f"{place}: {error}") from None
        named = (content["suite_description"], content["backend_name"])
        return cls(rows, scores, *named, facts=facts)


def _described(provenance: Provenance, suite: JsonMapping, model: str) -> Provenance:
    """Return a provenance with what the suite says of itself, where that can be read."""
    facts = SuiteFacts.of(suite)
    return replace(
        provenance,
        suite=facts.suite,
        task=facts.task,
        features=facts.features,
        mode=facts.mode,
        limit=facts.limit,
        n_records=facts.n_records,
        content_hash=facts.content_hash,
        case_hash=facts.case_hash,
        model=model,
    )


def scores_by_source(
    metrics: Sequence[BaseMetric],
    results: Sequence[EvaluationResult],
    options: BootstrapOptions | None = None,
) -> dict[str, MetricScores]:
    """Score real and synthetic patients apart; nothing where all rows are of one source."""
    parts = rows_by_source(results)
    if len(parts) < 2:
        return {}
    return {name: score_all(metrics, part, intervals=options) for name, part in parts.items()}


def baseline_scores(
    found: Mapping[str, Rows], metrics: Sequence[BaseMetric]
) -> dict[str, MetricScores]:
    """Return the scores of baselines: values and denominators."""
    return {name: brief_scores(score_all(metrics, rows)) for name, rows in found.items()}


def rows_by_source(results: Sequence[EvaluationResult]) -> dict[str, Rows]:
    """Return the rows of real patients, of synthetic ones and of those that do not say."""
    rows = results if isinstance(results, Rows) else Rows(results)
    sources = ("real", "synthetic", "unstated")
    stated = rows.columns.metadata("synthetic").mapped(
        lambda value: int(value) if isinstance(value, bool) else sources.index("unstated")
    )
    places = {name: np.flatnonzero(stated == code) for code, name in enumerate(sources)}
    found = {name: at for name, at in places.items() if at.size}
    if len(found) == 1:
        return dict.fromkeys(found, rows)
    return {name: Rows(rows.columns.taken(at), rows.answers) for name, at in found.items()}


_ENVELOPE: dict[str, type] = {
    "backend_name": str,
    "suite_description": dict,
    "attrition": dict,
    "metric_scores": dict,
    "extras": dict,
}


def _check_envelope(content: JsonMapping, place: str) -> None:
    if content.get("kind") not in ("krisis.result", "krisis.metrics"):
        raise InvalidFile(
            f"{place} is not a krisis result (its kind is {content.get('kind') or 'not stated'}); "
            "name a run, or a file that `krisis show --save` wrote"
        )
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidFile(
            f"{place} has schema version {version!r} and this krisis reads {SCHEMA_VERSION}; "
            "use the krisis that wrote it or run again"
        )
    for name, kind in _ENVELOPE.items():
        if not isinstance(content.get(name), kind):
            raise InvalidFile(f"{place}: {name} must be a {kind.__name__}")
    if not isinstance(content.get("evaluation_results", []), list):
        raise InvalidFile(f"{place}: evaluation_results must be a list")


def one_kind(result: BenchmarkResult) -> tuple[BenchmarkResult, str]:
    """Return the run over one kind of patients, and which: over several it is a result for none."""
    parts = rows_by_source(result.rows) if result.scores_by_source else {}
    if len(parts) < 2:
        return result, ""
    source, rows = next(iter(parts.items()))
    part = copy(result)
    part.evaluation_results = rows
    return part, f"{source} patients"
