"""The reader of the format before this one and the new reader give equal figures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord
from krisis.errors import ProviderUnavailable
from krisis.execution.assembly import assemble, execution_of
from krisis.execution.config import RunConfig
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.json_values import write_text
from krisis.results.base import BenchmarkResult
from krisis.results.call_totals import CallTotals
from krisis.results.cases import Cases
from krisis.results.journal import Journal
from krisis.results.loading import scored_as_it_is, scored_from_rows
from krisis.results.store import Manifest, RunDirectory, metrics_text
from krisis.results.store import load_run as load_old_run
from krisis.runs.load import load_run, read_description


class Flaky(BaseBackend):
    name = "flaky"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        at = sum(map(ord, record.record_id))
        if at % 7 == 0:
            raise ProviderUnavailable("gone")
        if at % 5 == 0:
            return BackendResponse(None, abstained=True)
        return BackendResponse(
            at % 2 if at % 11 else "maybe", confidence=at % 10 / 10, prompt="a template"
        )


def old_directory(result: BenchmarkResult, path: Path, run: Path) -> Path:
    """Write a result as the format before this one has it."""
    described = read_description(run)
    rows = [*result.evaluation_results, *result.perturbed]
    cases = Cases.of((row.record_id, row.cluster_id, row.ground_truth) for row in rows)
    path.mkdir()
    directory = RunDirectory(path)
    manifest = Manifest(
        cases_hash=cases.content_hash,
        **{
            name: getattr(described, name)
            for name in type(described).model_fields
            if name != "identity"
        },
        identity=described.identity.model_dump(),  # type: ignore[arg-type]
    )
    write_text(directory.cases, cases.text)
    write_text(directory.manifest, manifest.model_dump_json())
    journal = Journal(directory.rows)
    places: Any = [SimpleNamespace(position=at, record=None) for at in range(len(rows))]
    journal.append(places, rows, CallTotals())
    journal.close()
    write_text(directory.metrics, metrics_text(result, directory.rows.stat().st_size))
    return path


def figures(result: BenchmarkResult) -> dict[str, object]:
    content = result.to_dict()
    for name in ("run_file", "damage"):
        content["extras"].pop(name, None)
    return content


@pytest.mark.parametrize(
    ("settings", "backend"),
    [
        ({"suite": "ckd", "model": "guideline", "limit": 60}, None),
        ({"suite": "ckd", "model": "guideline", "limit": 40}, Flaky()),
        ({"suite": "ckd", "task": "staging", "model": "majority", "limit": 50}, None),
        ({"suite": "ckd", "task": "staging", "model": "guideline", "limit": 30}, None),
        ({"suite": "ckd", "model": "guideline", "limit": 20, "repeats": 3}, Flaky()),
        ({"suite": "phq8", "model": "majority", "limit": 64}, None),
    ],
)
def test_old_and_new_reader_give_equal_figures(
    settings: dict[str, Any], backend: BaseBackend | None, tmp_path: Path
) -> None:
    config = RunConfig(**settings, display="none", cache=False)
    recorder = Recorder(tmp_path / "runs", config=config.model_dump(mode="json"))
    parts = assemble(config, backend=backend)
    benchmark = Benchmark.of(parts, config, execution_of(config, recorder, Stop()))
    result = benchmark.run(parts.records, suite_description=parts.description)
    assert recorder.path is not None
    new = load_run(recorder.path)
    old = load_old_run(old_directory(result, tmp_path / "old", recorder.path))
    assert new.evaluation_results == old.evaluation_results
    assert figures(new) == figures(old)
    again = figures(scored_from_rows(new))
    assert again == figures(scored_from_rows(old))
    assert again["metric_scores"] == figures(scored_as_it_is(new))["metric_scores"]
