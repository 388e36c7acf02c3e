"""The suite: determinism, no leak through fitting or prompts, labels that follow from the truth."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

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

TASKS = ("detection", "staging", "progression")
FEATURE_SETS = ("reduced", "full")
CASES = list(product(TASKS, FEATURE_SETS))


@pytest.fixture(scope="module")
def cohort_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckd") / "cohort.csv"
    path.write_text(uci_text(draw_cohort(300, seed=8), with_sex=True))
    return path


def suite(task="detection", features="reduced", path=None, n_synthetic=40, **options):
    return CKDSuite(
        SuiteConfig(task=task, features=features, n_synthetic=n_synthetic), path, **options
    )


def as_bytes(records):
    rows = [[r.record_id, dict(r.features), r.label, dict(r.metadata)] for r in records]
    return json.dumps(rows, sort_keys=True, allow_nan=False).encode()


@pytest.mark.parametrize(("task", "features"), CASES)
def test_loading_twice_gives_the_same_bytes(task, features, cohort_file):
    for path in (None, cohort_file):
        one, other = (suite(task, features, path).load() for _ in range(2))
        assert as_bytes(one) == as_bytes(other)


def test_another_process_gives_the_same_bytes():
    program = (
        "from krisis.data.base import SuiteConfig, records_hash\n"
        "from krisis.data.ckd.suite import CKDSuite\n"
        "for task in ('detection', 'staging', 'progression'):\n"
        "    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=40))\n"
        "    print(records_hash(suite.load()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    assert done.stdout.split() == [records_hash(suite(task).load()) for task in TASKS]


def test_another_seed_gives_other_patients():
    first = CKDSuite(SuiteConfig(seed=1, n_synthetic=20)).load()
    second = CKDSuite(SuiteConfig(seed=2, n_synthetic=20)).load()
    assert [r.features for r in first] != [r.features for r in second]


def test_the_feature_sets_are_the_stated_ones():
    assert tuple(suite().load()[0].features) == REDUCED
    assert tuple(suite(features="full").load()[0].features) == tuple(FEATURES)
    assert len(FEATURES) == 24
    staged = suite("staging").load()[0].features
    assert set(staged) == {*REDUCED, "age", "sex", "days_observed"}


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
    before = suite(task, "full", cohort_file, 0, impute=impute)
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
    after = suite(task, "full", path, 0, impute=impute)
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
    chosen = suite("staging", "full", cohort_file, 0, impute=impute)
    records = chosen.load()
    held_out = {record.record_id.removeprefix("uci-") for record in records}
    rows = {p.patient_id: id(p.values) for p in chosen._file.patients}
    assert seen
    assert not set(seen) & {rows[name] for name in held_out}


def test_imputed_cells_are_marked_and_measured_ones_untouched(cohort_file):
    plain = suite("detection", "full", cohort_file, 0).load()
    filled = suite("detection", "full", cohort_file, 0, impute="median").load()
    for one, other in zip(plain, filled, strict=True):
        gaps = [name for name, value in one.features.items() if value is None]
        assert other.metadata["imputed"] == gaps
        assert None not in other.features.values()
        for name, value in one.features.items():
            assert value is None or other.features[name] == value


def test_the_embedded_cohort_can_be_imputed_too():
    for record in suite("staging", impute="nearest").load():
        assert all(record.features[name] is not None for name in REDUCED)


@pytest.mark.parametrize(("task", "features"), CASES)
def test_deferral_follows_from_the_shown_features_alone(task, features, cohort_file):
    for path, exact in ((None, True), (cohort_file, False)):
        n_synthetic = 40 if path is None or task == "progression" else 0
        records = suite(task, features, path, n_synthetic).load()
        assessor = Assessor(task, exact=exact or task == "progression")
        for record in records:
            found = assessor(dict(record.features))
            reasons = DeferralRule().reasons(found.visible_reasons, found.p_misclass)
            assert found.p_misclass == record.metadata["p_misclass"]
            assert reasons == record.metadata["abstain_reasons"]
            assert record.metadata["should_abstain"] is bool(reasons)
            assert set(reasons) <= set(REASONS)


@pytest.mark.parametrize(("task", "features"), CASES)
def test_no_hidden_figure_stands_in_a_prompt(task, features, cohort_file):
    for path in (None, cohort_file):
        chosen = suite(task, features, path, 25)
        question = chosen.task
        for record in chosen.load():
            shown = build_prompt(question, [record.features])
            keys = ("true_gfr", "should_abstain", "p_misclass", "abstain_reasons", "ckd_stage")
            text = shown.system + shown.user
            assert not [key for key in keys if key in text or key in record.features]
            for key in ("true_gfr", "true_acr_mg_g", "true_first_gfr"):
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
        n_missing = sum(value is None for value in record.features.values())
        assert text.count("not measured") == n_missing


def test_stages_follow_from_the_latent_rate_and_detection_from_its_definition():
    for record in suite("staging").load():
        assert record.label == stage(record.metadata["true_gfr"]) == record.metadata["ckd_stage"]
    for record in suite("detection").load():
        truth = record.metadata
        assert (record.label == 0) == (truth["true_gfr"] < 60 or truth["true_acr_mg_g"] >= 30)


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
    for task in ("detection", "staging"):
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
        index = int(course_label(truth["true_first_gfr"], truth["true_gfr"], days))
        assert record.label == ("stable", "worsening", "improving")[index]


@pytest.mark.parametrize(
    ("first", "last", "days", "expected"),
    [
        (80, 59, 400, 1),  # a fall of 26 % into G3a
        (80, 61, 300, 0),  # a fall of 24 % inside G2 in less than a year
        (85, 62, 400, 1),  # inside G2, but 27 % and 21 per year
        (58, 46, 3000, 0),  # 21 %, but 1.5 per year and inside G3a
        (40, 52, 300, 2),  # a rise of 30 % into G3a
        (62, 85, 300, 0),  # a rise of 37 % inside G2
        (50, 44, 400, 0),  # a drop in category by 12 %
    ],
)
def test_courses_by_hand(first, last, days, expected):
    assert int(course_label(first, last, days)) == expected


@pytest.mark.parametrize("days", [60, 364, 366, 1300])
def test_the_limits_of_a_change_are_the_definition_solved_for_it(days):
    draw = np.random.default_rng(1)
    last = np.exp(draw.uniform(np.log(5), np.log(130), 20_000))
    change = draw.uniform(-1.2, 1.2, 20_000)
    worse, better = change_limits(last, days)
    by_limits = np.where(change <= worse, 1, np.where(change >= better, 2, 0))
    assert (by_limits == course_label(last / np.exp(change), last, days)).all()


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
    assert n_right / len(rows) < 0.93


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


def test_real_patients_come_first_and_synthetic_ones_are_flagged(cohort_file):
    chosen = suite(path=cohort_file, n_synthetic=15)
    flags = [record.metadata["synthetic"] for record in chosen.load()]
    assert flags == [False] * 60 + [True] * 15
    described = chosen.describe()
    assert (described["n_real"], described["n_synthetic"]) == (60, 15)


def test_a_limit_on_a_file_sorted_by_diagnosis_still_holds_both(cohort_file, tmp_path):
    header, *rows = cohort_file.read_text().splitlines()
    rows.sort(key=lambda row: ",notckd" in row)
    path = tmp_path / "sorted.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    first = [record.label for record in suite(path=path, n_synthetic=0).load()[:16]]
    assert 3 <= sum(first) <= 13


def test_real_stages_are_those_of_the_estimate(cohort_file):
    records = suite("staging", "full", cohort_file, 0, sex_column="sex").load()
    n_compared = 0
    for record in records:
        if record.metadata["egfr"] is None:
            continue
        assert stage(record.metadata["egfr"]) == record.label
        if not record.metadata["stage_from_imputed"]:
            n_compared += 1
            seen = record.features
            value = ckd_epi_2021(seen["sc"], seen["age"], female=bool(seen["sex"]))
            assert stage(float(value)) == record.label
    assert n_compared > 40


def test_unknown_sex_defers_where_it_decides_the_category(cohort_file):
    n_deferred = 0
    for record in suite("staging", "full", cohort_file, 0).load():
        truth = record.metadata
        both = {stage(truth[f"egfr_if_{sex}"], split_stage_3=True) for sex in ("female", "male")}
        assert record.features["sex"] is None
        if len(both) == 2 and not truth["stage_from_imputed"]:
            n_deferred += 1
            if not record.features["sc"] > 40:
                assert "sex_missing" in truth["abstain_reasons"]
            assert truth["should_abstain"]
        assert truth["gfr_category"] in both
    assert n_deferred > 5


def test_engineered_sex_is_seeded_and_said_so(cohort_file):
    one, other = (suite("staging", "full", cohort_file, 0, sex="engineered").load() for _ in "ab")
    assert [r.features["sex"] for r in one] == [r.features["sex"] for r in other]
    assert {r.metadata["sex_source"] for r in one} == {"engineered"}
    assert {r.features["sex"] for r in one} == {0, 1}


def test_the_margin_rule_can_be_chosen_for_comparison(cohort_file):
    records = suite("staging", "full", cohort_file, 0, sex_column="sex", deferral="margin").load()
    for record in records:
        egfr = record.metadata["egfr"]
        if egfr is not None:
            close = min(abs(egfr - limit) for limit in (15, 30, 45, 60, 90)) <= 3
            assert ("within_margin" in record.metadata["abstain_reasons"]) == close
    detection = suite("detection", "full", cohort_file, 0, sex_column="sex", deferral="margin")
    reasons = detection.describe()["abstain_reasons"]
    assert set(reasons) <= {"within_margin", "label_conflicts_with_estimate"}
    assert reasons["label_conflicts_with_estimate"] > 0


def test_a_lower_risk_defers_more():
    strict = suite("staging", n_synthetic=200, deferral={"risk": 0.02}).describe()
    usual = suite("staging", n_synthetic=200).describe()
    assert strict["n_should_abstain"] > usual["n_should_abstain"]


def test_the_description_names_source_licence_and_hash(cohort_file):
    described = suite("staging", path=cohort_file).describe()
    file, cohort = described["provenance"]
    assert file["sha256"] == read_uci(cohort_file).sha256
    assert file["licence"] == "CC BY 4.0"
    assert cohort["licence"] == "Apache-2.0"
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_wrong_options_are_refused_in_one_sentence(cohort_file):
    with pytest.raises(UnknownName, match=r"'ckd': 'phq8'.*Known: detection, progression, staging"):
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
    with pytest.raises(InvalidValue, match="n_synthetic"):
        CKDSuite(SuiteConfig(n_synthetic=0))
    with pytest.raises(InvalidValue, match="one visit per patient"):
        CKDSuite(SuiteConfig(n_synthetic=0, task="progression"), cohort_file)


class TestRealFile:
    """What is known of the UCI file, on the file itself."""

    def test_it_loads_with_all_tasks(self, real_ckd_file):
        for task, features in CASES:
            records = suite(task, features, real_ckd_file, 20).load()
            assert len(records) == (20 if task == "progression" else 100)

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
            config = SuiteConfig(task="staging", seed=seed, n_synthetic=0)
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
    staging = suite("staging", path=only_ckd, n_synthetic=0)
    assert len(staging.load()) + len(staging.training_records()) == len(chosen) - 1
    with pytest.raises(InvalidFile, match=r"every row is 'ckd'.*or ask for staging"):
        suite("detection", path=only_ckd, n_synthetic=0).load()
