"""Runs in several forms: the rows of other forms are kept, continued and in no score."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import rows_in

from krisis import Benchmark, BenchmarkResult, PatientRecord, SuiteConfig
from krisis.backends.chat import ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import FeatureDescription, RecordListSuite, SecondUnit, Task
from krisis.data.perturbation import Perturbation, Perturbed
from krisis.decisions.stability import stability_of
from krisis.errors import InvalidValue, ProviderUnavailable, RunConflict, UserError
from krisis.execution.batches import Case, plan_batches
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.pages.audit import stability_section
from krisis.pages.document import Sentences
from krisis.results.stops import Interrupted
from krisis.runs.load import list_runs, load_run

TASK = Task(
    "high",
    "Is the creatinine high?",
    {0: "no", 1: "yes"},
    {
        "sc": FeatureDescription("Creatinine", "mg/dL", second_unit=SecondUnit("µmol/L", 88.4)),
        "age": FeatureDescription("Age", "years"),
    },
    paraphrase="Would you call the creatinine high?",
)
ALL = ["feature-order", "answer-order", "unit", "missing-word", "paraphrase"]


def suite_of(n: int = 12) -> RecordListSuite:
    """Return records of which every third lacks its creatinine."""
    records = [
        PatientRecord(
            {"sc": None if i % 3 == 2 else 0.8 + i / 10, "age": 40 + i},
            int(i > 5),
            record_id=f"r{i}",
            cluster_id=f"p{i // 2}",
        )
        for i in range(n)
    ]
    return RecordListSuite(records, TASK, SuiteConfig(seed=3))


class Model(ScriptedBackend):
    """Flips wherever it reads µmol/L, abstains where a value is missing in the other word."""

    def __init__(self) -> None:
        super().__init__(self.reply, retry_base_seconds=0.001, max_retries=0)
        self.sent: list[ChatRequest] = []
        self.failing = ""
        self.stop: tuple[int, Stop] | None = None

    async def reply(self, request: ChatRequest) -> str:
        await asyncio.sleep(0)  # a stop is heard between calls
        self.sent.append(request)
        if self.stop and len(self.sent) == self.stop[0]:
            self.stop[1].request_from_outside(Interrupted("enough"))
        if self.failing and self.failing in request.user:
            raise ProviderUnavailable("gone")
        blocks = request.user.split("\n\n")
        answers = [
            {
                "abstained": "no measurement available" in block,
                "prediction": None
                if "no measurement available" in block
                else int("µmol/L" in block or "not measured" in block),
                "confidence": None if "no measurement available" in block else 0.8,
            }
            for block in blocks
        ]
        if request.mode == "single":
            return json.dumps(answers[0])
        return json.dumps(
            {"results": [{"id": f"case_{i}", **one} for i, one in enumerate(answers)]}
        )


def run(
    backend: ScriptedBackend, perturb: Sequence[str] = ALL, *, batch_size: int = 1, **options: Any
) -> BenchmarkResult:
    execution = Execution(perturb=perturb, **options)
    return Benchmark(suite_of(), backend, batch_size=batch_size, execution=execution).run()


def kinds(result: BenchmarkResult) -> dict[str, int]:
    return dict(Counter(row.metadata["perturbation"] for row in result.perturbed))


def test_rows_of_other_forms_change_no_score_and_no_row() -> None:
    alone, both = run(Model(), []), run(Model())
    for row in (*alone.evaluation_results, *both.evaluation_results):
        row.latency_seconds = None
    assert both.evaluation_results == alone.evaluation_results
    assert repr(both.metric_scores) == repr(alone.metric_scores)
    assert both.attrition == alone.attrition
    # Of 12 records 8 have a creatinine to convert and 4 lack one.
    assert kinds(both) == {
        "feature-order": 12, "answer-order": 12, "unit": 8, "missing-word": 4, "paraphrase": 12
    }  # fmt: skip
    assert {row.cluster_id for row in both.perturbed} == {f"p{i}" for i in range(6)}
    first = both.perturbed[0]
    assert (first.record_id, first.metadata["perturbation_of"]) == ("r0~feature-order", "r0")


def test_flips_are_counted_by_hand() -> None:
    found = {one.name: one for one in stability_of(run(Model())).perturbations}
    unit, missing = found["unit"], found["missing-word"]
    assert (unit.answer_flips.value, unit.answer_flips.n) == (1.0, 8)
    assert unit.answer_flips.low > 0.5
    assert unit.abstention_flips.value == 0
    assert (unit.n_cases, unit.n_patients, unit.n_not_asked) == (8, 6, 4)
    # The right answers are 0 up to r5: r0 r1 r3 r4 become wrong, r6 r7 r9 r10 right.
    assert (unit.accuracy.first, unit.accuracy.second) == (0.5, 0.5)
    assert unit.accuracy.p == 1.0
    assert missing.abstention_flips.value == 1.0
    assert missing.answer_flips.reason
    assert missing.abstention.p == 2 * 0.5**4  # four patients, all one way
    assert found["paraphrase"].answer_flips.value == 0


def test_a_batch_is_asked_again_with_the_same_companions() -> None:
    model = Model()
    result = run(model, ["unit", "missing-word"], batch_size=4)
    ages = [[line for line in one.user.splitlines() if "Age" in line] for one in model.sent]
    assert ages[:3] == ages[3:6] == ages[6:]
    assert kinds(result) == {"unit": 12, "missing-word": 12}
    assert [row.signals["batch_position"] for row in result.evaluation_results[:5]] == [
        0,
        1,
        2,
        3,
        0,
    ]
    places = stability_of(result).places
    assert places is not None
    assert "share a call" in places.reason
    parts = stability_section(stability_of(result)).parts
    lines = [line for part in parts if isinstance(part, Sentences) for line in part.lines]
    assert any("No trend test" in line for line in lines)


@pytest.mark.parametrize("group", ["", "g"])
def test_records_of_two_forms_never_share_a_call(group: str) -> None:
    record = PatientRecord({"sc": 1.0}, 0, record_id="a", group=group)
    forms = [None, Perturbed(Perturbation.UNIT, 0), Perturbed(Perturbation.PARAPHRASE, 0)]
    cases = [Case(at, record, perturbed=form) for at, form in enumerate(forms)]
    assert plan_batches(cases, 4) == [[case] for case in cases]


@pytest.mark.parametrize("after", [5, 14, 40])
def test_a_run_that_was_stopped_is_continued_without_asking_twice(
    tmp_path: Path, after: int
) -> None:
    whole, model, stop = Model(), Model(), Stop()
    expected = run(whole, recorder=Recorder(tmp_path / "whole"))
    model.stop = (after, stop)
    stopped = run(model, recorder=Recorder(tmp_path / "part"), stop=stop)
    assert after <= len(model.sent) < after + 3
    (path,) = list_runs(tmp_path / "part")
    assert stopped.n_left == load_run(path).n_left == 60 - len(model.sent)
    model.stop = None
    with pytest.raises(RunConflict, match="perturb"):
        run(Model(), ALL[:2], recorder=Recorder.resume(path))
    resumed = run(model, recorder=Recorder.resume(path))
    assert len(model.sent) == 60
    again = load_run(path)
    assert not again.damage
    assert resumed.n_left == again.n_left == 0
    for found in (resumed, again):
        assert [row.record_id for row in found.perturbed] == [
            row.record_id for row in expected.perturbed
        ]
        assert repr(found.metric_scores) == repr(expected.metric_scores)


def test_failed_rows_of_other_forms_are_counted_apart_and_retried(tmp_path: Path) -> None:
    model = Model()
    model.failing = "µmol/L"
    failed = run(model, recorder=Recorder(tmp_path))
    assert failed.attrition.n_lost == 0
    assert sum(row.error is not None for row in failed.perturbed) == 8
    assert not any(one.name == "unit" and one.n_cases for one in stability_of(failed).perturbations)
    model.failing = ""
    (path,) = list_runs(tmp_path)
    run(model, recorder=Recorder.resume(path, retry_failed=True))
    assert not any(row.error for row in load_run(path).perturbed)
    assert len(model.sent) == 60 + 8


def test_replies_come_from_the_cache_by_form(tmp_path: Path) -> None:
    first, second = Model(), Model()
    run(first, cache=ReplyCache(tmp_path / "replies.sqlite"))
    assert len({request.key() for request in first.sent}) == 60
    again = run(second, cache=ReplyCache(tmp_path / "replies.sqlite"))
    assert not second.sent
    assert again.spending.n_cache_hits == 60


def test_a_saved_result_keeps_its_rows_of_other_forms(tmp_path: Path) -> None:
    result = run(Model(), ["unit"])
    back = BenchmarkResult.load(result.save(tmp_path / "result.json"))
    assert back.perturbed == result.perturbed
    assert back.n_perturbed == 8
    assert stability_of(back).to_json() == stability_of(result).to_json()


def test_repeats_and_other_forms_go_together() -> None:
    result = run(Model(), ["unit"], repeats=3)
    assert len(result.evaluation_results) == 36
    assert kinds(result) == {"unit": 24}
    found = stability_of(result)
    assert found.repeats.n_cases == 12
    assert found.repeats.answer_flips.value == 0
    assert found.perturbations[0].answer_flips.n == 24


def test_the_stored_run_holds_no_value_of_another_form(tmp_path: Path) -> None:
    run(Model(), recorder=Recorder(tmp_path, store_features=False))
    (path,) = list_runs(tmp_path)
    templates = {row.prompt for row in rows_in(path).values()}
    assert any("[redacted] µmol/L" in template for template in templates)
    text = path.read_bytes().decode("utf-8", "replace")
    assert any(row.record_id.endswith("~unit") for row in rows_in(path).values())
    assert "70.7" not in text  # 0.8 mg/dL
    assert "71 µmol" not in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"perturb": ["nothing"]}, "unknown perturbation 'nothing'"),
        ({"perturb": "unit"}, "list of names"),
        ({"perturb": ["unit"], "stop_when": "accuracy >= 0.8"}, "stop_when"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Execution(**options)


def test_a_form_that_no_record_has_is_refused_before_the_first_call() -> None:
    records = [PatientRecord({"sc": 1.0}, 0, record_id="a")]
    model = Model()
    for kind in ("feature-order", "missing-word"):
        with pytest.raises(InvalidValue, match=f"'{kind}' changes no prompt"):
            Benchmark(
                RecordListSuite(records, TASK), model, execution=Execution(perturb=[kind])
            ).run()
    taken = [PatientRecord({"sc": 1.0}, 0, {"perturbation": "x"}, record_id="a")]
    with pytest.raises(InvalidValue, match="rename it"):
        Benchmark(RecordListSuite(taken, TASK), model, execution=Execution(perturb=["unit"])).run()
    assert not model.sent


def test_a_backend_that_builds_one_form_only_is_refused() -> None:
    class OneForm(Model):
        def build(self, cases: Any, *, mode: Any, sample_index: int = 0, context: str = "") -> Any:
            return super().build(cases, mode=mode, sample_index=sample_index, context=context)

    assert len(run(OneForm(), []).evaluation_results) == 12
    with pytest.raises(InvalidValue, match="one form only"):
        run(OneForm())
