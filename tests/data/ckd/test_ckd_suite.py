"""The suite: determinism, no leak through fitting or prompts, labels that follow from the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.backends.prompt import build_prompt
from krisis.data.base import SuiteConfig, records_hash
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.deferral import REASONS, DeferralRule
from krisis.data.ckd.egfr import ckd_epi_2021, stage
from krisis.data.ckd.imputation import Imputer
from krisis.data.ckd.progression import change_limits, course_label, shown_egfr, shown_visits
from krisis.data.ckd.schema import FEATURES, REDUCED
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import read_uci, uci_text
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.execution.assembly import suite_of
from krisis.execution.config import checked_config

TASKS = ("detection", "staging", "progression", "albuminuria", "risk")
FROM_FILE = ("detection", "staging")
FEATURE_SETS = ("reduced", "full")
CASES = list(product(TASKS, FEATURE_SETS))


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


@pytest.mark.parametrize("task", TASKS)
def test_the_default_suite_loads_within_a_second(task):
    started = time.process_time()
    assert len(CKDSuite(SuiteConfig(task=task)).load()) == 200
    assert time.process_time() - started < 1.0


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
    visits = set(suite("progression").load()[0].features) - set(REDUCED)
    assert {name for name in visits if not name.startswith("visit_")} == {
        "age", "sex", "drug_started"
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


@pytest.mark.parametrize("impute", ["none", "median", "nearest"])
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
    deferral = ("should_abstain", "abstain_reasons", "p_misclass", "imputed")
    for one, other in zip(before.load(), after.load(), strict=True):
        assert [one.metadata[key] for key in deferral] == [other.metadata[key] for key in deferral]
    assert [r.features for r in after.training_records()] == [
        r.features for r in before.training_records()
    ]


@pytest.mark.parametrize("impute", ["median", "nearest"])
def test_the_imputer_never_sees_the_held_out_rows(impute, cohort_file, monkeypatch):
    seen = []
    original = Imputer.fit.__func__

    def spy(cls, training, method):
        seen.extend(id(row) for row in training)
        return original(cls, training, method)

    monkeypatch.setattr(Imputer, "fit", classmethod(spy))
    chosen = suite("staging", "full", cohort_file, impute=impute)
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
    for record in suite("staging", impute="nearest").load():
        assert all(record.features[name] is not None for name in REDUCED)


@pytest.mark.parametrize(("task", "features"), CASES)
def test_deferral_follows_from_the_shown_features_alone(task, features, cohort_file):
    for path in sources(task, cohort_file):
        assessor = Assessor(task, exact=True)
        for record in suite(task, features, path).load():
            found = assessor(dict(record.features))
            truth = record.metadata
            reasons = DeferralRule().reasons(found.visible_reasons, found.p_misclass)
            assert found.p_misclass == truth["p_misclass"]
            assert reasons == truth["abstain_reasons"]
            assert truth["should_abstain"] is bool(reasons)
            assert set(reasons) <= set(REASONS)
            uncertain = found.p_misclass >= 0.2
            kind = "uncertain" if uncertain else "rule" if reasons else None
            assert truth["deferral_kind"] == kind
            assert truth["label_depends_on_prior"] is found.depends_on_prior(0.2)


@pytest.mark.parametrize(("task", "features"), CASES)
def test_no_hidden_figure_stands_in_a_prompt(task, features, cohort_file):
    for path in sources(task, cohort_file):
        chosen = suite(task, features, path, 25)
        question = chosen.task
        for record in chosen.load():
            shown = build_prompt(question, [record.features])
            keys = ("usual_egfr", "should_abstain", "p_misclass", "abstain_reasons", "ckd_stage")
            text = shown.system + shown.user
            assert not [key for key in keys if key in text or key in record.features]
            for key in ("usual_egfr", "true_acr_mg_g", "first_usual_egfr"):
                secret = str(record.metadata.get(key, "none shown"))
                assert len(secret) < 4 or f" {secret} " not in shown.user


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


def test_labels_follow_from_the_latent_state_by_their_definition():
    heat = {"low": "G2A1 G1A1", "moderate": "G3aA1 G2A2 G1A2", "high": "G3bA1 G3aA2 G2A3 G1A3"}
    for task in ("detection", "staging", "albuminuria", "risk"):
        for record in suite(task, n_synthetic=200).load():
            egfr, acr = record.metadata["usual_egfr"], record.metadata["true_acr_mg_g"]
            raised = "A1" if acr < 30 else "A2" if acr <= 300 else "A3"
            cell = record.metadata["gfr_category"] + raised
            assert record.metadata["ckd_stage"] == stage(egfr)
            assert (
                record.label
                == {
                    "detection": 0 if egfr < 60 or acr >= 30 else 1,
                    "staging": stage(egfr),
                    "albuminuria": raised,
                    "risk": next((r for r in heat if cell in heat[r].split()), "very high"),
                }[task]
            )


def test_split_stages_use_the_words_of_the_guideline():
    chosen = suite("staging", split_stage_3=True, n_synthetic=200)
    labels = {record.label for record in chosen.load()}
    assert labels == {"G1", "G2", "G3a", "G3b", "G4", "G5"}
    assert set(chosen.task.answers) == labels
    assert all(isinstance(r.metadata["ckd_stage"], int) for r in chosen.load())


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


def test_no_case_that_should_be_answered_shows_the_opposite_course():
    for record in suite("progression", n_synthetic=300).load():
        shown = [egfr for _, _, egfr in shown_visits(record.features) if egfr is not None]
        if record.metadata["should_abstain"]:
            continue
        if record.label == "worsening":
            assert shown[-1] < shown[0]
        if record.label == "improving":
            assert shown[-1] > shown[0]


def test_progression_is_the_definition_on_the_latent_course():
    for record in suite("progression", n_synthetic=120).load():
        truth = record.metadata
        days = shown_visits(record.features)[-1][0]
        drug = bool(record.features["drug_started"])
        index = int(course_label(truth["first_usual_egfr"], truth["usual_egfr"], days, drug=drug))
        assert record.label == ("stable", "worsening", "improving")[index]


@pytest.mark.parametrize(
    ("first", "last", "days", "drug", "expected"),
    [
        (80, 59, 400, False, 1),  # a fall of 26 % into G3a
        (80, 59, 400, True, 0),  # the same, expected after the drug
        (80, 58, 400, True, 1),  # a fall of 27.5 %: more than the drug explains
        (80, 61, 300, False, 0),  # a fall of 24 % inside G2 in less than a year
        (85, 62, 400, False, 1),  # inside G2, but 27 % and 21 per year
        (58, 46, 3000, False, 0),  # 21 %, but 1.5 per year and inside G3a
        (40, 52, 300, False, 2),  # a rise of 30 % into G3a
        (62, 85, 300, False, 0),  # a rise of 37 % inside G2
        (50, 44, 400, False, 0),  # a drop in category by 12 %
    ],
)
def test_courses_by_hand(first, last, days, drug, expected):
    assert int(course_label(first, last, days, drug=drug)) == expected


@pytest.mark.parametrize("drug", [False, True])
@pytest.mark.parametrize("days", [60, 364, 366, 1300])
def test_the_limits_of_a_change_are_the_definition_solved_for_it(days, drug):
    draw = np.random.default_rng(1)
    first = np.exp(draw.uniform(np.log(5), np.log(130), 20_000))
    change = draw.uniform(-1.2, 1.2, 20_000)
    worse, better = change_limits(first, days, drug=drug)
    by_limits = np.where(change <= worse, 1, np.where(change >= better, 2, 0))
    label = course_label(first, first * np.exp(change), days, drug=drug)
    assert (by_limits == label).all()


def test_the_drug_and_the_acute_injury_decide_the_truth_of_some_patients():
    drugs, acute = 0, {True: 0, False: 0}
    for record in suite("progression", n_synthetic=250).training_records():
        truth, days = record.metadata, shown_visits(record.features)[-1][0]
        if record.features["drug_started"]:
            first, last = truth["first_usual_egfr"], truth["usual_egfr"]
            drugs += course_label(first, last, days) != course_label(first, last, days, drug=True)
    for record in suite("staging", n_synthetic=250).training_records():
        seen = record.features
        if None not in (seen["sc"], seen["age"], seen["sex"]) and seen["sc"] < 40:
            estimate = ckd_epi_2021(seen["sc"], seen["age"], female=bool(seen["sex"]))
            acute[record.metadata["acute_injury"]] += stage(float(estimate)) != record.label
    assert drugs >= 5
    assert acute[True] >= 20


def test_one_ratio_cannot_tell_the_course():
    """The best threshold pair on the shown ratio errs where the definition looks further."""
    rows = []
    for record in suite("progression", n_synthetic=400).training_records():
        shown = [egfr for _, _, egfr in shown_visits(record.features)]
        if None not in (shown[0], shown[-1]):
            rows.append((shown[-1] / shown[0], record.label))
    ratios = np.array([ratio for ratio, _ in rows])
    labels = np.array([label for _, label in rows])
    cuts = np.linspace(0.5, 1.8, 80)
    worse, better = labels == "worsening", labels == "improving"
    n_right = max(
        (worse & (ratios <= low)).sum() + (better & (ratios >= high)).sum()
        + (~worse & ~better & (ratios > low) & (ratios < high)).sum()
        for low in cuts[cuts < 1] for high in cuts[cuts > 1]
    )  # fmt: skip
    assert n_right / len(rows) < 0.95


def missing_rule_gain(task):
    """Return how much a rule on the presence of values alone gains on the majority class."""
    sklearn = pytest.importorskip("sklearn.linear_model")
    # Patients to fit on, of two seeds: deferral labels, which take time, are not needed here.
    configs = [
        SuiteConfig(task=task, features="full", seed=seed, n_synthetic=500) for seed in (1, 2)
    ]
    training, cases = (CKDSuite(config).training_records() for config in configs)
    names = list(FEATURES if task != "progression" else set(FEATURES) - {"sc"})

    def absent(records):
        return np.array([[record.features[name] is None for name in names] for record in records])

    labels = [str(record.label) for record in training]
    rule = sklearn.LogisticRegression(max_iter=500).fit(absent(training), labels)
    truth = np.array([str(record.label) for record in cases])
    majority = max(set(labels), key=labels.count)
    return (rule.predict(absent(cases)) == truth).mean() - (truth == majority).mean(), len(truth)


@pytest.mark.parametrize("task", TASKS)
def test_a_rule_on_missing_values_does_not_beat_the_majority(task):
    gain, n = missing_rule_gain(task)
    assert gain <= 0.5 / np.sqrt(n)


@pytest.mark.parametrize("task", TASKS)
def test_the_absence_of_what_no_rule_asks_for_does_not_tell_who_is_to_be_deferred(task):
    records = suite(task, "full", n_synthetic=300).load()
    should = np.array([record.metadata["should_abstain"] for record in records], dtype=float)
    n_compared = 0
    for name in set(FEATURES) - {"sc", "al", "age"}:
        absent = np.array([record.features[name] is None for record in records], dtype=float)
        if absent.sum() >= 5:
            n_compared += 1
            assert abs(np.corrcoef(absent, should)[0, 1]) < 3.5 / np.sqrt(len(records))
    assert n_compared > 8


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


def test_synthetic_patients_beside_a_file_are_refused(cohort_file):
    with pytest.raises(InvalidValue, match=r"n_synthetic=15 asks for .* run them apart"):
        CKDSuite(SuiteConfig(n_synthetic=15), cohort_file)
    assert CKDSuite(SuiteConfig(n_synthetic=0), cohort_file).load()


def test_the_ceiling_of_the_cohort_has_no_standing_on_a_file(cohort_file):
    assert "bayes-optimal" in suite().rules
    assert "bayes-optimal" not in suite(path=cohort_file).rules
    backend = backend_from_name("bayes-optimal")
    with pytest.raises(InvalidValue, match="no rule 'bayes-optimal'"):
        backend.prepare(suite(path=cohort_file))


def test_a_limit_on_a_file_sorted_by_diagnosis_still_holds_both(cohort_file, tmp_path):
    header, *rows = cohort_file.read_text().splitlines()
    rows.sort(key=lambda row: ",notckd" in row)
    path = tmp_path / "sorted.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    first = [record.label for record in suite(path=path).load()[:16]]
    assert 3 <= sum(first) <= 13


def test_real_stages_are_those_of_the_estimate(cohort_file):
    records = suite("staging", "full", cohort_file, sex_column="sex").load()
    known = [r for r in records if r.metadata["egfr"] is not None]
    for record in known:
        seen = record.features
        value = ckd_epi_2021(seen["sc"], seen["age"], female=bool(seen["sex"]))
        assert stage(float(value)) == record.label == stage(record.metadata["egfr"])
    assert len(known) > 40


def test_unknown_sex_defers_where_it_decides_the_stage(cohort_file):
    n_deferred = 0
    for record in suite("staging", "full", cohort_file).load():
        truth = record.metadata
        both = {stage(truth[f"egfr_if_{sex}"]) for sex in ("female", "male")}
        assert record.features["sex"] is None
        assert ("sex_missing" in truth["abstain_reasons"]) == (len(both) == 2)
        assert record.label in both
        assert truth["truth_depends_on_sex"] is (len(both) == 2)
        n_deferred += len(both) == 2
    assert n_deferred > 5
    described = suite("staging", "full", cohort_file).describe()
    assert described["n_truth_depends_on_sex"] == n_deferred
    assert described["account"].endswith(
        f"; {n_deferred} evaluated have a stage that depends on their sex, which is not stated: "
        "they are to be deferred"
    )
    known = suite("staging", "full", cohort_file, sex="engineered").describe()
    assert known["n_truth_depends_on_sex"] == 0
    assert "depends on their sex" not in known["account"]


def test_engineered_sex_is_seeded_and_said_so(cohort_file):
    one, other = (suite("staging", "full", cohort_file, sex="engineered").load() for _ in "ab")
    assert [r.features["sex"] for r in one] == [r.features["sex"] for r in other]
    assert {r.metadata["sex_source"] for r in one} == {"engineered"}
    assert {r.features["sex"] for r in one} == {0, 1}


def test_the_margin_rule_can_be_chosen_for_comparison(cohort_file):
    records = suite("staging", "full", cohort_file, sex_column="sex", deferral="margin").load()
    for record in records:
        egfr = record.metadata["egfr"]
        if egfr is not None:
            close = min(abs(egfr - limit) for limit in (15, 30, 45, 60, 90)) <= 3
            assert ("within_margin" in record.metadata["abstain_reasons"]) == close
    account = suite("staging", "full", cohort_file, deferral="margin").describe()["account"]
    assert account.endswith("which is not stated")
    detection = suite("detection", "full", cohort_file, sex_column="sex", deferral="margin")
    reasons = detection.describe()["abstain_reasons"]
    assert set(reasons) <= {"within_margin", "label_conflicts_with_estimate"}
    assert reasons["label_conflicts_with_estimate"] > 0


def test_the_prompt_states_the_price_in_force():
    for risk, words in ((0.2, "20"), (0.05, "5"), (0.1234, "12.34"), (0.9999, "99.99"),
                        (0.000012, "0.0012"), (0.07, "7")):  # fmt: skip
        for task in TASKS:
            stated = suite(task, deferral={"risk": risk}).task.abstain_when
            assert f"costs {words} % of" in stated
            assert f"is {words} % or more" in stated


@pytest.mark.parametrize(
    ("deferral", "sentence"),
    [
        ("margin", "the deferral rule 'margin' does not use; leave out"),
        ({"kind": "margin", "margin_ml_min": 5}, "the deferral rule 'margin' does not use"),
        ({"risk": 0.3}, r"risk is 0.1 for the run and 0.3 in deferral, .* give one"),
    ],
)
def test_a_price_beside_a_rule_without_one_or_another_price_is_refused(deferral, sentence):
    options = {"suite_options": {"deferral": deferral}}
    words = {"suite": "ckd", "model": "guideline", "risk": 0.1, **options}
    with pytest.raises(InvalidValue, match=sentence):
        suite_of(checked_config(words, "here"))


@pytest.mark.parametrize(
    "given", [{}, {"deferral": {"risk": 0.1}}, {"deferral": {"margin_ml_min": 5}}]
)
def test_the_price_can_be_set_for_a_run_beside_other_choices(given):
    words = {"suite": "ckd", "model": "guideline", "risk": 0.1, "suite_options": given}
    chosen = suite_of(checked_config(words, "here"))
    assert chosen.describe()["deferral"] == {"rule": "measurement_error", "risk": 0.1}
    assert chosen.rule == replace(DeferralRule.of(given.get("deferral", {})), risk=0.1)
    assert chosen.rules["guideline"].risk == 0.1
    with pytest.raises(UnknownName, match="option of the suite phq8: 'risk'"):
        suite_of(checked_config({**words, "suite": "phq8", "suite_options": {}}, "here"))
    with pytest.raises(InvalidValue, match=r"risk: .* less than 1"):
        checked_config({**words, "risk": 1.0}, "here")


def test_the_error_of_the_equation_can_be_added():
    plain, scattered = (
        suite("staging", n_synthetic=400, equation_error=chosen) for chosen in (False, True)
    )
    one, other = plain.load(), scattered.load()
    ratios = [
        b.metadata["true_gfr"] / a.metadata["usual_egfr"] for a, b in zip(one, other, strict=True)
    ]
    within = np.mean([1 / 1.3 <= r <= 1 / 0.7 for r in ratios])
    assert 0.83 < within < 0.91  # P30, from the estimate to the measured rate
    assert "within 30 % of it in 87 % of people" in scattered.task.setting
    for task in ("detection", "staging", "risk"):
        asked = suite(task, equation_error=True).task.question
        assert "measured filtration rate" in asked
        assert "steady level" not in asked
        assert "usual eGFR" not in asked
    p = [np.mean([r.metadata["p_misclass"] for r in records]) for records in (one, other)]
    assert p[1] > p[0] + 0.1


@pytest.mark.parametrize(
    ("task", "of_file", "of_cohort"),
    [
        ("staging", "scored against the stage of the CKD-EPI 2021 estimate", "own steady level"),
        ("progression", "scored against the shown estimates", "Judge the true course"),
    ],
)
def test_with_a_file_the_prompt_says_that_the_usual_level_is_not_known(
    task, of_file, of_cohort, cohort_file
):
    real, embedded = suite(task, path=cohort_file).task, suite(task).task
    assert "usual level of these patients is not known" in real.question
    assert of_file in real.question
    assert of_cohort in embedded.question
    assert of_cohort not in real.question
    assert "not known" not in embedded.question
    assert "best answer is wrong" in embedded.abstain_when
    assert "best answer is wrong" not in real.abstain_when
    assert real.answers == embedded.answers


def test_detection_on_a_file_says_that_the_recorded_diagnosis_is_scored(cohort_file):
    words = "scored against the diagnosis that the hospital recorded"
    assert words in suite("detection", path=cohort_file).task.question
    assert words not in suite("detection").task.question


@pytest.mark.parametrize("task", TASKS)
def test_the_prompt_under_the_margin_rule_states_the_margin_and_no_price(task):
    chosen = suite(task, deferral={"kind": "margin", "margin_ml_min": 2.5})
    stated, figure = chosen.task.abstain_when, {"margin_ml_min": 2.5}
    near = "within 2.5 mL/min/1.73 m² of " + ("60;" if task == "detection" else "15, 30, 45, 60")
    assert "costs" not in stated
    assert (near in stated) == (task != "progression")
    assert ("at least 12.5 % and less than 20 %" in stated) == (task == "progression")
    # A course knows no margin in mL/min, so none is reported for it.
    expected = {"rule": "margin", **({} if task == "progression" else figure)}
    assert chosen.describe()["deferral"] == expected


def test_no_answer_reads_of_below():
    for split in (False, True):
        words = suite("staging", split_stage_3=split).task.answers.values()
        assert {"usual eGFR of 90 or more", "usual eGFR below 15"} < set(words)


def test_a_lower_risk_defers_more():
    strict = suite("staging", n_synthetic=200, deferral={"risk": 0.02}).describe()
    usual = suite("staging", n_synthetic=200).describe()
    assert strict["n_should_abstain"] > usual["n_should_abstain"]


def test_the_description_names_source_licence_and_hash(cohort_file):
    described = suite("staging", path=cohort_file).describe()
    (file,) = described["provenance"]
    assert file["sha256"] == read_uci(cohort_file).sha256
    assert file["licence"].startswith("CC BY 4.0")
    assert suite("staging").describe()["provenance"][0]["licence"] == "Apache-2.0"
    assert described["deferral"]["risk"] == 0.2
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_wrong_options_are_refused_in_one_sentence(cohort_file):
    with pytest.raises(
        UnknownName, match=r"'ckd': 'phq8'.*Known: albuminuria, detection, progression, risk"
    ):
        CKDSuite(SuiteConfig(task="phq8"))
    with pytest.raises(UnknownName, match="treatment of sex"):
        CKDSuite(sex="female")
    with pytest.raises(UnknownName, match="imputation"):
        CKDSuite(impute="mean")
    with pytest.raises(UnknownName, match="deferral rule"):
        CKDSuite(deferral="fixed")
    with pytest.raises(UnknownName, match="field of the deferral rule 'risc'"):
        CKDSuite(deferral={"risc": 0.1})
    with pytest.raises(InvalidValue, match="must be a number"):
        CKDSuite(deferral={"risk": "low"})
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
    with pytest.raises(InvalidValue, match="no albumin-creatinine ratio"):
        suite("risk", path=cohort_file)
    with pytest.raises(InvalidValue, match="progression does not"):
        suite("progression", equation_error=True)
    with pytest.raises(InvalidValue, match="measured rate, which"):
        suite("staging", path=cohort_file, equation_error=True)
    with pytest.raises(InvalidFile, match="there is no file"):
        suite("progression", path=cohort_file.parent / "none.csv").load()


class TestRealFile:
    """What is known of the UCI file, on the file itself."""

    def test_it_loads_within_a_second(self, real_ckd_file):
        for task, features in product(FROM_FILE, FEATURE_SETS):
            started = time.process_time()
            chosen = suite(task, features, real_ckd_file)
            n_left_out = sum(chosen.describe()["provenance"][0]["left_out"].values())
            assert time.process_time() - started < 1.0
            assert len(chosen.load()) + len(chosen.training_records()) + n_left_out == 400
            assert n_left_out == (0 if task == "detection" else 28)

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

    def test_children_are_deferred_where_the_age_is_shown(self, real_ckd_file):
        n_children = 0
        for seed in range(6):
            config = SuiteConfig(task="staging", seed=seed)
            for record in CKDSuite(config, real_ckd_file).load():
                if (record.features["age"] or 99) < 18:
                    n_children += 1
                    assert "age_below_18" in record.metadata["abstain_reasons"]
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
