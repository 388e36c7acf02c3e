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
from krisis.backends.elicitation import Asking, Elicitation, Way
from krisis.backends.prompt import IN_THE_USUAL_WAY
from krisis.backends.scripted import ScriptedBackend
from krisis.backends.template import PromptTemplate
from krisis.backends.wording import built_in_prompt
from krisis.data.base import BaseDataSuite, FeatureSet
from krisis.data.instructions import Instructions
from krisis.data.table.suite import TableSuite

CANARY = "canary-7f3a"


pytestmark = pytest.mark.usefixtures("made_up_support2")
TABLES = Path(__file__).parents[1] / "examples" / "tables"


def every_suite() -> Iterator[Any]:
    for path in (TABLES / "lab.yaml", TABLES / "questions.yaml"):
        for task in TableSuite(path).tasks:
            kind = partial(TableSuite, path)
            yield pytest.param(kind, SuiteConfig(task=task), id=f"{path.name}-{task}")
    for name in registry.BUILT_IN["suites"]:
        kind = registry.find("suites", name)
        for task in kind.tasks:
            if kind.terms:  # real people, one set of features
                yield pytest.param(kind, SuiteConfig(task=task), id=f"{name}-{task}")
                continue
            for features in FeatureSet:
                config = SuiteConfig(task=task, features=features, n_synthetic=9)
                yield pytest.param(kind, config, id=f"{name}-{task}-{features}")


def requests_for(
    suite: BaseDataSuite,
    records: list[PatientRecord],
    batch_size: int,
    asking: Asking = IN_THE_USUAL_WAY,
) -> list[ChatRequest]:
    """Return everything that a provider would be sent for these records."""
    sent: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        sent.append(request)
        reply = good_reply(suite, request, abstains=asking == IN_THE_USUAL_WAY)
        if request.mode == "single":
            return json.dumps(reply)
        rows = request.schema["properties"]["results"]["items"]["properties"]["id"]["enum"]
        return json.dumps({"results": [{"id": name, **reply} for name in rows]})

    backend = ScriptedBackend(answer)
    backend.asking = asking
    result = Benchmark(suite, backend, [], batch_size).run(records)
    assert all(row.error is None for row in result.evaluation_results)
    for row in result.evaluation_results:
        assert CANARY not in row.prompt
    return sorted(sent, key=lambda request: request.key())


def good_reply(suite: BaseDataSuite, request: ChatRequest, *, abstains: bool) -> dict[str, Any]:
    """Return a reply with every member that the schema asks for."""
    first = next(iter(suite.task.answers))
    values: dict[str, Any] = {
        "abstained": abstains,
        "prediction": None if abstains else first,
        "confidence": None if abstains else 0.5,
        "guesses": [{"answer": first, "probability": 0.5}],
        "probability": 0.5,
        "rationale": "so it is",
        "evidence_quotes": [],
        "verbalized_confidence": 3,
    }
    asked = request.schema["properties"]
    if request.mode == "batch":
        asked = asked["results"]["items"]["properties"]
    return {name: values[name] for name in asked if name != "id"}


def disguised(record: PatientRecord, answers: list[Any]) -> PatientRecord:
    """Return the same case with another label and with canaries for metadata."""
    other = next(answer for answer in answers if answer != record.label)
    hidden: dict[str, Any] = {
        key: not value if isinstance(value, bool) else f"{CANARY}-{key}"
        for key, value in record.metadata.items()
    }
    if isinstance(record.metadata.get("retrieval"), dict):  # which the suite reads after the call
        hidden["retrieval"] = {CANARY: CANARY}
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


OWN = PromptTemplate("own", built_in_prompt().replace("\n{findings}", "\nSee:\n{findings}\nWell?"))
ASKINGS = [
    *(Asking(elicit=Elicitation(way)) for way in Way if way is not Way.ANSWER),
    *(Asking(instructions=one) for one in Instructions if one is not Instructions.PRICE),
]


@pytest.mark.parametrize("asking", [*ASKINGS, Asking(OWN)], ids=lambda one: "-".join(one.words))
@pytest.mark.parametrize(
    ("kind", "config"), [one for one in every_suite() if "full" not in str(one.id)]
)
def test_nothing_leaks_in_any_way_of_asking(kind: Any, config: SuiteConfig, asking: Asking) -> None:
    """Both calls of an answer in two are compared, one case at a time and four together."""
    suite: BaseDataSuite = kind(config)
    records, answers = suite.load()[:8], list(suite.task.answers)
    other = [disguised(record, answers) for record in records]
    for batch_size in (1, 4):
        plain = requests_for(suite, records, batch_size, asking)
        changed = requests_for(suite, other, batch_size, asking)
        assert plain == changed
        assert CANARY not in repr(changed)
        n_calls = 1 + asking.elicit.asks_twice
        assert len(plain) % n_calls == 0
        if asking.elicit.asks_twice:
            assert sum("probability" in repr(one.schema) for one in plain) == len(plain) / 2


def test_the_test_would_see_a_leak() -> None:
    """A suite that shows its label as a feature must fail the comparison above."""
    kind = registry.find("suites", "ckd")
    suite = kind(SuiteConfig(n_synthetic=4))
    records = suite.load()
    leaking = [replace(r, features={**r.features, "hint": f"label {r.label}"}) for r in records]
    other = [replace(r, features={**r.features, "hint": f"label {1 - r.label}"}) for r in records]
    assert requests_for(suite, leaking, 1) != requests_for(suite, other, 1)
