"""A plan promises what the run's own interval and test will keep."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint, samplesize_confint_proportion
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.decisions.plan import (
    PairedQuestion,
    Patients,
    Pilot,
    Plan,
    Study,
    WidthQuestion,
    is_share,
    plan_compare,
    plan_estimate,
    plan_non_inferior,
)
from krisis.decisions.plan_certificate import plan_certificate
from krisis.decisions.plan_cost import Pace, TokenPrice, Use, cost_text, with_cost
from krisis.decisions.plan_pilot import correlation
from krisis.decisions.plan_power import _tail, paired_power
from krisis.decisions.plan_width import assurance
from krisis.decisions.sample import Sample, find_threshold
from krisis.errors import InvalidValue, UserError
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.accuracy import Accuracy
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.scoring import metric_from_name
from krisis.metrics.table import MOST_UNITS, Table
from krisis.results.result import BenchmarkResult
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import (
    paired_inference,
    studentised,
    swap_masks,
    unseen_disagreement,
)
from krisis.statistics.shares import share_interval

ACCURACY = Accuracy()


def wilson(hits: float, n: int) -> float:
    low, high = proportion_confint(hits, n, method="wilson")
    return float(high - low) / 2


@pytest.mark.parametrize(
    ("expected", "half_width", "n"), [(0.9, 0.03, 388), (0.5, 0.05, 381), (0.98, 0.01, 792)]
)
def test_wilsons_number_is_the_first_whose_interval_is_narrow_enough(
    expected: float, half_width: float, n: int
) -> None:
    assert WidthQuestion(expected, half_width).wilson_n() == n
    assert wilson(expected * n, n) <= half_width < wilson(expected * (n - 1), n - 1)
    normal = samplesize_confint_proportion(expected, half_width)
    assert n == pytest.approx(normal, rel=0.09)


def test_the_assurance_is_the_binomial_chance_of_a_narrow_interval() -> None:
    question, n = WidthQuestion(0.9, 0.08), 60
    by_hand = 0.0
    for hits in range(n + 1):
        interval = share_interval([1] * hits + [0] * (n - hits), [1] * n)
        if (interval.high - interval.low) / 2 <= 0.08:
            by_hand += stats.binom.pmf(hits, n, 0.9)
    assert assurance(question, n, Patients()) == pytest.approx(by_hand, abs=1e-9)
    plan = plan_estimate(ACCURACY, Study(), expected=0.9, half_width=0.03)
    assert (plan.n_patients, plan.n_rows, plan.reached) == (428, 428, "assurance")
    assert plan.beside["rows by Wilson's interval at the expected share"] == 388
    assert plan.beside["assurance of that number"] == pytest.approx(0.489, abs=1e-3)
    at_wilson = assurance(WidthQuestion(0.9, 0.03), 388, Patients())
    assert at_wilson == pytest.approx(0.489, abs=1e-3)


def mcnemar_power(n: int, difference: float, discordance: float) -> float:
    """The power of the exact two-sided McNemar test, by every pair of counts."""
    power = 0.0
    for m in range(n + 1):
        plus = np.arange(m + 1)
        p = np.minimum(1, 2 * stats.binom.sf(np.maximum(plus, m - plus) - 1, m, 0.5))
        found = stats.binom.pmf(plus, m, (discordance + difference) / 2 / discordance)
        power += stats.binom.pmf(m, n, discordance) * found[(p <= 0.05) & (2 * plus > m)].sum()
    return float(power)


def test_the_power_of_independent_pairs_is_that_of_mcnemars_exact_test() -> None:
    question = PairedQuestion(0.05, 0.15)
    assert question.connor(0.8) == 469
    for n in (469, 498):
        assert paired_power(question, n, Patients()) == pytest.approx(
            mcnemar_power(n, 0.05, 0.15), abs=0.002
        )
    assert mcnemar_power(469, 0.05, 0.15) == pytest.approx(0.775, abs=0.001)
    plan = plan_compare(ACCURACY, Study(), difference=0.05, discordance=0.15)
    assert (plan.n_patients, plan.n_rows) == (498, 498)
    assert paired_power(question, 497, Patients()) < 0.8 <= plan.power


def test_exchanges_are_counted_as_if_every_one_were_tried() -> None:
    for counts in ([1, 0, 2, 5, 3, 1, 2], [0, 2, 0, 9, 4, 0, 1], [3, 20, 8]):
        row = np.array(counts, dtype=float)
        values = np.arange(row.size) - row.size // 2.0
        units = np.repeat(np.abs(values), row.astype(int))
        units = units[units > 0]
        signs = np.array(list(itertools.product([-1, 1], repeat=units.size)))
        sums = np.abs(signs @ units)
        for needed in (1.0, 3.2, 6.0, 9.0):
            squares = np.array([float(units @ units)])
            found = _tail(values, row[None, :], squares, np.array([needed]))
            assert found[0] == pytest.approx((sums >= needed - 1e-9).mean(), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9),
    st.floats(0, 0.9),
    st.floats(0.01, 1),
    st.floats(-1, 1),
)
def test_patients_have_the_rates_and_the_correlation_that_are_asked_for(
    size: int, icc: float, discordance: float, tilt: float
) -> None:
    difference = tilt * discordance
    patients = Patients(size, icc if size > 1 else 0.0)
    net = np.arange(-size, size + 1)
    chance = patients.differences(
        size, (discordance + difference) / 2, (discordance - difference) / 2
    )
    mean = float(net @ chance)
    variance = float(net**2 @ chance) - mean**2
    assert chance.sum() == pytest.approx(1)
    assert mean == pytest.approx(size * difference, abs=1e-7)
    expected = size * (discordance - difference**2) * patients.design_effect
    assert variance == pytest.approx(expected, abs=1e-5)
    hits = patients.hits(size, discordance)
    assert hits @ np.arange(size + 1) == pytest.approx(size * discordance)


def drawn_net(
    question: PairedQuestion, n: int, patients: Patients, generator: np.random.Generator
) -> np.ndarray:
    """Return a study, patients × rows: 1 where only right is right, −1 where only left is."""
    chances = np.array([question.better, question.worse, 1 - question.discordance])
    own = np.tile(chances, (n, 1))
    if patients.icc:
        own = generator.dirichlet((1 - patients.icc) / patients.icc * chances + 1e-12, n)
    luck = generator.random((n, int(patients.cluster_size)))
    better, either = own[:, :1], own[:, :2].sum(axis=1)[:, None]
    return np.where(luck < better, 1, np.where(luck < either, -1, 0))


def judged(net: np.ndarray, *, seed: int, n_exchanges: int = 1999) -> tuple[float, Interval]:
    """Return p-value and interval as `paired_differences` finds them, without its tables."""
    n, size = net.shape
    code = np.arange(n)
    if n > MOST_UNITS:
        code = np.random.default_rng(0).permutation(n) % MOST_UNITS
    sums, rows = np.bincount(code, net.sum(axis=1)), np.bincount(code) * float(size)
    moving = np.flatnonzero(np.bincount(code, np.abs(net).sum(axis=1)))
    floor = unseen_disagreement(np.abs(net).sum(axis=1), np.full(n, size))

    def statistic(signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Difference and standard error; patients without a discordant row have nothing to swap."""
        net_rows, crossed = sums[moving] @ signs, (sums * rows)[moving] @ signs
        delta = net_rows / net.size
        squares = sums @ sums - 2 * delta * crossed + delta**2 * (rows @ rows)
        return delta, np.sqrt(rows.size / (rows.size - 1) * squares) / net.size

    observed, error = statistic(np.ones((moving.size, 1)))
    drawn = [np.empty(0)]
    for masks in swap_masks(moving.size, n_exchanges, seed=seed) if moving.size else ():
        delta, errors = statistic(1.0 - 2 * masks)
        drawn.append(studentised(delta, np.maximum(errors, floor)))
    found = paired_inference(
        observed,
        np.maximum(error, floor),
        np.concatenate(drawn)[None, :],
        degrees_of_freedom=rows.size - 1,
    )
    return float(found.p_value[0]), found.interval(0)


