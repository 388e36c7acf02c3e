"""A run in another form: it names the form, keeps to it, and is paired with the plain run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import rows_in

import krisis
from krisis import Benchmark, BenchmarkResult, PatientRecord, SuiteConfig
from krisis.backends.chat import ChatRequest
from krisis.backends.elicitation import Asking
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import FeatureDescription, RecordListSuite, SecondUnit, Task
from krisis.data.perturbation import Perturbed
from krisis.errors import InvalidValue, ProviderUnavailable, RunConflict, UserError
from krisis.execution.cache import ReplyCache
from krisis.execution.grid import grid_of
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.matching import match_runs
from krisis.results.stops import Interrupted
from krisis.runs.load import list_runs, load_run
from krisis.verbs.audit.stability import Agreement, stability_of

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


def asking(perturb: str) -> Asking:
    return Asking(perturbed=Perturbed.parsed(perturb, 3))


def run(
    backend: Model, perturb: str = "none", *, batch_size: int = 1, **options: Any
) -> BenchmarkResult:
    backend.asking = asking(perturb)
    execution = Execution(**options)
    return Benchmark(suite_of(), backend, batch_size=batch_size, execution=execution).run()


def paired(perturb: str) -> Agreement:
    (found,) = stability_of(run(Model()), {"other": run(Model(), perturb)}).against
    return found


def test_every_record_is_asked_in_the_form_and_the_run_names_it() -> None:
    model = Model()
    found = run(model, "unit")
    assert [row.record_id for row in found.rows] == [f"r{i}" for i in range(12)]
    # Of 12 records 4 have no creatinine to convert.
    assert len(model.sent) == 12
    assert sum("µmol/L" in one.user for one in model.sent) == 8
    assert found.backend_name.endswith(" · perturb unit")
    assert found.provenance.asking is not None
    assert found.provenance.asking.perturb == "unit"
    assert "--perturb unit" in str(found.provenance.asking)
    assert run(Model()).provenance.asking is None


def test_flips_against_the_plain_run_are_counted_by_hand() -> None:
    unit, missing = paired("unit"), paired("missing-word")
    # Of 12 records 8 have a creatinine, which the model then calls high; of these 4 are not.
    assert (unit.answer_flips.value, unit.answer_flips.n) == (8 / 12, 12)
    assert (unit.n_cases, unit.n_patients, unit.n_not_asked) == (12, 6, 0)
    assert unit.abstention_flips.value == 0
    # The right answers are 0 up to r5, and r2 r5 r8 r11 (nothing measured) are answered 1.
    assert unit.accuracy is not None
    assert (unit.accuracy.first, unit.accuracy.second) == (6 / 12, 6 / 12)
    assert missing.abstention_flips.value == 4 / 12
    assert missing.answer_flips.value == 0
    assert missing.abstention is not None
    assert missing.abstention.p == 2 * 0.5**4  # four patients, all one way
    assert paired("paraphrase").answer_flips.value == 0
    assert "the usual form here, unit there" in unit.name


def test_a_model_that_samples_is_said_to_flip_without_another_form() -> None:
    found = stability_of(run(Model()), {"other": run(Model(), "unit")})
    assert any("--repeats would show" in one for one in found.assumptions)
    again = stability_of(run(Model()), {"other": run(Model())})
    assert not any("--repeats would show" in one for one in again.assumptions)


def test_compare_pairs_the_forms(tmp_path: Path) -> None:
    runs = {"plain": run(Model()), "unit": run(Model(), "unit")}
    matched = match_runs(runs)
    assert matched.n_compared == 12
    assert not any(matched.unmatched.values())


def test_forms_go_with_batches_and_repeats() -> None:
    model = Model()
    result = run(model, "missing-word", batch_size=4, repeats=3)
    assert len(model.sent) == 9
    assert all("no measurement available" in one.user for one in model.sent)
    found = stability_of(result).repeats
    assert found is not None
    assert (found.n_cases, found.answer_flips.value) == (12, 0)


def test_a_run_is_continued_in_its_form_and_in_no_other(tmp_path: Path) -> None:
    model, stop = Model(), Stop()
    model.stop = (5, stop)
    run(model, "unit", recorder=Recorder(tmp_path), stop=stop)
    (path,) = list_runs(tmp_path)
    model.stop = None
    for other in ("none", "paraphrase"):
        with pytest.raises(RunConflict, match="asking"):
            run(Model(), other, recorder=Recorder.resume(path))
    resumed = run(model, "unit", recorder=Recorder.resume(path))
    assert len(model.sent) == 12
    again = load_run(path)
    assert resumed.n_left == again.n_left == 0
    assert again.backend_name.endswith(" · perturb unit")
    assert [row.prediction for row in again.rows] == [row.prediction for row in resumed.rows]


def test_failed_calls_in_a_form_are_asked_again_in_it(tmp_path: Path) -> None:
    model = Model()
    model.failing = "µmol/L"
    failed = run(model, "unit", recorder=Recorder(tmp_path))
    assert failed.attrition.n_lost == 8  # the others have no creatinine
    model.failing = ""
    (path,) = list_runs(tmp_path)
    again = run(model, "unit", recorder=Recorder.resume(path, retry_failed=True))
    assert again.attrition.n_lost == 0


def test_a_record_that_a_form_does_not_change_is_answered_from_the_cache(tmp_path: Path) -> None:
    first, second = Model(), Model()
    run(first, cache=ReplyCache(tmp_path / "replies.sqlite"))
    found = run(second, "missing-word", cache=ReplyCache(tmp_path / "replies.sqlite"))
    assert len(second.sent) == 4  # of 12 records 4 lack a value
    assert found.spending.n_cache_hits == 8


def test_the_stored_run_holds_no_value_of_its_form(tmp_path: Path) -> None:
    run(Model(), "unit", recorder=Recorder(tmp_path, store_features=False))
    (path,) = list_runs(tmp_path)
    templates = {row.prompt for row in rows_in(path).values()}
    assert any("[redacted] µmol/L" in template for template in templates)
    text = path.read_bytes().decode("utf-8", "replace")
    assert "70.7" not in text  # 0.8 mg/dL
    assert "71 µmol" not in text


def test_a_saved_result_keeps_its_form(tmp_path: Path) -> None:
    result = run(Model(), "unit", recorder=Recorder(tmp_path))
    (path,) = list_runs(tmp_path)
    plain = run(Model())
    expected = stability_of(plain, {"other": result}).to_json()
    assert stability_of(plain, {"other": load_run(path)}).to_json() == expected


def test_what_cannot_be_asked_is_refused_before_the_first_call() -> None:
    with pytest.raises(UserError, match="unknown perturbation 'nothing'"):
        asking("nothing")
    records = [PatientRecord({"sc": 1.0}, 0, record_id="a")]
    model = Model()
    for kind in ("feature-order", "missing-word"):
        model.asking = asking(kind)
        with pytest.raises(InvalidValue, match=f"'{kind}' changes no prompt"):
            Benchmark(RecordListSuite(records, TASK), model).run()
    assert not model.sent
    with pytest.raises(UserError, match="writes no prompt"):
        krisis.run("ckd", "guideline", limit=3, perturb="unit")
    with pytest.raises(UserError, match="unknown perturbation 'units'"):
        krisis.run("ckd", "guideline", limit=3, perturb="units")
    with pytest.raises(InvalidValue, match="set its asking"):
        krisis.run(suite_of(), Model(), perturb="unit")


def test_several_forms_on_the_command_line_are_several_runs() -> None:
    plan = grid_of(
        {"suite": "ckd", "models": ["openai/NAME"], "perturb": ["none", "unit"]}, "krisis run"
    )
    assert [cell.config.perturb for cell in plan.cells] == ["none", "unit"]
    assert len({cell.name for cell in plan.cells}) == 2
