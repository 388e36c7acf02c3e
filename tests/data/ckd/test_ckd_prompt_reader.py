"""What a deferral label knows, the prompt says: a reader of its text alone finds the same cases."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tests.data.ckd import prompt_reader

from krisis import Benchmark, SuiteConfig
from krisis.backends.prompt import build_prompt
from krisis.backends.scripted import ScriptedBackend
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import uci_text

CASES = list(product(CKDSuite.tasks, ("reduced", "full")))


def compared(task, features, n_patients, **options):
    """Return who should be deferred, whom the reader defers, and who depends on the prior."""
    return judged(
        CKDSuite(SuiteConfig(task=task, features=features, n_synthetic=n_patients), **options)
    )


def judged(suite):
    asked = suite.task
    said = [
        json.loads(prompt_reader.reply(build_prompt(asked, [record.features])))["abstained"]
        for record in suite.records()
    ]
    truth = [record.metadata for record in suite.records()]
    should = [metadata["should_abstain"] for metadata in truth]
    return np.array(should), np.array(said), [m["label_depends_on_prior"] for m in truth]


@pytest.mark.parametrize("n_patients", [150, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("task", "features"), CASES)
def test_a_reader_of_the_prompt_alone_finds_the_deferral_label(task, features, n_patients):
    should, said, depends = compared(task, features, n_patients)
    assert 0.2 < should.mean() < 0.6
    assert (said & should).sum() / should.sum() >= 0.95
    assert (~said & ~should).sum() / (~should).sum() >= 0.95
    assert 0 < np.mean(depends) < 0.25


@pytest.mark.parametrize("sex_column", [None, "sex"])
def test_it_finds_the_deferral_label_of_the_patients_of_a_file(sex_column, tmp_path):
    path = tmp_path / "clinic.csv"
    path.write_text(uci_text(draw_cohort(150, seed=5), with_sex=True), encoding="utf-8")
    config = SuiteConfig(task="staging", test_size=0.8)
    should, said, _ = judged(CKDSuite(config, path, sex_column=sex_column))
    assert 0.2 < should.mean() < 0.8
    assert np.mean(should == said) >= 0.95


@pytest.mark.parametrize("risk", [0.05, 0.4])
def test_it_follows_the_price_and_the_split_that_are_stated(risk):
    for task, options in (("detection", {}), ("staging", {"split_stage_3": True})):
        should, said, _ = compared(task, "reduced", 150, deferral={"risk": risk}, **options)
        assert np.mean(should == said) >= 0.95


def test_it_answers_as_a_model_does_and_is_right_as_often_as_it_says():
    suite = CKDSuite(SuiteConfig(task="risk", n_synthetic=120))
    backend = ScriptedBackend(prompt_reader.reply)
    rows = Benchmark(suite, backend, [], batch_size=1).run().evaluation_results
    answered = [row for row in rows if not row.abstained]
    assert {row.outcome for row in rows} == {"answered", "abstained"}
    expected = sum(row.confidence for row in answered)
    spread = sum(row.confidence * (1 - row.confidence) for row in answered) ** 0.5
    assert abs(sum(row.prediction == row.ground_truth for row in answered) - expected) < 4 * spread


def test_the_reader_knows_nothing_of_krisis():
    assert not [name for name in vars(prompt_reader) if "krisis" in name]
    source = Path(prompt_reader.__file__).read_text(encoding="utf-8")
    assert "import krisis" not in source
    assert "from krisis" not in source


def test_a_prompt_that_withholds_a_fact_is_noticed():
    suite = CKDSuite(SuiteConfig(n_synthetic=1))
    shown = build_prompt(suite.task, [suite.load()[0].features])
    without = shown.system.replace("Abstaining costs 20 %", "Abstaining costs something")
    with pytest.raises(AssertionError, match="does not state"):
        prompt_reader.read_facts(without)