def simulated_power(
    question: PairedQuestion, n: int, patients: Patients, *, n_worlds: int, n_exchanges: int = 1999
) -> float:
    generator, n_yes = np.random.default_rng(11), 0
    for world in range(n_worlds):
        net = drawn_net(question, n, patients, generator)
        p_value, interval = judged(net, seed=world, n_exchanges=n_exchanges)
        better = p_value <= 0.05 and net.sum() > 0
        n_yes += bool(interval.low > -question.margin if question.margin else better)
    return n_yes / n_worlds


@pytest.mark.parametrize(("n", "patients"), [(60, Patients()), (30, Patients(4, 0.3))])
def test_simulated_studies_are_judged_as_the_command_judges(n: int, patients: Patients) -> None:
    generator, size = np.random.default_rng(1), int(patients.cluster_size)
    for seed in range(3):
        net = drawn_net(PairedQuestion(0.1, 0.3), n, patients, generator)
        both = generator.random(net.shape) < 0.8
        sides = np.where(net == 0, both, net < 0), np.where(net == 0, both, net > 0)
        form = {"accuracy": ACCURACY.comparison_form}
        found, _ = paired_differences(
            *(table_of(side.ravel(), size) for side in sides), form, exchanges=Exchanges(399, seed)
        )
        p_value, interval = judged(net, seed=seed, n_exchanges=399)
        assert found["accuracy"].p_value == pytest.approx(p_value)
        assert found["accuracy"].interval.low == pytest.approx(interval.low)


