"""Score the baselines of a suite on the records of a run, so that a result can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.data.base import BaseDataSuite, PatientRecord
from krisis.errors import UserError
from krisis.execution.batches import cases_of
from krisis.execution.rows import answered_row
from krisis.metrics.base import BaseMetric, Rows, score_all
from krisis.results.beside import KEY, plain_scores


def baseline_scores(
    suite: BaseDataSuite, records: Sequence[PatientRecord], metrics: Sequence[BaseMetric]
) -> dict[str, Any]:
    """Return the entry for a run's extras; a baseline that cannot be prepared is left out."""
    found = {}
    for name in suite.baselines:
        try:
            backend: BaseBackend = registry.find("backends", name)()
            backend.prepare(suite)
        except UserError:
            continue
        cases = cases_of(records, 1)
        responses = backend.evaluate_batch([case.record for case in cases])
        rows = Rows(
            answered_row(case, response, prompt="")
            for case, response in zip(cases, responses, strict=True)
        )
        found[name] = plain_scores(score_all(metrics, rows))
    return {KEY: found} if found else {}
