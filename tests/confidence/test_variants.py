"""Confidence variants: every rule by hand, and every bad signal named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.confidence.made_items import made_items

from krisis.confidence.variants import (
    KNOWN,
    available_variants,
    confidence_of,
)
from krisis.errors import UserError
from krisis.metrics.items import STATED, Source

FULL = {
    "llm_evidence_count": 2,
    "retrieval_reference_count": 3,
    "retrieval_similarity_mean": 0.8,
    "retrieval_similarity_max": 0.9,
    "verbalized_confidence": 4,
    "token_msp": 0.7,
    "token_pe": 0.25,
    "token_energy": -0.5,
    "consistency_modal_confidence": 0.6,
    "consistency_score_std": 0.5,
    STATED: 0.35,
    "rationale_confidence": 0.15,
    "p_true_confidence": 0.25,
    "top_k_confidence": 0.45,
    "two_step_confidence": 0.55,
}
E, S, V = 2 / 3, 0.8, 0.75


def table_of(*signals, prediction=None):
    n = len(signals)
    return made_items(
        participants=[f"p{i}" for i in range(n)],
        participant=np.arange(n),
        item_names=["Sleep"] * n,
        truth=np.zeros(n),
        prediction=np.zeros(n) if prediction is None else np.array(prediction, dtype=float),
        signals=list(signals),
        scale=3.0,
        source=Source("run.json"),
    )


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("llm", 2.0),
        ("total_evidence", 2.0),
        ("retrieval_similarity_mean", 0.8),
        ("retrieval_similarity_max", 0.9),
        ("hybrid_evidence_similarity", 0.5 * E + 0.5 * S),
        ("verbalized", 0.75),
        ("hybrid_verbalized", 0.4 * V + 0.3 * E + 0.3 * S),
        ("token_msp", 0.7),
        ("token_pe", 0.8),
        ("token_energy", math.exp(-0.5)),
        ("consistency", 0.6),
        ("consistency_inverse_std", 1 / 1.5),
        ("hybrid_consistency", 0.4 * 0.6 + 0.3 * E + 0.3 * S),
        ("stated", 0.35),
        ("rationale", 0.15),
        ("p_true", 0.25),
        ("top_k", 0.45),
        ("two_step", 0.55),
        ("secondary:token_msp+retrieval_similarity_mean:average", 0.75),
        ("secondary:token_msp+retrieval_similarity_mean:product", 0.56),
    ],
)
def test_each_rule_by_hand(variant, expected):
    assert confidence_of(table_of(FULL), variant)[0] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("signal", "variant", "expected"),
    [
        ("retrieval_similarity_mean", "retrieval_similarity_mean", 0.0),
        ("retrieval_similarity_max", "retrieval_similarity_max", 0.0),
        ("retrieval_similarity_mean", "hybrid_evidence_similarity", 0.5 * E),
        ("verbalized_confidence", "verbalized", 0.5),
    ],
)
def test_a_null_that_has_a_meaning_gets_it(signal, variant, expected):
    assert confidence_of(table_of({**FULL, signal: None}), variant)[0] == pytest.approx(expected)


def test_evidence_is_cut_at_three_and_a_similarity_is_taken_as_it_is():
    for similarity in (1.4, -0.2):
        many = {**FULL, "llm_evidence_count": 9, "retrieval_similarity_mean": similarity}
        found = confidence_of(table_of(many), "hybrid_evidence_similarity")[0]
        assert found == pytest.approx(0.5 + 0.5 * similarity)


@pytest.mark.parametrize("missing", ["retrieval_reference_count", "retrieval_similarity_max"])
@pytest.mark.parametrize(
    "variant", ["retrieval_similarity_mean", "hybrid_verbalized", "hybrid_consistency"]
)
def test_what_uses_a_similarity_needs_every_retrieval_signal(missing, variant):
    poor = {k: v for k, v in FULL.items() if k != missing}
    with pytest.raises(UserError, match=f"p1, item Sleep: the signal {missing} is missing"):
        confidence_of(table_of(FULL, poor), variant)
    null = {**FULL, "retrieval_reference_count": None}
    assert np.isfinite(confidence_of(table_of(null), variant)).all()


@pytest.mark.parametrize(
    "signal",
    ["llm_evidence_count", "token_msp", "token_pe", "token_energy", "consistency_score_std"],
)
def test_a_null_without_meaning_is_an_error_naming_everything(signal):
    variant = {"llm_evidence_count": "llm", "consistency_score_std": "consistency_inverse_std"}
    name = variant.get(signal, signal)
    with pytest.raises(UserError, match=f"participant p1, item Sleep.*{signal} is null.*{name}"):
        confidence_of(table_of(FULL, {**FULL, signal: None}), name)


def test_a_missing_key_is_never_replaced():
    poor = {k: v for k, v in FULL.items() if k != "retrieval_similarity_mean"}
    with pytest.raises(UserError, match="p1, item Sleep: the signal retrieval_similarity_mean"):
        confidence_of(table_of(FULL, poor), "hybrid_verbalized")


@pytest.mark.parametrize(
    ("signal", "variant", "value"),
    [
        ("llm_evidence_count", "llm", -1),
        ("llm_evidence_count", "llm", True),
        ("llm_evidence_count", "llm", "3"),
        pytest.param("llm_evidence_count", "llm", 10**400, id="too_long"),
        ("verbalized_confidence", "verbalized", 0),
        ("verbalized_confidence", "verbalized", 6),
        ("verbalized_confidence", "hybrid_verbalized", math.nan),
        ("token_pe", "token_pe", -0.1),
        ("token_msp", "token_msp", 1.2),
        ("token_energy", "token_energy", math.inf),
        ("consistency_modal_confidence", "consistency", 1.1),
        ("retrieval_similarity_mean", "retrieval_similarity_mean", math.nan),
        (STATED, "stated", -0.5),
    ],
)
def test_values_that_are_no_signal_are_refused(signal, variant, value):
    with pytest.raises(UserError, match=f"participant p0, item Sleep: the signal {signal} must be"):
        confidence_of(table_of({**FULL, signal: value}), variant)


def test_signals_of_an_abstained_item_do_not_matter():
    table = table_of(FULL, {}, {"llm_evidence_count": math.nan}, prediction=[1, math.nan, math.nan])
    assert confidence_of(table, "llm").tolist() == [2.0]


def test_an_unknown_variant_comes_with_a_suggestion():
    with pytest.raises(UserError, match="did you mean 'verbalized'"):
        confidence_of(table_of(FULL), "verbalised")


@pytest.mark.parametrize(
    "variant",
    [
        "secondary:llm:average",
        "secondary:llm+verbalized:sum",
        "secondary:llm+:product",
        "secondary:llm+verbalized",
        "secondary:llm+secondary:llm+verbalized:average:product",
    ],
)
def test_a_combination_must_be_one(variant):
    with pytest.raises(UserError, match="combin"):
        confidence_of(table_of(FULL), variant)


def test_energy_that_overflows_is_refused():
    with pytest.raises(UserError, match="is not a finite number"):
        confidence_of(table_of({**FULL, "token_energy": 1000.0}), "token_energy")


def test_calibrated_variants_need_an_artifact():
    for variant in ("calibrated", "verbalized_calibrated"):
        with pytest.raises(UserError, match="--calibration ARTIFACT"):
            confidence_of(table_of(FULL), variant)


def test_all_lists_what_is_there_and_why_the_rest_is_not():
    poor = {"llm_evidence_count": 1, "token_msp": None}
    found, absent = available_variants(table_of(poor))
    assert list(found) == ["llm", "total_evidence"]
    assert set(absent) == set(KNOWN) - set(found)
    assert "no answer has the signal token_msp" in absent["token_msp"]
    assert "verbalized_confidence is missing" in absent["verbalized"]


@pytest.mark.parametrize(
    ("signal", "value", "lost"),
    [
        ("verbalized_confidence", 9, {"verbalized", "hybrid_verbalized"}),
        ("token_msp", math.nan, {"token_msp"}),
        ("token_energy", 1000.0, {"token_energy"}),
        ("llm_evidence_count", -1, {"llm", "total_evidence"} | {n for n in KNOWN if "hybrid" in n}),
    ],
)
def test_all_lists_a_variant_whose_signal_is_broken_and_evaluates_the_others(signal, value, lost):
    broken = table_of({**FULL, signal: value})
    found, absent = available_variants(broken)
    assert lost == set(absent) - {"stated", "calibrated", "verbalized_calibrated"}
    assert set(found) == set(KNOWN) - set(absent)
    for variant in lost:
        with pytest.raises(UserError) as refused:
            confidence_of(broken, variant)
        assert str(refused.value) == absent[variant]
        assert absent[variant].startswith("participant p0, item Sleep: the ")
        assert signal in absent[variant]


@pytest.mark.parametrize("way", ["rationale", "p-true", "top-k", "two-step"])
def test_a_run_that_was_asked_in_another_way_says_which_one_it_lacks(way):
    variant = way.replace("-", "_")
    asked = {name: value for name, value in FULL.items() if name != f"{variant}_confidence"}
    with pytest.raises(UserError, match=f"or a run made with --elicit {way}$"):
        confidence_of(table_of(asked), variant)


def test_all_lists_a_variant_that_is_the_same_everywhere_as_without_information():
    rising = [
        {**FULL, "token_msp": value, "retrieval_similarity_mean": None} for value in (0.2, 0.9)
    ]
    found, absent = available_variants(table_of(*rising))
    assert list(found) == ["token_msp"]
    assert absent["retrieval_similarity_mean"] == (
        "it is 0 for each of the 2 answered items of run.json, so it ranks nothing"
    )
    assert "it is 2 for each of the 2 answered items" in absent["llm"]
    one_answered = table_of(*rising, prediction=[0, math.nan])
    assert "llm" in available_variants(one_answered)[0]  # one item has no ranking to lack