def table_of(right: np.ndarray, size: int) -> Table:
    rows = (
        EvaluationResult(
            int(hit), 1, confidence=0.8, record_id=f"{i:04}", cluster_id=f"p{i // size:04}"
        )
        for i, hit in enumerate(right)
    )
    return Rows(rows).table


def simulated_assurance(
    question: WidthQuestion, n: int, patients: Patients, n_worlds: int
) -> float:
    generator, size = np.random.default_rng(7), int(patients.cluster_size)
    a = (1 - patients.icc) / patients.icc if patients.icc else 0.0
    n_yes = 0
    for _ in range(n_worlds):
        p = question.expected
        own = generator.beta(a * p, a * (1 - p), n) if a else p
        interval = share_interval(generator.binomial(size, own, n), np.full(n, size))
        n_yes += (interval.high - interval.low) / 2 <= question.half_width
    return n_yes / n_worlds


PAIRED = [  # difference, discordance, margin, rows per patient, ICC, power
    (0.05, 0.15, None, 1, 0.0, 0.8),
    (0.1, 0.2, None, 1, 0.0, 0.9),
    (0.05, 0.15, None, 8, 0.1, 0.8),
    (0.1, 0.25, None, 4, 0.4, 0.8),
    (0.08, 0.2, None, 2, 0.3, 0.9),
    (0.03, 0.1, None, 1, 0.0, 0.8),
    (0.025, 0.1, None, 1, 0.0, 0.8),
    (0.0, 0.1, 0.05, 1, 0.0, 0.8),
    (0.0, 0.15, 0.05, 4, 0.2, 0.8),
    (-0.02, 0.3, 0.1, 8, 0.1, 0.8),
]
WIDTHS = [  # expected, half width, rows per patient, ICC, assurance
    (0.9, 0.03, 1, 0.0, 0.8),
    (0.75, 0.06, 8, 0.1, 0.8),
    (0.9, 0.05, 4, 0.3, 0.8),
    (0.8, 0.025, 1, 0.0, 0.8),
    (0.9, 0.03, 4, 0.3, 0.8),
    (0.75, 0.03, 8, 0.1, 0.9),
]


def paired_plan(difference: float, discordance: float, margin: float | None, study: Study) -> Plan:
    if margin is None:
        return plan_compare(ACCURACY, study, difference=difference, discordance=discordance)
    return plan_non_inferior(
        ACCURACY, study, margin=margin, difference=difference, discordance=discordance
    )


