"""Stage 4: `BenchmarkResult`, everything that a run produced, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krisis import __version__
from krisis.errors import InvalidFile, MissingExtra
from krisis.json_values import dumps, plain, read_object, with_nan, write_text
from krisis.metrics.base import EvaluationResult, MetricScore, MetricScores
from krisis.results.rows import row_from_dict, row_to_dict
from krisis.statistics.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1


@dataclass(slots=True)
class BenchmarkResult:
    """Rows, scores, what was run and how it went."""

    evaluation_results: list[EvaluationResult]
    metric_scores: Mapping[str, MetricScore]
    suite_description: dict[str, Any]
    backend_name: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metric_scores = MetricScores(self.metric_scores)  # readable by name and by key

    def attrition(self) -> dict[str, int]:
        """Count the rows from loading to outcome; rows of a metrics-only file are not there."""
        if not self.evaluation_results and "attrition" in self.extras:
            return dict(self.extras["attrition"])
        outcomes = [row.outcome for row in self.evaluation_results]
        n_sent = len(outcomes)
        return {
            "n_loaded": int(self.extras.get("n_loaded", n_sent)),
            "n_sent": n_sent,
            "n_answered": outcomes.count("answered"),
            "n_abstained": outcomes.count("abstained"),
            "n_failed": outcomes.count("failed"),
        }

    def to_dict(self, *, include_results: bool = True) -> dict[str, Any]:
        """Return everything as plain JSON values, with the rows or without."""
        content: dict[str, Any] = {
            "kind": "krisis.result" if include_results else "krisis.metrics",
            "schema_version": SCHEMA_VERSION,
            "krisis_version": __version__,
            "backend_name": self.backend_name,
            "suite_description": plain(self.suite_description),
            "attrition": self.attrition(),
            "metric_scores": {
                name: plain(asdict(score)) for name, score in self.metric_scores.items()
            },
            "extras": plain(self.extras),
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
        """Return one line per row as a pandas frame, metadata under their own names."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.named("frames", "to_frame()") from None
        rows = map(row_to_dict, self.evaluation_results)
        flat = [
            {
                **{name: value for name, value in row.items() if not isinstance(value, dict)},
                **{f"metadata.{key}": value for key, value in row["metadata"].items()},
                **{f"signals.{key}": value for key, value in row["signals"].items()},
            }
            for row in rows
        ]
        return pd.DataFrame(flat)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the whole result to a JSON file."""
        path = Path(path)
        write_text(path, self.to_json() + "\n", overwrite=overwrite)
        return path

    @classmethod
    def load(cls, path: str | Path) -> BenchmarkResult:
        """Read back what `save` or `metrics_to_json` wrote."""
        return cls.from_dict(read_object(Path(path)), place=str(path))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, place: str = "result") -> BenchmarkResult:
        """Read back what `to_dict` returned."""
        _check_envelope(content, place)
        extras = dict(content["extras"])
        if "evaluation_results" not in content:
            extras.setdefault("attrition", content.get("attrition", {}))
        return cls(
            [
                row_from_dict(row, f"{place}: row {index}")
                for index, row in enumerate(content.get("evaluation_results", []))
            ],
            MetricScores(
                (name, score_from_dict(score, f"{place}: metric {name!r}"))
                for name, score in content["metric_scores"].items()
            ),
            dict(content["suite_description"]),
            content["backend_name"],
            extras,
        )


_ENVELOPE: dict[str, type] = {
    "backend_name": str,
    "suite_description": dict,
    "metric_scores": dict,
    "extras": dict,
}


def _check_envelope(content: Mapping[str, Any], place: str) -> None:
    if content.get("kind") not in ("krisis.result", "krisis.metrics"):
        raise InvalidFile(
            f"{place} is not a krisis result (its kind is {content.get('kind')!r}); "
            "name a file that BenchmarkResult.save or `krisis run` wrote"
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


def score_from_dict(data: Any, place: str) -> MetricScore:
    """Read a score back; every null in it is a NaN."""
    try:
        interval = data.get("interval")
        return MetricScore(
            name=str(data["name"]),
            value=float(with_nan(data["value"])),
            breakdown={key: float(with_nan(value)) for key, value in data["breakdown"].items()},
            n_evaluated=int(data["n_evaluated"]),
            n_abstained=int(data["n_abstained"]),
            details=with_nan(data["details"]),
            interval=Interval(**with_nan(interval)) if interval else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidFile(f"{place} cannot be read ({error!r})") from None
