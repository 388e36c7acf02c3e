"""Labels and metadata cannot reach a model: changing every one of them changes no request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from krisis import Benchmark, PatientRecord, SuiteConfig, registry
from krisis.backends.chat import ChatRequest
from krisis.backends.schema import case_name
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import BaseDataSuite, FeatureSet
from krisis.data.table.suite import TableSuite

CANARY = "canary-7f3a"


TABLES = Path(__file__).parents[1] / "examples" / "tables"


def every_suite() -> Iterator[Any]:
    for path in (TABLES / "lab.yaml", TABLES / "questions.yaml"):
        for task in TableSuite(path).tasks:
            kind = partial(TableSuite, path)
            yield pytest.param(kind, SuiteConfig(task=task), id=f"{path.name}-{task}")
    for name in registry.BUILT_IN["suites"]:
        kind = registry.find("suites", name)
        for task in kind.tasks:
            if name in ("diabetes", "hypertension"):  # real people, one set of features
                yield pytest.param(kind, SuiteConfig(task=task), id=f"{name}-{task}")
                continue
            for features in FeatureSet:
                config = SuiteConfig(task=task, features=features, n_synthetic=9)
                yield pytest.param(kind, config, id=f"{name}-{task}-{features}")


def requests_for(
    suite: BaseDataSuite, records: list[PatientRecord], batch_size: int
) -> list[ChatRequest]:
    """Return everything that a provider would be sent for these records."""
    sent: list[ChatRequest] = []

    def abstain(request: ChatRequest) -> str:
        sent.append(request)
        reply = {"abstained": True, "prediction": None, "confidence": None}
        if request.mode == "single":
            return json.dumps(reply)
        names = [case_name(index) for index in range(request.n_records)]
        return json.dumps({"results": [{"id": name, **reply} for name in names]})

    Benchmark(suite, ScriptedBackend(abstain), [], batch_size).run(records)
    return sorted(sent, key=lambda request: request.key())


def disguised(record: PatientRecord, answers: list[Any]) -> PatientRecord:
    """Return the same case with another label and with canaries for metadata."""
    other = next(answer for answer in answers if answer != record.label)
    hidden = {
        key: not value if isinstance(value, bool) else f"{CANARY}-{key}"
        for key, value in record.metadata.items()
    }
    return replace(record, label=other, metadata=hidden)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize(("kind", "config"), list(every_suite()))
def test_no_label_or_metadata_reaches_a_request(
    kind: Any, config: SuiteConfig, batch_size: int
) -> None:
    suite: BaseDataSuite = kind(config)
    records = suite.load()[:16]
    answers = list(suite.task.answers)
    plain = requests_for(suite, records, batch_size)
    changed = requests_for(suite, [disguised(record, answers) for record in records], batch_size)
    assert plain
    assert plain == changed
    assert CANARY not in repr(changed)


def test_the_test_would_see_a_leak() -> None:
    """A suite that shows its label as a feature must fail the comparison above."""
    kind = registry.find("suites", "ckd")
    suite = kind(SuiteConfig(n_synthetic=4))
    records = suite.load()
    leaking = [replace(r, features={**r.features, "hint": f"label {r.label}"}) for r in records]
    other = [replace(r, features={**r.features, "hint": f"label {1 - r.label}"}) for r in records]
    assert requests_for(suite, leaking, 1) != requests_for(suite, other, 1)