@pytest.mark.slow
@pytest.mark.parametrize(("difference", "discordance", "margin", "size", "icc", "power"), PAIRED)
def test_the_command_keeps_the_power_that_was_planned(
    difference: float,
    discordance: float,
    margin: float | None,
    size: int,
    icc: float,
    power: float,
) -> None:
    patients = Patients(size, icc)
    plan = paired_plan(difference, discordance, margin, Study(power, patients=patients))
    question = PairedQuestion(difference, discordance, margin or 0.0)
    n_worlds = 3000
    kept = simulated_power(question, plan.n_patients, patients, n_worlds=n_worlds)
    error = math.sqrt(power * (1 - power) / n_worlds)
    print(plan.n_patients, plan.n_rows, plan.power, kept)
    assert abs(plan.power - power) <= 0.02
    assert abs(kept - power) <= 0.02 + 2 * error


@pytest.mark.slow
@pytest.mark.parametrize(("expected", "half_width", "size", "icc", "power"), WIDTHS)
def test_runs_keep_the_assurance_that_was_planned(
    expected: float, half_width: float, size: int, icc: float, power: float
) -> None:
    patients, question = Patients(size, icc), WidthQuestion(expected, half_width)
    study = Study(power, patients=patients)
    plan = plan_estimate(ACCURACY, study, expected=expected, half_width=half_width)
    kept = simulated_assurance(question, plan.n_patients, patients, 2000)
    print(plan.n_patients, plan.n_rows, plan.power, kept)
    error = math.sqrt(power * (1 - power) / 2000)
    assert abs(kept - plan.power) <= 0.02
    # One patient more can add some points, so that more may be kept than was wished, not less.
    assert power - 0.02 <= kept <= power + 0.02 + 2 * error


def simulated_certificates(
    n: int, risk: float, delta: float, expected: float, n_worlds: int
) -> float:
    generator, n_found = np.random.default_rng(5), 0
    for world in range(n_worlds):
        loss = (generator.random(n) < expected).astype(float)
        sample = Sample(generator.random(n), loss, np.arange(n), n, seed=world)
        found = find_threshold(sample, "fixed-sequence", risk, delta)
        n_found += found.threshold is not None
    return n_found / n_worlds


@pytest.mark.slow
@pytest.mark.parametrize(("risk", "expected"), [(0.05, 0.02), (0.15, 0.08)])
def test_certificates_are_found_as_often_as_was_planned(risk: float, expected: float) -> None:
    plan = plan_certificate(Study(), risk=risk, delta=0.1, expected_risk=expected)
    kept = simulated_certificates(plan.n_patients, risk, 0.1, expected, 2000)
    print(plan.n_patients, plan.n_rows, plan.power, kept)
    assert kept == pytest.approx(plan.power, abs=0.02)
    assert plan.power >= 0.8


def test_a_certificate_is_planned_by_its_own_procedure() -> None:
    plan = plan_certificate(Study(), risk=0.15, delta=0.1, expected_risk=0.05)
    kept = simulated_certificates(plan.n_patients, 0.15, 0.1, 0.05, 300)
    assert kept == pytest.approx(plan.power, abs=0.07)
    turned = plan_certificate(
        Study(n_patients=plan.n_patients), risk=0.15, delta=0.1, expected_risk=0.05
    )
    assert turned.power == pytest.approx(plan.power)


@pytest.mark.parametrize(
    ("question", "n", "patients"),
    [
        (PairedQuestion(0.12, 0.2), 70, Patients()),
        (PairedQuestion(0.15, 0.3), 40, Patients(3, 0.4)),
        (PairedQuestion(0.0, 0.15, 0.12), 40, Patients(4, 0.2)),
    ],
)
def test_the_power_is_that_of_the_test_of_the_command(
    question: PairedQuestion, n: int, patients: Patients
) -> None:
    told = paired_power(question, n, patients, n_worlds=2000)
    kept = simulated_power(question, n, patients, n_worlds=150, n_exchanges=399)
    assert told == pytest.approx(kept, abs=3.5 * math.sqrt(told * (1 - told) / 150))


@pytest.mark.slow
def test_the_assurance_of_clustered_rows_is_that_of_the_interval_of_a_run() -> None:
    patients, study = Patients(4, 0.3), Study(patients=Patients(4, 0.3), n_patients=38)
    plan = plan_estimate(ACCURACY, study, expected=0.85, half_width=0.09)
    assert plan.n_rows == 4 * plan.n_patients
    kept = simulated_assurance(WidthQuestion(0.85, 0.09), plan.n_patients, patients, 200)
    assert kept == pytest.approx(plan.power, abs=0.1)
    assert 0.4 < plan.power < 0.9


