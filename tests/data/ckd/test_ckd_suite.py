"""The suite: determinism, no leak through fitting or prompts, labels that follow from the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.backends.prompt import build_prompt
from krisis.data.base import SuiteConfig, records_hash
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.courses import course_label, in_window, shown_egfr, shown_visits
from krisis.data.ckd.deferral import Deferral, broken_rules, seed_flags
from krisis.data.ckd.egfr import ckd_epi_2021, stage
from krisis.data.ckd.imputation import Imputer
from krisis.data.ckd.reading import Question, ideal_probabilities
from krisis.data.ckd.schema import FEATURES, REDUCED
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import read_uci, uci_text
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.execution.assembly import suite_of
from krisis.execution.config import checked_config

TASKS = ("detection", "staging", "progression", "risk", "albuminuria")
FROM_FILE = ("detection", "staging")
FEATURE_SETS = ("reduced", "full")
CASES = list(product(TASKS, FEATURE_SETS))
STATED = tomllib.loads((files("krisis.data.ckd") / "questions.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cohort_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckd") / "cohort.csv"
    path.write_text(uci_text(draw_cohort(300, seed=8), with_sex=True))
    return path


def suite(task="detection", features="reduced", path=None, n_synthetic=40, **options):
    count = {"n_synthetic": n_synthetic} if path is None else {}
    return CKDSuite(SuiteConfig(task=task, features=features, **count), path, **options)


def sources(task, cohort_file):
    return (None, cohort_file) if task in FROM_FILE else (None,)


def as_bytes(records):
    rows = [[r.record_id, dict(r.features), r.label, dict(r.metadata)] for r in records]
    return json.dumps(rows, sort_keys=True, allow_nan=False).encode()


@pytest.mark.parametrize(("task", "features"), CASES)
def test_loading_twice_gives_the_same_bytes(task, features, cohort_file):
    for path in sources(task, cohort_file):
        one, other = (suite(task, features, path).load() for _ in range(2))
        assert as_bytes(one) == as_bytes(other)


def test_another_process_gives_the_same_bytes():
    program = (
        "from krisis.data.base import SuiteConfig, records_hash\n"
        "from krisis.data.ckd.suite import CKDSuite\n"
        "for task in CKDSuite.tasks:\n"
        "    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=40))\n"
        "    print(records_hash(suite.load()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    assert done.stdout.split() == [records_hash(suite(task).load()) for task in TASKS]


def test_another_seed_gives_other_patients():
    first = CKDSuite(SuiteConfig(seed=1, n_synthetic=20)).load()
    second = CKDSuite(SuiteConfig(seed=2, n_synthetic=20)).load()
    assert [r.features for r in first] != [r.features for r in second]


def test_the_feature_sets_are_the_stated_ones():
    assert len(FEATURES) == 24
    for task in ("detection", "staging", "albuminuria", "risk"):
        shown = suite(task).load()[0].features
        assert set(shown) == {*REDUCED, "age", "sex", "days_observed"}
        assert set(suite(task, "full").load()[0].features) == {*FEATURES, "sex", "days_observed"}
    shown = {name for record in suite("progression").load() for name in record.features}
    assert {name for name in shown if not name.startswith("visit_")} == {
        "age", "sex", "htn", "dm", "al", "drug_started", "drug_day"
    }  # fmt: skip


def test_training_patients_are_never_evaluated(cohort_file):
    for path in (None, cohort_file):
        chosen = suite(path=path)
        training = {record.record_id for record in chosen.training_records()}
        assert training
        assert not training & {record.record_id for record in chosen.load()}
    cohort = suite()
    shown = {json.dumps(r.features) for r in cohort.training_records()}
    assert not shown & {json.dumps(r.features) for r in cohort.load()}


@pytest.mark.parametrize("impute", ["none", "median"])
@pytest.mark.parametrize("task", ["detection", "staging"])
def test_shuffled_held_out_labels_change_no_feature(task, impute, cohort_file, tmp_path):
    before = suite(task, "full", cohort_file, impute=impute)
    held_out = {record.record_id.removeprefix("uci-") for record in before.load()}
    header, *rows = cohort_file.read_text().splitlines()
    place = header.split(",").index("class")
    cells = [row.split(",") for row in rows]
    chosen = [row for row in cells if row[0] in held_out]
    labels = [row[place] for row in chosen]
    order = np.random.default_rng(0).permutation(len(labels))
    for row, index in zip(chosen, order, strict=True):
        row[place] = labels[index]
    path = tmp_path / "shuffled.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in cells)]) + "\n")
    after = suite(task, "full", path, impute=impute)
    assert [r.features for r in after.load()] == [r.features for r in before.load()]
    assert [r.record_id for r in after.load()] == [r.record_id for r in before.load()]
    deferral = ("near_threshold", "ambiguous_trajectory", "rules", "imputed")
    for one, other in zip(before.load(), after.load(), strict=True):
        assert [one.metadata[key] for key in deferral] == [other.metadata[key] for key in deferral]
    assert [r.features for r in after.training_records()] == [
        r.features for r in before.training_records()
    ]


def test_the_imputer_never_sees_the_held_out_rows(cohort_file, monkeypatch):
    seen = []
    original = Imputer.fit.__func__

    def spy(cls, training):
        seen.extend(id(row) for row in training)
        return original(cls, training)

    monkeypatch.setattr(Imputer, "fit", classmethod(spy))
    chosen = suite("staging", "full", cohort_file, impute="median")
    records = chosen.load()
    held_out = {record.record_id.removeprefix("uci-") for record in records}
    rows = {p.patient_id: id(p.values) for p in chosen._file.patients}
    assert seen
    assert not set(seen) & {rows[name] for name in held_out}


def test_imputed_cells_are_marked_and_measured_ones_untouched(cohort_file):
    plain = suite("detection", "full", cohort_file).load()
    filled = suite("detection", "full", cohort_file, impute="median").load()
    for one, other in zip(plain, filled, strict=True):
        gaps = [name for name in FEATURES if one.features[name] is None]
        assert sorted(other.metadata["imputed"]) == sorted(gaps)
        assert None not in [other.features[name] for name in FEATURES]  # sex is never filled in
        for name, value in one.features.items():
            assert value is None or other.features[name] == value


def test_the_embedded_cohort_can_be_imputed_too():
    for record in suite("staging", impute="median").load():
        assert all(record.features[name] is not None for name in REDUCED)


@pytest.mark.parametrize(("task", "features"), CASES)
def test_every_shown_feature_has_words_and_every_label_is_an_allowed_answer(task, features):
    chosen = suite(task, features)
    question = chosen.task
    for record in chosen.load():
        assert set(record.features) <= set(question.features)
        assert record.label in question.answers
        text = build_prompt(question, [record.features]).user
        missing = [name for name, value in record.features.items() if value is None]
        n_coded = sum(bool(question.features[name].values) for name in missing)
        assert text.count(": not stated") == n_coded
        assert text.count(": not measured") == len(missing) - n_coded


def test_split_stages_use_the_words_of_the_guideline():
    chosen = suite("staging", split_stage_3=True, n_synthetic=200)
    labels = {record.label for record in chosen.load()}
    assert labels == {"G1", "G2", "G3a", "G3b", "G4", "G5"}
    assert set(chosen.task.answers) == labels


def test_no_shown_estimate_contradicts_the_values_beside_it():
    n_shown = 0
    for record in suite("progression", n_synthetic=200).load():
        seen = record.features
        visits = shown_visits(seen)
        for day, creatinine, egfr in visits:
            if creatinine is None:
                assert egfr is None
                continue
            n_shown += 1
            last = visits[-1][0]
            assert egfr == shown_egfr(
                creatinine, age=seen["age"], female=bool(seen["sex"]), days_before_last=last - day
            )
    assert n_shown > 400
    for task in ("detection", "staging", "albuminuria", "risk"):
        assert not any("egfr" in record.features for record in suite(task).load())


def test_with_a_file_only_real_patients_are_evaluated_and_the_count_is_said(cohort_file):
    chosen = suite("staging", path=cohort_file)
    described = chosen.describe()
    assert (described["n_real"], described["n_synthetic"]) == (len(chosen.load()), 0)
    account = described["provenance"][0]
    n_left_out = sum(account["left_out"].values())
    assert n_left_out > 5  # no usable creatinine or age: no truth, and no median in its place
    assert account["n_held_out"] + account["n_training"] + n_left_out == 300
    assert chosen.notice == described["account"]
    assert f"300 patients read; {n_left_out} left out" in chosen.notice
    assert f"{account['n_held_out']} held out and evaluated" in chosen.notice
    for record in (*chosen.load(), *chosen.training_records()):
        assert not record.metadata["synthetic"]
        assert record.features["age"] is not None
        assert 0 < record.features["sc"] <= 40


def test_a_limit_on_a_file_sorted_by_diagnosis_still_holds_both(cohort_file, tmp_path):
    header, *rows = cohort_file.read_text().splitlines()
    rows.sort(key=lambda row: ",notckd" in row)
    path = tmp_path / "sorted.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    first = [record.label for record in suite(path=path).load()[:16]]
    assert 3 <= sum(first) <= 13


def test_engineered_sex_is_seeded_and_said_so(cohort_file):
    one, other = (suite("staging", "full", cohort_file, sex="engineered").load() for _ in "ab")
    assert [r.features["sex"] for r in one] == [r.features["sex"] for r in other]
    assert {r.metadata["sex_source"] for r in one} == {"engineered"}
    assert {r.features["sex"] for r in one} == {0, 1}


@pytest.mark.parametrize(("task", "features"), CASES)
def test_a_synthetic_case_is_deferred_by_its_expected_cost_and_nothing_else(task, features):
    asked = suite(task, features, n_synthetic=60)
    records, costs = asked.load(), asked.task.costs
    question = Question(task)
    found = ideal_probabilities(question, [dict(record.features) for record in records])
    for record, chances in zip(records, found, strict=True):
        stated = record.metadata["answer_probabilities"]
        assert list(stated) == [str(answer) for answer in question.answers]
        assert list(stated.values()) == pytest.approx(chances.tolist(), abs=1e-6)
        wrong = record.metadata["p_misclass"]
        assert wrong == pytest.approx(1 - chances.max(), abs=1e-6)
        lowest = min(
            sum(
                p * costs.of(truth, answer)
                for truth, p in zip(question.answers, chances, strict=True)
            )
            for answer in question.answers
        )
        if abs(lowest - costs.price) > 1e-5:
            assert record.metadata["should_abstain"] is bool(lowest > costs.price)
        assert record.metadata["rules"] == broken_rules(record.features, task)
        assert set(record.metadata["rules"]) <= set(STATED[task]["rules"])


@pytest.mark.parametrize("task", list(CKDSuite.tasks))
def test_the_policy_states_every_rule_that_can_be_broken_and_no_other(task):
    """Each value hidden in turn, a child, an impossible value, one visit: all rules of the task."""
    whole = dict(suite(task, "full", n_synthetic=1).load()[0].features)
    visits = {name: None for name in whole if name.startswith("visit_") and name[-3:] != "day"}
    changed = [
        *({**whole, name: None} for name in whole),
        {**whole, "age": 12},
        {**whole, "age": 400},
        {**whole, "sex": None, "sc": 1.1, "age": 70},
        {**whole, "al": 3, "days_observed": 10},
        {**whole, **visits},
        {**whole, "hemo": -5.0, "visit_1_sc": -1.0},
    ]
    found = {rule for case in changed for rule in broken_rules(case, task)}
    assert found == set(STATED[task]["rules"])
    words = [STATED["rules"][rule] for rule in STATED[task]["rules"]]
    assert list(suite(task, "full").task.policy) == words


def test_labels_follow_from_the_latent_state_by_their_definition():
    heat = {"low": "G2A1 G1A1", "moderate": "G3aA1 G2A2 G1A2", "high": "G3bA1 G3aA2 G2A3 G1A3"}
    for task in ("detection", "staging", "albuminuria", "risk"):
        for record in suite(task, n_synthetic=200).load():
            egfr, acr = record.metadata["usual_egfr"], record.metadata["true_acr_mg_g"]
            blood = record.metadata["persistent_haematuria"]
            raised = "A1" if acr < 30 else "A2" if acr <= 300 else "A3"
            cell = stage(egfr, split_stage_3=True) + raised
            assert (
                record.label
                == {
                    "detection": 0 if egfr < 60 or acr >= 30 or blood else 1,
                    "staging": stage(egfr),
                    "albuminuria": "no" if raised == "A1" else "yes",
                    "risk": next((r for r in heat if cell in heat[r].split()), "very high"),
                }[task]
            )


def test_progression_is_the_definition_on_the_latent_course():
    for record in suite("progression", n_synthetic=120).load():
        truth, seen = record.metadata, record.features
        days = shown_visits(seen)[-1][0]
        window = "drug_day" in seen and bool(in_window(seen["drug_day"], days))
        label = course_label(truth["first_level"], truth["last_level"], days, drug_window=window)
        assert record.label == label


def test_every_row_has_egfr_stage_sex_and_the_three_flags(cohort_file):
    for task in TASKS:
        for path in sources(task, cohort_file):
            for record in suite(task, path=path).load():
                truth = record.metadata
                assert truth["sex"] in ("female", "male", "unknown")
                flags = ("near_threshold", "label_conflicts_with_stage", "ambiguous_trajectory")
                assert all(isinstance(truth[flag], bool) for flag in flags)
                if truth["egfr"] is None:
                    assert truth["ckd_stage"] is None
                else:
                    assert truth["ckd_stage"] == stage(truth["egfr"])
                if path is not None:
                    assert truth["should_abstain"] is any(truth[flag] for flag in flags)
                    assert "answer_probabilities" not in truth


def test_the_estimate_of_a_row_is_that_of_the_shown_creatinine_with_both_sexes_averaged():
    for record in suite("staging", n_synthetic=200).load():
        seen, truth = record.features, record.metadata
        if seen["sc"] is None or seen["sc"] > 40:
            assert truth["egfr"] is None
            continue
        sexes = (True, False) if seen["sex"] is None else (bool(seen["sex"]),)
        rates = [float(ckd_epi_2021(seen["sc"], seen["age"], female=sex)) for sex in sexes]
        assert truth["egfr"] == pytest.approx(np.mean(rates), abs=0.01)
        assert truth["sex"] == {None: "unknown", 1: "female", 0: "male"}[seen["sex"]]


@pytest.mark.parametrize(
    ("features", "has_ckd", "flags"),
    [
        ({"sc": 1.2, "age": 55, "sex": 0}, False, (False, False)),  # 71
        ({"sc": 1.2, "age": 55, "sex": 0}, True, (False, True)),
        ({"sc": 2.26, "age": 70, "sex": 0}, True, (True, False)),  # 30
        ({"sc": 1.13, "age": 70, "sex": None}, True, (True, True)),  # 70 or 52, 61 the mean
        ({"sc": 1.6, "age": 65, "sex": 0}, True, (False, False)),  # 48: no limit of stages 1 to 5
        ({"sc": None, "age": 55, "sex": 0}, True, (False, False)),
        ({"sc": 1.2, "age": 15, "sex": 0}, True, (False, False)),  # no estimate for a child
    ],
)
def test_the_flags_of_the_seeds_by_hand(features, has_ckd, flags):
    found = seed_flags(features, "detection", has_ckd, 3.0)
    assert (found["near_threshold"], found["label_conflicts_with_stage"]) == flags


@pytest.mark.parametrize(
    ("changed", "task", "rules"),
    [
        ({}, "detection", []),
        ({"days_observed": 90, "al": 2}, "detection", []),
        ({"days_observed": 89, "al": 2}, "detection", ["chronicity_not_shown"]),
        ({"days_observed": 10}, "detection", []),  # nothing is abnormal
        ({"sc": None, "al": None}, "risk", ["creatinine_missing", "albuminuria_missing"]),
        ({"sc": 3.0, "al": None}, "detection", []),  # below 60 is enough
        ({"sc": None}, "albuminuria", []),
        ({"age": 15}, "staging", ["age_below_18"]),
        ({"pot": 39.0}, "staging", ["implausible_value"]),
        ({"sc": 115}, "staging", []),  # in µmol/L
        ({"sex": None, "sc": 1.1, "age": 70}, "staging", ["sex_missing"]),
    ],
)
def test_the_checklist_by_hand(changed, task, rules):
    usual = {"age": 55, "sex": 0, "sc": 0.9, "al": 0, "rbc": 0, "days_observed": 300}
    assert broken_rules({**usual, **changed}, task) == rules


def test_unknown_sex_flags_a_stage_that_it_decides(cohort_file):
    n_deferred = 0
    for record in suite("staging", "full", cohort_file).load():
        truth = record.metadata
        both = {stage(truth[f"egfr_if_{sex}"]) for sex in ("female", "male")}
        assert record.features["sex"] is None
        assert truth["truth_depends_on_sex"] is (len(both) == 2)
        assert truth["near_threshold"] or len(both) == 1
        n_deferred += len(both) == 2
    assert n_deferred > 5
    described = suite("staging", "full", cohort_file).describe()
    assert described["n_truth_depends_on_sex"] == n_deferred
    assert (
        f"; {n_deferred} evaluated have a stage that depends on their sex" in described["account"]
    )
    known = suite("staging", "full", cohort_file, sex="engineered").describe()
    assert known["n_truth_depends_on_sex"] == 0
    assert "depends on their sex" not in known["account"]


def test_real_and_synthetic_patients_can_be_in_one_run(cohort_file):
    both = CKDSuite(SuiteConfig(n_synthetic=15), cohort_file)
    described = both.describe()
    assert described["n_synthetic"] == 15
    assert described["n_real"] == len(suite(path=cohort_file).load()) > 30
    assert len(described["provenance"]) == 2
    assert {r.source for r in both.training_records()} == {"real", "synthetic"}
    assert CKDSuite(SuiteConfig(n_synthetic=0), cohort_file).describe()["n_synthetic"] == 0
    for name in ("majority", "logistic"):
        backend = backend_from_name(name)
        backend.prepare(both)
        alone = backend_from_name(name)
        alone.prepare(suite(path=cohort_file))
        real = [record for record in both.load() if record.source == "real"][:10]
        # What is real is judged by what was fitted on real patients alone.
        assert backend.evaluate_batch(real) == alone.evaluate_batch(real)


def test_the_preset_is_the_suite_of_the_first_version(cohort_file):
    chosen = CKDSuite(SuiteConfig(task="staging"), cohort_file, preset="v0.1")
    records = chosen.load()
    assert {r.source for r in records} == {"real", "synthetic"}
    assert sum(r.source == "synthetic" for r in records) == 200
    real = [r for r in records if r.source == "real"]
    assert {r.metadata["sex_source"] for r in real} == {"engineered"}
    assert all(r.features[name] is not None for r in real for name in REDUCED)
    assert any(r.metadata["imputed"] for r in real)
    for record in records:
        flags = ("near_threshold", "label_conflicts_with_stage", "ambiguous_trajectory")
        assert record.metadata["should_abstain"] is any(record.metadata[flag] for flag in flags)
    courses = CKDSuite(SuiteConfig(task="progression"), cohort_file, preset="v0.1")
    assert {r.source for r in courses.load()} == {"synthetic"}
    assert "has one visit per patient, so progression" in courses.notice
    assert "synthetic patients alone" in courses.notice
    words = {"suite": "ckd", "model": "guideline", "preset": "v0.1"}
    made = suite_of(checked_config({**words, "data_path": str(cohort_file)}, "here"))
    assert made.preset == "v0.1"


def test_the_ceiling_of_the_cohort_has_no_standing_on_a_file(cohort_file):
    assert "ideal" in suite().rules
    assert "ideal" in suite().baselines
    assert "ideal" not in suite(path=cohort_file).rules
    backend = backend_from_name("ideal")
    with pytest.raises(InvalidValue, match="no rule 'ideal'"):
        backend.prepare(suite(path=cohort_file))


def test_real_stages_are_those_of_the_estimate(cohort_file):
    records = suite("staging", "full", cohort_file, sex_column="sex").load()
    for record in records:
        assert record.label == record.metadata["ckd_stage"]
    assert len(records) > 40


@pytest.mark.parametrize("given", [{}, {"deferral": {"margin_ml_min": 5}}])
def test_the_price_can_be_set_for_a_run_beside_other_choices(given):
    words = {"suite": "ckd", "model": "guideline", "price": 0.1, "suite_options": given}
    chosen = suite_of(checked_config(words, "here"))
    margin = given.get("deferral", {}).get("margin_ml_min", 3.0)
    assert chosen.deferral == Deferral(margin_ml_min=margin)
    assert chosen.describe()["costs"]["price"] == 0.1
    assert chosen.rules["guideline"].costs == chosen.task.costs
    assert (chosen.task.costs.price, chosen.task.costs.of(1, 0)) == (0.1, 0.5)
    other = suite_of(checked_config({**words, "suite": "phq8", "suite_options": {}}, "here"))
    assert other.task.costs.price == 0.1
    with pytest.raises(InvalidValue, match=r"price: .* less than 1"):
        checked_config({**words, "price": 1.0}, "here")


def test_the_measured_rate_can_be_asked_for():
    plain, measured = (
        suite("staging", n_synthetic=400, measured_gfr=chosen) for chosen in (False, True)
    )
    for task in ("detection", "staging", "risk"):
        asked = suite(task, measured_gfr=True).task.question
        assert "usual eGFR" not in asked
    p = [np.mean([r.metadata["p_misclass"] for r in one.load()]) for one in (plain, measured)]
    assert p[1] > p[0] + 0.1


def test_a_lower_price_makes_more_cases_due():
    config = SuiteConfig(task="staging", n_synthetic=200, price=0.02)
    strict = CKDSuite(config).describe()
    usual = suite("staging", n_synthetic=200).describe()
    assert strict["n_should_abstain"] > usual["n_should_abstain"]


def test_the_description_names_source_licence_and_hash(cohort_file):
    described = suite("staging", path=cohort_file).describe()
    (file,) = described["provenance"]
    assert file["sha256"] == read_uci(cohort_file).sha256
    assert file["licence"].startswith("CC BY 4.0")
    assert suite("staging").describe()["provenance"][0]["licence"] == "Apache-2.0"
    assert described["costs"]["price"] == 0.2
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_wrong_options_are_refused_in_one_sentence(cohort_file):
    with pytest.raises(
        UnknownName, match=r"'ckd': 'phq8'.*Known: albuminuria, detection, progression"
    ):
        CKDSuite(SuiteConfig(task="phq8"))
    with pytest.raises(UnknownName, match="treatment of sex"):
        CKDSuite(sex="female")
    with pytest.raises(UnknownName, match="imputation"):
        CKDSuite(impute="mean")
    with pytest.raises(InvalidValue, match="deferral must be a mapping of margin_ml_min"):
        CKDSuite(deferral="margin")
    with pytest.raises(UnknownName, match="option of deferral 'risk'"):
        CKDSuite(deferral={"risk": 0.1})
    with pytest.raises(UnknownName, match="unknown preset 'v1'"):
        CKDSuite(preset="v1")
    with pytest.raises(InvalidValue, match="made of the UCI file and synthetic patients"):
        CKDSuite(preset="v0.1")
    with pytest.raises(InvalidValue, match="must be a number"):
        CKDSuite(deferral={"margin_ml_min": "low"})
    with pytest.raises(InvalidValue, match="no data_path"):
        CKDSuite(sex_column="sex")
    with pytest.raises(InvalidValue, match="embedded cohort have theirs; leave it out"):
        CKDSuite(sex="engineered")
    for options, given in (
        ({"sex": "engineered"}, "sex="),
        ({"sex_column": "S"}, "sex_column='S'"),
    ):
        with pytest.raises(InvalidValue, match=f"{given}.* not offered for a file of visits"):
            suite("progression", path=cohort_file, **options)
    with pytest.raises(InvalidValue, match="n_synthetic"):
        CKDSuite(SuiteConfig(n_synthetic=0))
    with pytest.raises(InvalidValue, match="the truth of risk is not in"):
        suite("risk", path=cohort_file)
    with pytest.raises(InvalidValue, match="progression does not"):
        suite("progression", measured_gfr=True)
    with pytest.raises(InvalidValue, match="measured rate, which"):
        suite("staging", path=cohort_file, measured_gfr=True)
    with pytest.raises(InvalidFile, match="there is no file"):
        suite("progression", path=cohort_file.parent / "none.csv").load()


class TestRealFile:
    """What is known of the UCI file, on the file itself."""

    def test_what_is_read_of_it(self, real_ckd_file):
        found = read_uci(real_ckd_file)
        assert Counter(patient.has_ckd for patient in found.patients) == {True: 250, False: 150}
        assert sum(None not in patient.values.values() for patient in found.patients) == 158
        assert found.n_missing.total() == 1012
        assert ("128", "pot", 47.0) in found.implausible

    def test_it_loads_whole(self, real_ckd_file):
        for task, features in product(FROM_FILE, FEATURE_SETS):
            chosen = suite(task, features, real_ckd_file)
            n_left_out = sum(chosen.describe()["provenance"][0]["left_out"].values())
            assert len(chosen.load()) + len(chosen.training_records()) + n_left_out == 400
            assert n_left_out == (
                0 if task == "detection" else 46
            )  # 28 without a value, 18 children

    def test_the_assumed_sex_changes_the_category_of_164_of_356_adults(self, real_ckd_file):
        adults = [
            (p.values["sc"], p.values["age"])
            for p in read_uci(real_ckd_file).patients
            if p.values["sc"] is not None and p.values["age"] is not None and p.values["age"] >= 18
        ]
        differ = sum(
            stage(float(ckd_epi_2021(sc, age, female=True)), split_stage_3=True)
            != stage(float(ckd_epi_2021(sc, age, female=False)), split_stage_3=True)
            for sc, age in adults
        )
        assert (differ, len(adults)) == (164, 356)

    def test_children_break_a_rule_where_the_age_is_shown(self, real_ckd_file):
        n_children = 0
        for seed in range(6):
            config = SuiteConfig(features="full", seed=seed)
            for record in CKDSuite(config, real_ckd_file).load():
                if (record.features["age"] or 99) < 18:
                    n_children += 1
                    assert "age_below_18" in record.metadata["rules"]
        assert n_children > 5

    def test_detection_is_saturated(self, real_ckd_file):
        def present(values):
            return (
                (values["hemo"] is not None and values["hemo"] < 13)
                or (values["sg"] is not None and values["sg"] < 1.020)
                or (values["al"] or 0) > 0
                or (values["sc"] or 0) > 1.2
                or values["htn"] == 1
                or values["dm"] == 1
            )

        patients = read_uci(real_ckd_file).patients
        assert sum(present(p.values) == p.has_ckd for p in patients) == 400

    def test_controls_look_filled_in_and_missing_values_tell_the_class(self, real_ckd_file):
        patients = read_uci(real_ckd_file).patients
        correlation, missing = {}, {}
        for has_ckd in (False, True):
            rows = [p.values for p in patients if p.has_ckd is has_ckd]
            pairs = [(v["hemo"], v["pcv"]) for v in rows if None not in (v["hemo"], v["pcv"])]
            correlation[has_ckd] = np.corrcoef(np.array(pairs).T)[0, 1]
            missing[has_ckd] = np.mean([v["rbcc"] is None for v in rows])
        assert correlation[False] == pytest.approx(0.04, abs=0.005)
        assert correlation[True] == pytest.approx(0.95, abs=0.005)
        assert missing[True] == pytest.approx(0.50, abs=0.005)
        assert missing[False] == pytest.approx(0.05, abs=0.005)


def test_a_file_of_patients_with_disease_alone_serves_staging_but_not_detection(
    cohort_file, tmp_path
):
    lines = cohort_file.read_text(encoding="utf-8").splitlines()
    only_ckd = tmp_path / "clinic.csv"
    chosen = [line for line in lines if ",notckd" not in line]
    only_ckd.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    staging = suite("staging", path=only_ckd)
    n_left_out = sum(staging.describe()["provenance"][0]["left_out"].values())
    n_kept = len(staging.load()) + len(staging.training_records())
    assert n_kept + n_left_out == len(chosen) - 1
    with pytest.raises(InvalidFile, match=r"every row is 'ckd'.*or ask for staging"):
        suite("detection", path=only_ckd).load()
