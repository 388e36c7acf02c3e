"""Calibrators: against scikit-learn and brute force, honest figures, safe artifacts."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from tests.confidence.made_items import made_items

from krisis.confidence.calibrators import calibrator_from, figures_of, fit_calibrator, target_values
from krisis.confidence.models import MODELS, compute_binary_nll, compute_ece
from krisis.confidence.signals import SIGNALS, default_for_missing, n_missing
from krisis.confidence.variants import confidence_of
from krisis.errors import UserError
from krisis.metrics.items import STATED, Source
from krisis.metrics.selective_prediction import risk_coverage_curve

RNG = np.random.default_rng(0)


def columns_with(n_participants=40, *, seed=0, path="train.json"):
    rng = np.random.default_rng(seed)
    n = n_participants * 8
    participant = np.repeat(np.arange(n_participants), 8)
    spoken = rng.integers(1, 6, n)
    similarity = rng.random(n)
    chance = 1 / (1 + np.exp(-(0.6 * (spoken - 3) + 2 * (similarity - 0.5))))
    truth = rng.integers(0, 4, n)
    wrong = rng.random(n) > chance
    prediction = np.where(wrong, (truth + rng.integers(1, 4, n)) % 4, truth).astype(float)
    prediction[rng.random(n) < 0.1] = np.nan
    return {
        "participants": [int(300 + i) for i in range(n_participants)],
        "participant": participant,
        "item_names": ["Sleep"] * n,
        "truth": truth.astype(float),
        "prediction": prediction,
        "signals": [
            {"verbalized_confidence": int(v), "retrieval_similarity_mean": float(s)}
            for v, s in zip(spoken, similarity, strict=True)
        ],
        "scale": 3.0,
        "source": Source(path, "run-1", "abc", "few_shot"),
    }


def table_with(n_participants=40, *, seed=0, path="train.json", **changes):
    """Return a run of invented participants; a change may be computed from the columns."""
    columns = columns_with(n_participants, seed=seed, path=path)
    changed = {k: v(columns) if callable(v) else v for k, v in changes.items()}
    return made_items(**{**columns, **changed})


FEATURES = RNG.normal(size=(300, 2)) * [1.0, 20.0] + [0.0, 5.0]
BINARY = (RNG.random(300) < 1 / (1 + np.exp(-FEATURES[:, 0] - 0.05 * FEATURES[:, 1]))).astype(float)


def test_logistic_is_that_of_scikit_learn():
    scaler = StandardScaler().fit(FEATURES)
    oracle = LogisticRegression(C=1.0, tol=1e-10).fit(scaler.transform(FEATURES), BINARY)
    expected = oracle.predict_proba(scaler.transform(FEATURES))[:, 1]
    ours = MODELS["logistic"].fit(FEATURES, BINARY).predict(FEATURES)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_linear_is_ridge_regression_clipped():
    target = np.clip(0.5 + 0.4 * FEATURES[:, 0] + RNG.normal(0, 0.1, 300), 0, 1)
    scaler = StandardScaler().fit(FEATURES)
    oracle = Ridge(alpha=1.0).fit(scaler.transform(FEATURES), target)
    expected = np.clip(oracle.predict(scaler.transform(FEATURES)), 0, 1)
    ours = MODELS["linear"].fit(FEATURES, target).predict(FEATURES)
    np.testing.assert_allclose(ours, expected, atol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_isotonic_is_that_of_scikit_learn(sign):
    feature = np.round(sign * FEATURES[:, :1], 1)
    oracle = IsotonicRegression(increasing=sign > 0, out_of_bounds="clip").fit(feature, BINARY)
    grid = np.linspace(-4, 4, 101)[:, None]
    ours = MODELS["isotonic"].fit(feature, BINARY)
    np.testing.assert_allclose(ours.predict(grid), oracle.predict(grid), atol=1e-10)


def test_the_temperature_is_the_best_of_a_fine_grid():
    probability = np.clip(RNG.random(400), 0.02, 0.98)
    logits = np.log(probability / (1 - probability))
    target = (RNG.random(400) < 1 / (1 + np.exp(-logits / 2.5))).astype(float)
    model = MODELS["temperature_scaling"].fit(probability[:, None], target)
    grid = np.linspace(0.05, 10, 4000)
    losses = [compute_binary_nll(1 / (1 + np.exp(-logits / t)), target) for t in grid]
    assert model.temperature == pytest.approx(grid[int(np.argmin(losses))], abs=0.01)
    assert compute_binary_nll(model.predict(probability[:, None]), target) <= min(losses) + 1e-9


def test_targets():
    table = table_with(3)
    errors = table.errors()
    np.testing.assert_array_equal(target_values(table, "correctness"), errors == 0)
    np.testing.assert_array_equal(target_values(table, "near_correct"), errors <= 1)
    np.testing.assert_allclose(target_values(table, "loss"), 1 - errors / 3)


def test_figures_by_hand():
    probability, target = np.array([0.9, 0.6, 0.6]), np.array([1.0, 1.0, 0.0])
    expected = -(math.log(0.9) + math.log(0.6) + math.log(0.4)) / 3
    assert compute_binary_nll(probability, target) == pytest.approx(expected)
    assert figures_of(probability, target)["brier"] == pytest.approx((0.01 + 0.16 + 0.36) / 3)
    assert compute_ece(probability, target) == pytest.approx((0.1 + 0.2) / 3)


@pytest.mark.parametrize(
    ("method", "features", "target"),
    [
        ("temperature", ["verbalized_confidence"], "correctness"),
        ("logistic", ["verbalized_confidence", "retrieval_similarity_mean"], "near_correct"),
        ("linear", ["verbalized_confidence", "retrieval_similarity_mean"], "loss"),
        ("isotonic", ["retrieval_similarity_mean"], "correctness"),
    ],
)
def test_an_artifact_read_back_gives_the_same_confidence(method, features, target):
    table = table_with()
    fitted = fit_calibrator(table, features, method=method, target=target)
    text = json.dumps(fitted.model_dump(mode="json"), allow_nan=False)
    read = calibrator_from(json.loads(text), place="artifact.json")
    np.testing.assert_array_equal(fitted.apply(table), read.apply(table))
    values = confidence_of(table, "calibrated", calibrator=read)
    assert ((values >= 0) & (values <= 1)).all()
    assert read.fitted_on.n_samples == int(table.predicted.sum())


def test_the_same_seed_gives_the_same_artifact():
    one, two = (
        fit_calibrator(table_with(), ["verbalized_confidence"], seed=7).model_dump_json()
        for _ in range(2)
    )
    assert one == two


def test_calibration_helps_on_participants_that_were_not_seen():
    fitted = fit_calibrator(
        table_with(), ["verbalized_confidence", "retrieval_similarity_mean"], method="logistic"
    )
    crossed = fitted.metrics["cross_fitted"]
    assert crossed["n_folds"] == 5
    assert crossed["after"]["nll"] < crossed["before"]["nll"]
    assert "flattering" in fitted.metrics["training_set"]["note"]


def test_cross_fitting_never_sees_the_participant_it_predicts():
    # Each participant has a level of their own: inside a participant the target is constant, so
    # a model that has seen the participant would look far better than one that has not.
    mixed = table_with(
        10,
        prediction=lambda c: np.where(c["participant"] % 2 == 1, c["truth"], (c["truth"] + 1) % 4),
        signals=lambda c: [{"retrieval_similarity_mean": float(p)} for p in c["participant"]],
    )
    fitted = fit_calibrator(mixed, ["retrieval_similarity_mean"], method="isotonic")
    seen, unseen = (fitted.metrics[k]["after"]["brier"] for k in ("training_set", "cross_fitted"))
    assert unseen > seen + 0.05


def test_one_participant_cannot_be_judged_on_others():
    fitted = fit_calibrator(table_with(1), ["verbalized_confidence"], force=True)
    crossed = fitted.metrics["cross_fitted"]
    assert crossed["after"] is None
    assert "one participant" in crossed["reason"]


def test_a_temperature_keeps_the_ranking_and_says_so():
    table = table_with()
    fitted = fit_calibrator(table, ["verbalized_confidence"], method="temperature")
    plain = confidence_of(table, "verbalized")
    calibrated = confidence_of(table, "verbalized_calibrated", calibrator=fitted)
    losses = table.losses("abs")
    areas = [risk_coverage_curve(losses, c, table.n_items).aurc() for c in (plain, calibrated)]
    assert areas[0] == pytest.approx(areas[1], abs=1e-15)
    assert "no news" in fitted.order_note()
    both = fit_calibrator(table, ["verbalized_confidence", "retrieval_similarity_mean"])
    assert both.order_note() == ""
    merged = fit_calibrator(table, ["verbalized_confidence"], method="isotonic")
    assert "ties" in merged.order_note()


def test_participants_seen_again_are_counted():
    fitted = fit_calibrator(table_with(40), ["verbalized_confidence"])
    assert fitted.overlap(table_with(10)) == 10
    others = table_with(10).restricted([])
    assert fitted.overlap(others) == 0


def test_participant_names_are_not_in_the_artifact():
    named = table_with(3, participants=["alice", "bob", "carol"])
    text = fit_calibrator(named, ["verbalized_confidence"], force=True).model_dump_json()
    assert not any(name in text for name in ("alice", "bob", "carol"))


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (["token_msp"], {}, "no item of train.json carries the feature 'token_msp'; it has:"),
        ([], {}, "name one or more features"),
        (["verbalized_confidence"] * 2, {}, "each once"),
        (["verbalized_confidence"], {"method": "logistical"}, "did you mean 'logistic'"),
        (["verbalized_confidence"], {"target": "correct"}, "did you mean"),
        (["verbalized_confidence"], {"method": "temperature", "target": "loss"}, "yes or no"),
        (["retrieval_similarity_mean"], {"method": "temperature"}, "a scale of its own"),
        (
            ["verbalized_confidence", "retrieval_similarity_mean"],
            {"method": "isotonic"},
            "takes one feature, not 2",
        ),
    ],
)
def test_requests_that_cannot_be_fitted_are_one_sentence(features, options, message):
    with pytest.raises(UserError, match=message):
        fit_calibrator(table_with(6), features, **options)


def test_a_run_without_predictions_teaches_nothing():
    silent = table_with(2, prediction=np.full(16, np.nan))
    with pytest.raises(UserError, match="no predicted item"):
        fit_calibrator(silent, ["verbalized_confidence"])


def good_artifact():
    names = ["verbalized_confidence", "retrieval_similarity_mean"]
    return fit_calibrator(table_with(), names).model_dump(mode="json")


def _spoil(path, value):
    def change(content):
        *parents, last = path
        for part in parents:
            content = content[part]
        content[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _spoil(["schema_version"], "1"),
        _spoil(["kind"], "something"),
        _spoil(["method"], "isotonic"),
        _spoil(["features"], ["verbalized_confidence"]),
        _spoil(["features"], "verbalized_confidence"),
        _spoil(["target"], "truth"),
        _spoil(["model", "weights"], [1.0]),
        _spoil(["model", "weights"], [1.0, "x"]),
        _spoil(["model", "scales"], [1.0, 0.0]),
        _spoil(["model", "scales"], [1.0, -2.0]),
        _spoil(["model", "intercept"], None),
        _spoil(["model", "intercept"], True),
        _spoil(["model", "weights"], ["1.0", "2.0"]),
        _spoil(["features"], ["verbalized_confidence"] * 2),
        _spoil(["model", "method"], "pickle"),
        _spoil(["input_scale"], {"verbalized_confidence": [1, 5]}),
        _spoil(["missing"], {}),
        _spoil(["missing", "verbalized_confidence", "default"], None),
        _spoil(["fitted_on"], {}),
        _spoil(["model"], {"method": "temperature_scaling", "temperature": 40.0}),
        _spoil(["unknown"], 1),
    ],
)
def test_a_damaged_artifact_is_refused_in_one_sentence(change):
    content = copy.deepcopy(good_artifact())
    change(content)
    with pytest.raises(UserError, match=r"a\.json is no usable calibrator.*krisis calibrate"):
        calibrator_from(content, place="a.json")


def without(feature, *rows, null=False):
    """Return signals in which these items lack a feature, or have a null."""

    def change(columns):
        signals = [dict(given) for given in columns["signals"]]
        for row in rows:
            signals[row].pop(feature)
            signals[row] |= {feature: None} if null else {}
        return signals

    return change


@pytest.mark.parametrize("null", [True, False])
def test_a_calibrator_takes_a_stated_default_where_an_item_lacks_a_feature(null):
    names = ["verbalized_confidence", "retrieval_similarity_mean"]
    rows = [row for row in range(3) if not np.isnan(columns_with()["prediction"][row])]
    poor = table_with(signals=without("verbalized_confidence", *rows, null=null))
    fitted = fit_calibrator(poor, names)

    def filled(columns):
        for row in rows:
            columns["signals"][row]["verbalized_confidence"] = 3
        return columns["signals"]

    whole = fit_calibrator(table_with(signals=filled), names)
    assert fitted.model == whole.model
    written = fitted.model_dump(mode="json")["missing"]
    assert written == {
        "verbalized_confidence": {"default": 3.0, "n_items": len(rows)},
        "retrieval_similarity_mean": {"default": 0.0, "n_items": 0},
    }
    assert np.array_equal(fitted.apply(poor), fitted.apply(table_with(signals=filled)))
    assert fitted.missing_in(poor)["verbalized_confidence"].n_items == len(rows)
    assert fitted.missing_in(table_with()) == {}


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        *[(name, 0.0) for name in SIGNALS if name.startswith(("llm", "retrieval"))],
        ("verbalized_confidence", 3.0),
        *[(name, 0.5) for name in (STATED, "token_msp", "consistency_modal_confidence")],
        ("token_pe", 0.9),
        ("consistency_score_std", 0.9),
        ("token_energy", 0.1),
        ("a signal of their own", 0.4),
    ],
)
def test_the_default_of_each_feature_claims_no_confidence(signal, expected):
    columns = columns_with(1)
    values = [0.1, 0.2, 0.9, None]
    run = made_items(
        **{
            **columns,
            "signals": [{signal: values[i % 4]} for i in range(8)],
            "prediction": columns["truth"],
        }
    )
    assert default_for_missing(run, signal) == pytest.approx(expected)
    assert n_missing(run, signal) == 2


def test_the_default_is_that_of_training_wherever_the_calibrator_is_used():
    def run_of(*entropies):
        return table_with(
            signals=lambda c: [{"token_pe": entropies[i % len(entropies)]} for i in range(320)]
        )

    fitted = fit_calibrator(run_of(0.1, 0.4, 2.0, None), ["token_pe"])
    assert fitted.missing["token_pe"].default == 2.0
    assert np.array_equal(fitted.apply(run_of(0.2, None)), fitted.apply(run_of(0.2, 2.0)))


def test_a_feature_that_no_item_has_a_value_of_is_an_error_in_training_and_use():
    names = ["verbalized_confidence", "token_msp"]

    def run_of(probability):
        return table_with(signals=lambda c: [{**s, "token_msp": probability} for s in c["signals"]])

    fitted = fit_calibrator(run_of(0.5), names)
    for use in (fitted.apply, lambda run: fit_calibrator(run, names)):
        for poor in (run_of(None), table_with()):
            with pytest.raises(UserError, match="carries the feature 'token_msp'"):
                use(poor)
    with pytest.raises(UserError, match="verbalized_confidence must be a finite number"):
        fitted.apply(table_with(signals=[{names[0]: 9, names[1]: 0.5}] * 320))


def test_a_temperature_has_the_name_that_is_written_and_a_short_one():
    fitted = [
        fit_calibrator(table_with(), ["verbalized_confidence"], method=name).model_dump_json()
        for name in ("temperature_scaling", "temperature")
    ]
    assert fitted[0] == fitted[1]
    assert '"method":"temperature_scaling"' in fitted[0]


def test_a_calibrator_of_another_scale_is_not_applied():
    content = good_artifact()
    content["input_scale"]["verbalized_confidence"] = [0.0, 100.0]
    calibrator = calibrator_from(content, place="a.json")
    with pytest.raises(UserError, match="from 0 to 100 and the run has it from 1 to 5"):
        calibrator.apply(table_with(3))
    near = fit_calibrator(table_with(), ["verbalized_confidence"], target="near_correct")
    wide = table_with(3, scale=4.0)
    with pytest.raises(UserError, match=r"span 3\.0 and train\.json has scores that span 4\.0"):
        near.apply(wide)


def test_a_calibrator_on_stated_confidence_serves_krisis_runs():
    run = table_with(
        12,
        signals=lambda c: [{STATED: (s["verbalized_confidence"] - 1) / 4} for s in c["signals"]],
        source=Source("runs/r"),
    )
    fitted = fit_calibrator(run, [STATED], method="temperature")
    assert confidence_of(run, "calibrated", calibrator=fitted).size == int(run.predicted.sum())
    with pytest.raises(UserError, match="fitted on verbalized_confidence and the artifact is"):
        confidence_of(run, "verbalized_calibrated", calibrator=fitted)


def test_targets_that_are_all_alike_are_learnt_without_trouble():
    features = np.linspace(0, 1, 20)[:, None]
    for method in ("logistic", "linear", "isotonic", "temperature_scaling"):
        model = MODELS[method].fit(features, np.ones(20))
        predicted = model.predict(features)
        assert np.isfinite(predicted).all()
        assert ((predicted >= 0) & (predicted <= 1)).all()
    constant = MODELS["logistic"].fit(np.full((20, 1), 3.0), np.arange(20) % 2)
    np.testing.assert_allclose(constant.predict(np.full((1, 1), 3.0)), 0.5, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [0.0, 0.0], "outputs": [0.1, 0.2]},
        {"inputs": [0.0, 1.0], "outputs": [0.3, 0.2]},
        {"inputs": [0.0], "outputs": [0.3, 0.4]},
        {"inputs": [], "outputs": []},
        {"inputs": [0.0, 1.0], "outputs": [0.3, 1.4]},
    ],
)
def test_an_isotonic_artifact_must_be_a_rising_function(change):
    content = fit_calibrator(
        table_with(8), ["retrieval_similarity_mean"], method="isotonic"
    ).model_dump(mode="json")
    content["model"].update(change)
    with pytest.raises(UserError, match="no usable calibrator"):
        calibrator_from(content, place="a.json")


def test_what_a_calibrator_changes_on_another_run():
    fitted = fit_calibrator(table_with(), ["verbalized_confidence"], method="temperature")
    before, old, new = fitted.judged_on(table_with(20, seed=5))
    assert before == "verbalized_confidence"
    assert new["nll"] < old["nll"]


def test_too_few_answers_of_one_kind_are_refused_with_their_numbers():
    def nine_off(columns):
        return columns["truth"] + np.where(
            np.arange(32) < 9, np.where(columns["truth"] < 2, 2, -2), 0
        )

    few = table_with(4, prediction=nine_off)
    with pytest.raises(UserError, match="23 right and 9 wrong answers, and a calibrator needs at"):
        fit_calibrator(few, ["verbalized_confidence"])
    with pytest.raises(UserError, match="23 near and 9 far answers, and a calibrator needs at"):
        fit_calibrator(few, ["verbalized_confidence"], target="near_correct")


@pytest.mark.parametrize(
    ("target", "shift", "told"),
    [
        ("correctness", 0, "all 320 answers of train.json are right"),
        ("correctness", 1, "all 320 answers of train.json are wrong"),
        ("near_correct", 1, "all 320 answers of train.json are within 1 of the truth"),
        ("near_correct", 2, "all 320 answers of train.json are far off"),
        ("loss", 1, "all 320 answers of train.json are equally far from the truth"),
    ],
)
def test_a_target_with_one_class_is_said_and_not_fitted(target, shift, told):
    def shifted(columns):
        return columns["truth"] + np.where(columns["truth"] < 2, shift, -shift)

    alike = table_with(40, prediction=shifted)
    with pytest.raises(UserError, match=told) as refused:
        fit_calibrator(alike, ["verbalized_confidence"], method="linear", target=target)
    assert "nothing to learn" in str(refused.value)
    forced = fit_calibrator(
        alike, ["verbalized_confidence"], method="linear", target=target, force=True
    )
    assert forced.warnings()[0].startswith(told)


@pytest.mark.parametrize("method", ["temperature", "logistic", "linear", "isotonic"])
def test_a_few_right_answers_do_not_prove_that_none_is_wrong(method):
    three = table_with(
        1,
        participant=np.array([0, 0, 0]),
        item_names=["Sleep"] * 3,
        truth=np.array([1.0, 2.0, 0.0]),
        prediction=np.array([1.0, 2.0, 0.0]),
        signals=[{"verbalized_confidence": v} for v in (4, 4, 5)],
    )
    fitted = fit_calibrator(three, ["verbalized_confidence"], method=method, force=True)
    assert fitted.metrics["training_set"]["after"]["nll"] > 0.1


def test_before_and_after_have_intervals_and_the_change_a_verdict():
    fitted = fit_calibrator(table_with(), ["verbalized_confidence"], method="temperature")
    crossed = fitted.metrics["cross_fitted"]
    for side in ("before", "after"):
        for name, (low, high) in crossed["intervals"][side].items():
            assert low < crossed[side][name] < high, (side, name)
    change = crossed["change"]["nll"]
    assert change["delta"] == pytest.approx(crossed["after"]["nll"] - crossed["before"]["nll"])
    assert (change["verdict"] == "better") == (change["interval"][1] < 0)


def test_a_calibrator_that_makes_things_worse_says_so():
    """Right answers that were stated with certainty: softening them can only cost."""
    sure = table_with(
        30,
        prediction=lambda c: np.where(np.arange(240) % 24 == 0, (c["truth"] + 1) % 4, c["truth"]),
        signals=[
            {"verbalized_confidence": 1 if i % 24 == 0 else 5, "token_msp": (i * 7 % 11) / 11}
            for i in range(240)
        ],
    )
    fitted = fit_calibrator(sure, ["verbalized_confidence"], method="linear")
    worse = fitted.metrics["cross_fitted"]["change"]["nll"]["verdict"] == "worse"
    assert worse == any("is worse than what it starts from" in w for w in fitted.warnings())
    assert worse


def test_a_temperature_at_its_bound_is_pointed_out():
    sure = table_with(
        20,
        prediction=lambda c: np.where(np.arange(160) % 8 == 0, (c["truth"] + 1) % 4, c["truth"]),
        signals=[{"verbalized_confidence": 2 if i % 8 == 0 else 4} for i in range(160)],
    )
    fitted = fit_calibrator(sure, ["verbalized_confidence"], method="temperature")
    assert fitted.model.temperature == 0.05
    assert "sits at the bound" in fitted.warnings()[0]