def test_correlated_rows_need_more_rows_and_independent_ones_do_not() -> None:
    alone = plan_compare(ACCURACY, Study(), difference=0.12, discordance=0.25)
    alike = [
        plan_compare(
            ACCURACY, Study(patients=Patients(4, icc)), difference=0.12, discordance=0.25
        ).n_rows
        for icc in (0.0, 0.3)
    ]
    assert alike[0] == pytest.approx(alone.n_rows, rel=0.12)
    assert alike[1] == pytest.approx(alike[0] * (1 + 3 * 0.3), rel=0.12)


def test_a_size_turns_the_question_round() -> None:
    study = Study(n_patients=498)
    plan = plan_compare(ACCURACY, study, discordance=0.15)
    assert plan.inputs["difference"] == pytest.approx(0.05, abs=0.0002)
    assert plan_compare(ACCURACY, study, difference=0.05, discordance=0.15).power == pytest.approx(
        0.8, abs=0.001
    )
    wide = plan_estimate(ACCURACY, Study(n_patients=428), expected=0.9)
    assert wide.inputs["half_width"] == pytest.approx(0.03, abs=0.0005)
    assert wide.power >= 0.8
    margin = plan_non_inferior(ACCURACY, Study(n_patients=322), discordance=0.1)
    assert margin.inputs["margin"] == pytest.approx(0.05, abs=0.002)


def paired_pilot(n_patients: int = 60) -> Pilot:
    """Two runs of two rows per patient: right gains on every 6th patient, loses on every 20th."""
    sides = []
    for gains in (False, True):
        right = [
            (i % 6 == 0) == gains if i % 6 == 0 else (i % 20 == 1) != gains if i % 20 == 1 else 1
            for i in range(n_patients)
        ]
        rows = Rows(
            EvaluationResult(
                int(hit),
                1,
                confidence=0.8,
                record_id=f"{i}-{k}",
                cluster_id=f"p{i}",
                input_tokens=100,
                output_tokens=20,
            )
            for i, hit in enumerate(right)
            for k in range(2)
        )
        rows.append(EvaluationResult(None, 1, record_id="x", cluster_id="x", error="timeout"))
        sides.append(BenchmarkResult(rows, {}, {}, "openai/gpt-5-mini"))
    return Pilot(sides[0], ACCURACY, sides[1])


def test_a_pilot_gives_rates_correlation_and_what_has_to_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("krisis.decisions.plan.N_RESAMPLES", 80)
    monkeypatch.setattr("krisis.decisions.plan_pilot.N_FAMILIES", 2)
    pilot = paired_pilot()
    assert pilot.paired() == pytest.approx((7 / 60, 13 / 60))
    patients = pilot.patients()
    assert (patients.mean_size, patients.icc) == (2.0, 0.99)  # both rows always agree
    assert pilot.counted_patients == pytest.approx(60 / 61)
    plan = plan_compare(ACCURACY, Study(patients=patients, n_patients=90), pilot=pilot)
    assert plan.n_rows == math.ceil(plan.n_patients * 121 / 61 - 1e-6)
    assert plan.pilot["runs"][0]["not_evaluated"] == pytest.approx(1 / 121)  # type: ignore[index]
    drawn = next(value for name, value in plan.beside.items() if name.startswith("power by"))
    assert drawn == pytest.approx(plan.power, abs=0.12)


def test_the_correlation_of_rows_is_that_of_the_analysis_of_variance() -> None:
    # Three patients with 2, 3 and 1 rows, by hand: MSB = 0.3889, MSW = 0.2222, k0 = 1.8333.
    value = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    code = np.array([0, 0, 1, 1, 1, 2])
    groups = [value[code == i] for i in range(3)]
    between = sum(g.size * (g.mean() - value.mean()) ** 2 for g in groups) / 2
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / 3
    k0 = (6 - 14 / 6) / 2
    assert correlation(value, code) == pytest.approx(
        (between - within) / (between + (k0 - 1) * within)
    )
    generator = np.random.default_rng(3)
    own = np.repeat(generator.beta(1.4, 0.6, 4000), 5)  # ICC 1/(1 + 2)
    drawn = (generator.random(own.size) < own).astype(float)
    assert correlation(drawn, np.repeat(np.arange(4000), 5)) == pytest.approx(1 / 3, abs=0.03)


def test_shares_are_known_without_a_pilot_and_nothing_else() -> None:
    shares = {one.key for one in default_benchmark_metrics() if is_share(one)}
    assert {"accuracy", "selective_accuracy", "deferral_alignment"} <= shares
    assert not {"balanced_accuracy", "aurc", "expected_calibration_error"} & shares
    assert is_share(metric_from_name("disease_sensitivity"))
    with pytest.raises(InvalidValue, match="give a pilot to resample with --from RUN"):
        plan_estimate(metric_from_name("aurc"), Study(), expected=0.1, half_width=0.02)
    with pytest.raises(InvalidValue, match="two pilots"):
        plan_compare(metric_from_name("aurc"), Study(), difference=0.1, discordance=0.2)


def test_other_metrics_are_planned_by_drawing_the_pilots_patients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("krisis.decisions.plan_resampled.N_WIDTHS", 15)
    metric = metric_from_name("balanced_accuracy")
    pilot = Pilot(result_of(invented_rows(120)), metric)
    plan = plan_estimate(metric, Study(n_patients=60), pilot=pilot)
    wider = plan_estimate(metric, Study(n_patients=120), pilot=pilot)
    widths = [float(str(one.inputs["half_width"])) for one in (plan, wider)]
    assert widths[0] == pytest.approx(widths[1] * math.sqrt(2), rel=0.2)
    assert plan.power == pytest.approx(0.8, abs=0.05)


def test_costs_are_tokens_times_prices_and_hours_are_those_of_the_tightest_limit() -> None:
    plan = Plan("compare", "to see", 500, 1000, 0.8, "power")
    use = Use(400, 50, rows_per_call=4, seconds_per_call=6)
    prices = {"a/b": TokenPrice(1.0, 4.0, 0.5), "c/d": TokenPrice(2.0, 0.0)}
    cost = with_cost(plan, use, Pace(10, 90_000, 2), prices).cost
    # 250 calls: 25 minutes by requests, 5 by tokens (450,000), 12.5 by two at a time.
    assert (cost["n_calls"], cost["bound_by"]) == (250, "requests per minute")
    assert cost["hours"] == pytest.approx(25 / 60)
    assert cost["models"] == [
        {"model": "a/b", "dollars": pytest.approx(0.6), "batch_dollars": pytest.approx(0.3)},
        {"model": "c/d", "dollars": pytest.approx(0.8), "batch_dollars": None},
    ]
    assert with_cost(plan, use, Pace(None, 9000, 2), {}).cost["bound_by"] == "tokens per minute"
    assert with_cost(plan, use, Pace(1000, None, 1), {}).cost["bound_by"] == "calls at a time"
    assert "0.60" in cost_text(cost)
    assert cost_text(with_cost(plan, Use(), Pace(), {}).cost) == ""
    with pytest.raises(InvalidValue, match="--input-tokens"):
        with_cost(plan, Use(), Pace(), prices)


@pytest.fixture(scope="module")
def pilots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tmp_path = tmp_path_factory.mktemp("pilots")
    runs = {
        "a": result_of(invented_rows(80)),
        "b": result_of(invented_rows(80, skill=0.8)),
        "one": result_of(invented_rows(2)),
    }
    return {name: str(run.save(tmp_path / f"{name}.json")) for name, run in runs.items()}


@pytest.mark.slow
def test_the_command_says_the_same_in_words_and_in_json(
    pilots: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.decisions.plan.N_RESAMPLES", 10)
    command = ["plan", "compare", "--difference", "0.05", "--discordance", "0.15"]
    text = CliRunner().invoke(app, command).output
    assert text.startswith("498 patients, 498 rows: power 0.80 to find a difference of 0.05")
    found = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(found.stdout)["n_patients"] == 498
    assert found.stdout == CliRunner().invoke(app, [*command, "--json"]).stdout
    table = tmp_path / "prices.yaml"
    table.write_text("openai/*: {input: 1.0, output: 2.0, batch: 0.5}\n", encoding="utf-8")
    priced = CliRunner().invoke(
        app,
        [
            *("plan", "estimate", "--from", pilots["a"], "--n", "100", "--json"),
            *("--prices", str(table), "--requests-per-minute", "10"),
        ],
    )
    plan = json.loads(priced.stdout)
    assert plan["n_rows"] == 200
    model = plan["cost"]["models"][0]
    assert model["dollars"] == pytest.approx(200 * (220 + 2 * 31) / 1e6)
    assert model["batch_dollars"] == pytest.approx(model["dollars"] / 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("estimate --expected 1 --half-width 0.03", "expected share must lie between 0 and 1"),
        ("estimate --expected nan --half-width 0.03", "expected share must lie between 0 and 1"),
        ("estimate --expected 0.9 --half-width 0.5", "half width must lie above 0"),
        ("estimate --expected 0.9 --half-width 1e-9", "more than 10,000,000 patients"),
        ("estimate --expected 0.9", "give --half-width, or --n"),
        ("estimate --half-width 0.03", "give --expected"),
        ("estimate -m ece --half-width 0.03", "unknown metric 'ece'"),
        ("estimate -m brier_score --half-width 0.03", "--from RUN"),
        ("estimate --expected 0.9 --half-width 0.03 --assurance 1", "power must lie above alpha"),
        ("estimate --from {one} --half-width 0.1", "the pilot has one patient"),
        ("estimate --from {a} --from {b} --half-width 0.1", "give --from once"),
        ("estimate --from nowhere --half-width 0.1", "nowhere does not exist"),
        ("estimate --expected 0.9 --half-width 0.03 --model x/y", "no price is known for 'x/y'"),
        ("compare --difference 0.2 --discordance 0.1", "cannot be larger than the discordance"),
        ("compare --difference 0.05", "give --discordance"),
        ("compare --difference 0 --discordance 0.1", "difference must be above 0"),
        ("compare --difference 0.05 --discordance 0.1 --power 0.05", "power must lie above alpha"),
        ("compare --difference 0.05 --discordance 0.1 --alpha 0", "alpha must lie above 0"),
        ("compare --difference 0.05 --discordance 0.1 --icc 1", "ICC must be 0 or more"),
        ("compare --difference 0.05 --discordance 0.1 --icc 0.2", "add --cluster-size"),
        ("compare --difference 0.05 --discordance 0.1 --cluster-size 8", "with --icc"),
        ("compare --difference 0.05 --discordance 0.1 --cluster-size 0.5", "cluster size must"),
        ("compare --difference 0.05 --discordance 0.1 --n 0", "n must lie between 1"),
        ("compare --from {a} --from {a}", "the same run twice"),
        ("compare --from {a} --from {b}", "not better than the first"),
        ("compare --from {a} --from {b} --from {one}", "one pilot or two, not 3"),
        ("compare --difference 0.05 --discordance 0.1 --alpha 1e-5", "exchanges of a comparison"),
        ("compare --difference 0.05 --discordance 0.1 -j 0", "--max-concurrency must be"),
        ("certify --risk 2 --expected-risk 0.01", "risk must lie between 0 and 1"),
        ("certify --risk 0.05 --expected-risk 0.05", "no size helps"),
        ("certify --risk 0.05", "give --expected-risk"),
        ("certify --risk 0.05 --expected-risk 0.01 --cluster-size 2.5 --icc 0.1", "whole number"),
        ("certify --risk 0.05 --from {a} --from {b}", "give --from once"),
        ("non-inferior --margin 0 --discordance 0.1", "margin must lie above 0"),
        ("non-inferior --margin 0.05 --difference -0.05 --discordance 0.1", "at any size"),
        ("non-inferior --margin 0.05", "give --discordance"),
        ("non-inferior --discordance 0.1", "give --difference or --margin"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_sentence(
    words: str, said: str, pilots: dict[str, str]
) -> None:
    arguments = words.format(**pilots).split()
    found = CliRunner().invoke(app, ["plan", *arguments])
    assert isinstance(found.exception, UserError), found.output
    assert said in str(found.exception)
    assert "\n" not in str(found.exception)
