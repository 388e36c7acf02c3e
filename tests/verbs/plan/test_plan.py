"""A plan states what the run's own interval, test and certificate will keep."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.plan import PROMISE, SCENARIOS, Scenario, drawn_net, judged
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.decisions.patients import intraclass_correlation
from krisis.errors import InvalidValue, UserError
from krisis.metrics import SelectiveAccuracy, default_benchmark_metrics
from krisis.metrics.accuracy import Accuracy
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.forms import Form, Share
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.scoring import metric_from_name
from krisis.metrics.table import Table
from krisis.pages.numbers import Estimate, points, share
from krisis.results.result import BenchmarkResult
from krisis.statistics.sample_size import (
    difference_power,
    non_inferiority_power,
    wilson_assurance,
)
from krisis.verbs.plan.simulated_studies import AssumedPatients, certified, found_better
from krisis.verbs.plan.study import (
    Patients,
    Pilot,
    Simulation,
    Study,
    _Simulator,
    certificate_formula,
    certificate_power,
    is_share,
    patients_of,
    plan_certificate,
    plan_estimate,
    plan_paired,
    smallest_size,
)

ACCURACY = Accuracy()
FEW = 60  # simulated studies where their number does not matter


# The formulas


@pytest.mark.parametrize(
    ("n", "expected", "half_width"), [(60, 0.9, 0.08), (60, 0.1, 0.08), (300, 0.5, 0.056)]
)
def test_the_assurance_is_the_binomial_chance_of_a_narrow_wilson_interval(
    n: int, expected: float, half_width: float
) -> None:
    by_hand = 0.0
    for hits in range(n + 1):
        low, high = proportion_confint(hits, n, method="wilson")
        by_hand += stats.binom.pmf(hits, n, expected) * ((high - low) / 2 <= half_width)
    z = stats.norm.ppf(0.975)
    assert 0.05 < by_hand < 0.99 or expected == 0.5
    assert wilson_assurance(n, expected, half_width, z) == pytest.approx(by_hand, abs=1e-9)


def mcnemar_power(n: int, difference: float, discordance: float) -> float:
    """The power of the exact two-sided McNemar test, by every pair of counts."""
    power = 0.0
    for m in range(n + 1):
        plus = np.arange(m + 1)
        p = np.minimum(1, 2 * stats.binom.sf(np.maximum(plus, m - plus) - 1, m, 0.5))
        found = stats.binom.pmf(plus, m, (discordance + difference) / 2 / discordance)
        power += stats.binom.pmf(m, n, discordance) * found[(p <= 0.05) & (2 * plus > m)].sum()
    return float(power)


@pytest.mark.parametrize(
    ("n", "difference", "discordance"), [(498, 0.05, 0.15), (216, 0.1, 0.2), (150, 0.12, 0.3)]
)
def test_the_power_of_pairs_is_that_of_mcnemars_exact_test(
    n: int, difference: float, discordance: float
) -> None:
    power = difference_power(n, difference, discordance, 1.96)
    assert power == pytest.approx(mcnemar_power(n, difference, discordance), abs=0.012)


def test_non_inferiority_is_blackwelders_formula() -> None:
    # n = (1.96 + 0.8416)² (0.3 − 0.02²)/(0.1 − 0.02)² = 367.4
    assert non_inferiority_power(367, -0.02, 0.3, 0.1, 1.96) < 0.8
    assert non_inferiority_power(368, -0.02, 0.3, 0.1, 1.96) > 0.8


def test_the_smallest_size_is_one_from_which_on_the_power_stays_reached() -> None:
    saw = {30: 0.9, 31: 0.7, 32: 0.9, 35: 0.79}
    assert smallest_size(lambda n: saw.get(n, float(n >= 30)), 0.8) == 36
    assert smallest_size(lambda n: float(n >= 5000), 0.8) == pytest.approx(5000, abs=5)
    with pytest.raises(InvalidValue, match="more than 1,000,000 patients"):
        smallest_size(lambda _: 0.5, 0.8)


def test_the_quantiles_of_the_formulas_are_those_of_the_interval_and_of_the_test() -> None:
    study = Study(patients=Patients(4, 0.2), n_simulations=1)
    plan = plan_estimate(ACCURACY, study, expected=0.8, half_width=0.12)
    # 4 rows are worth 4/(1 + 3·0.2) = 2.5; Student's quantile has C + 2 degrees of freedom.
    wide = lambda n: wilson_assurance(2.5 * n, 0.8, 0.12, stats.t.ppf(0.975, n + 2))  # noqa: E731
    assert plan.formula_n_patients == smallest_size(wide, 0.8)
    plan = plan_paired(ACCURACY, Study(n_simulations=1), difference=0.4, discordance=0.6)
    found = lambda n: difference_power(n, 0.4, 0.6, stats.t.ppf(0.975, n - 1))  # noqa: E731
    assert plan.formula_n_patients == smallest_size(found, 0.8)


def test_the_design_effect_weighs_patients_by_their_rows() -> None:
    assert Patients(5, 0.2).design_effect == pytest.approx(1 + 4 * 0.2)
    mixed = Patients(3.0, 0.2, (1, 1, 2, 8))  # Σk²/Σk = 70/12
    assert mixed.design_effect == pytest.approx(1 + (70 / 12 - 1) * 0.2)
    assert mixed.effective_rows(100) == pytest.approx(300 / mixed.design_effect)
    assert Patients(2.25, 0.0).mean_size == pytest.approx(2.25)
    generator = np.random.default_rng(3)
    means = []
    for _ in range(1500):
        kind, _ = mixed.drawn((0.3, 0.7), 40, generator)
        means.append((kind == 0).mean())
    # The variance of a mean is p(1 − p)/n times the design effect; sizes vary, so only about.
    assert np.mean(means) == pytest.approx(0.3, abs=0.015)
    expected = 0.21 / mixed.effective_rows(40)
    assert np.var(means) == pytest.approx(expected, rel=0.2)


def test_drawn_rows_have_the_shares_and_the_correlation_of_the_assumptions() -> None:
    generator = np.random.default_rng(5)
    kind, patient = Patients(4, 0.3).drawn((0.2, 0.1, 0.7), 5000, generator)
    assert np.bincount(patient).tolist() == [4] * 5000
    assert np.bincount(kind) / kind.size == pytest.approx([0.2, 0.1, 0.7], abs=0.02)
    for one in range(3):
        icc = intraclass_correlation((kind == one).astype(float), patient)
        assert icc == pytest.approx(0.3, abs=0.03)
    better = AssumedPatients(Patients(), (0.2, 0.1, 0.7))
    left, right = better.tables(4000, generator)
    assert right.correct.mean() - left.correct.mean() == pytest.approx(0.1, abs=0.03)


def test_the_correlation_of_rows_is_that_of_the_analysis_of_variance() -> None:
    # Three patients with 2, 3 and 1 rows, by hand.
    value = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    code = np.array([0, 0, 1, 1, 1, 2])
    groups = [value[code == i] for i in range(3)]
    between = sum(g.size * (g.mean() - value.mean()) ** 2 for g in groups) / 2
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / 3
    k0 = (6 - 14 / 6) / 2
    by_hand = (between - within) / (between + (k0 - 1) * within)
    assert intraclass_correlation(value, code) == pytest.approx(by_hand)


def test_a_certificate_by_betting_counts_effective_rows_and_by_drawing_one_row_each() -> None:
    # Betting begins at 5 · 14 patients: 14 rows without an error have 0.85¹⁴ > 0.08 ≥ 0.85¹⁶.
    mixed = Patients(3.0, 0.2, (1, 1, 2, 8))
    formula = certificate_formula(0.15, 0.1, 0.05, mixed)
    betting = 5 * 16
    rows = math.floor(mixed.effective_rows(betting))
    assert formula(betting) == pytest.approx(certificate_power(rows, 0.15, 0.1, 0.05))
    drawn = math.floor((betting - 1) * 3 / 8)
    assert formula(betting - 1) == pytest.approx(certificate_power(drawn, 0.15, 0.1, 0.05))


# The simulation


def test_the_monte_carlo_error_is_that_of_a_share() -> None:
    assert Simulation(0.8, 400, "pilot").standard_error == pytest.approx(0.02, abs=1e-4)
    assert Simulation(1.0, 400, "pilot").standard_error > 0


def table_of(right: np.ndarray, size: int) -> Table:
    rows = (
        EvaluationResult(
            int(hit), 1, confidence=0.8, record_id=f"{i:04}", cluster_id=f"p{i // size:04}"
        )
        for i, hit in enumerate(right)
    )
    return Rows(rows).table


@pytest.mark.parametrize(("n", "size", "icc"), [(60, 1, 0.0), (30, 4, 0.3)])
def test_the_benchmark_judges_as_the_command_does(n: int, size: int, icc: float) -> None:
    generator = np.random.default_rng(1)
    for seed in range(3):
        net = drawn_net(n, generator, 0.1, 0.3, size, icc)
        both = generator.random(net.shape) < 0.8
        sides = np.where(net == 0, both, net < 0), np.where(net == 0, both, net > 0)
        form = {"accuracy": ACCURACY.comparison_form}
        found, _ = paired_differences(
            *(table_of(side.ravel(), size) for side in sides), form, exchanges=Exchanges(399, seed)
        )
        p_value, interval = judged(net, seed=seed, n_exchanges=399)
        assert found["accuracy"].p_value == pytest.approx(p_value)
        assert found["accuracy"].interval.low == pytest.approx(interval.low)


SMALL = [
    Scenario("compare", {"difference": 0.25, "discordance": 0.3}),
    Scenario("compare", {"difference": 0.2, "discordance": 0.4}, 4, 0.3),
    Scenario("non-inferior", {"margin": 0.15, "discordance": 0.2}, 4, 0.2),
    Scenario("estimate", {"expected": 0.8, "half_width": 0.1}),
    Scenario("estimate", {"expected": 0.8, "half_width": 0.12}, 4, 0.3),
    Scenario("certify", {"risk": 0.2, "expected_risk": 0.05}),
    Scenario("certify", {"risk": 0.2, "expected_risk": 0.1}, 2, 0.3),
]


@pytest.mark.parametrize("scenario", SMALL, ids=lambda one: f"{one.question}-{one.size}")
def test_a_plan_keeps_its_word(scenario: Scenario) -> None:
    plan = scenario.plan(n_simulations=200)
    assert plan.simulation is not None
    assert plan.power >= scenario.power - 0.06
    assert plan.power <= scenario.power + 0.12  # whole errors decide in so small studies
    kept = scenario.simulated(plan.n_patients, 200, n_exchanges=399)
    error = math.sqrt(plan.power * (1 - plan.power) / 200)
    assert kept == pytest.approx(plan.power, abs=PROMISE + 3 * error)
    assert plan.simulation.power == pytest.approx(plan.power, abs=PROMISE + 3 * error)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.question}-{one.figures}")
def test_plans_of_the_benchmark_keep_their_word(scenario: Scenario) -> None:
    plan = scenario.plan()
    kept = scenario.simulated(plan.n_patients, 1000)
    error = math.sqrt(plan.power * (1 - plan.power) / 1000)
    assert kept == pytest.approx(plan.power, abs=PROMISE + 2 * error)


@pytest.mark.parametrize("start", [20, 400])
def test_a_formula_that_the_simulation_contradicts_is_corrected(start: int) -> None:
    def judge(n: int, generator: np.random.Generator) -> float:
        return float(generator.random() < stats.norm.cdf(math.sqrt(n) / 4 - 1.96))  # 0.8 at 126

    study = Study(n_simulations=1000)
    simulator = _Simulator(study, Patients(), None, judge, "assumptions")

    def corrected(formula: float, given: _Simulator = simulator) -> tuple[int, float]:
        n, power, simulation = given.corrected(
            start,
            lambda _: formula,
            succeeded=lambda found: found > 0,
            rescaled=lambda n, found: n * (2.0 if found.mean() < 0.8 else 0.7),
        )
        assert simulation is not None
        return n, power

    n, power = corrected(0.8)
    assert n == pytest.approx(126, rel=0.12)
    assert power == pytest.approx(0.8, abs=0.03)
    true = float(stats.norm.cdf(math.sqrt(start) / 4 - 1.96))
    assert corrected(true + 0.01) == (start, true + 0.01)  # confirmed: the formula is stated
    given = replace(simulator, study=replace(study, n_patients=start))
    n, power = corrected(0.5, given)
    assert n == start  # a given size is never changed, and its power is the simulated one
    assert power == pytest.approx(true, abs=0.05)


def test_large_studies_are_not_simulated_and_say_so() -> None:
    plan = plan_estimate(ACCURACY, Study(), expected=0.9, half_width=0.002)
    assert plan.simulation is None
    assert plan.to_json()["simulation"] is None
    assert "Not simulated: more than 50,000 rows" in str(plan)


# The questions


def test_an_interval_is_planned_with_an_assurance() -> None:
    plan = plan_estimate(ACCURACY, Study(n_simulations=FEW), expected=0.9, half_width=0.03)
    assert (plan.n_patients, plan.n_rows, plan.formula_n_patients) == (428, 428, 428)
    assert plan.power == pytest.approx(0.822, abs=1e-3)
    at_half = wilson_assurance(388, 0.9, 0.03, 1.96)
    assert at_half == pytest.approx(0.489, abs=1e-3)  # the size at which the mean width is right


def test_correlated_rows_need_more_rows_and_independent_ones_do_not() -> None:
    def n_rows(patients: Patients) -> int:
        study = Study(patients=patients, n_simulations=FEW)
        return plan_paired(ACCURACY, study, margin=0.1, discordance=0.2).n_rows

    alone, apart, alike = (n_rows(p) for p in (Patients(), Patients(4, 0.0), Patients(4, 0.3)))
    assert apart == pytest.approx(alone, rel=0.08)
    assert alike == pytest.approx(alone * 1.9, rel=0.08)


def test_of_a_given_size_the_power_is_reported() -> None:
    study = Study(n_patients=250, n_simulations=FEW)
    plan = plan_paired(ACCURACY, study, difference=0.08, discordance=0.2)
    assert plan.n_patients == 250
    assert plan.power == pytest.approx(difference_power(250, 0.08, 0.2, 1.97), abs=1e-3)
    lead = f"250 patients (250 rows) reach a power of {100 * plan.power:.0f} % to find a difference"
    assert plan.document().lead[0].startswith(lead)
    wide = plan_estimate(ACCURACY, Study(n_patients=428), expected=0.9, half_width=0.03)
    assert wide.power == pytest.approx(0.822, abs=1e-3)
    assert "reach a probability of 82 % for an interval" in wide.document().lead[0]
    margin = plan_paired(ACCURACY, study, margin=0.06, discordance=0.1)
    formula = non_inferiority_power(250, 0.0, 0.1, 0.06, 1.97)
    assert margin.power == pytest.approx(formula, abs=0.05)


def test_the_pilots_difference_is_taken_as_it_is() -> None:
    metric = metric_from_name("balanced_accuracy")
    runs = [result_of(invented_rows(80, skill=skill)) for skill in (0.8, 1.0)]
    pilot = Pilot(runs[0], metric, runs[1])
    study = Study(n_patients=40, n_simulations=5)
    for replaced in ({"difference": 0.1}, {"discordance": 0.1}):
        with pytest.raises(InvalidValue, match="its difference is that of the pilots"):
            plan_paired(metric, study, pilot=pilot, **replaced)
    drawn = plan_paired(metric, study, pilot=pilot).simulation
    assert drawn is not None
    assert drawn.source == "pilot"


def test_shares_are_known_without_a_pilot_and_nothing_else() -> None:
    shares = {one.key for one in default_benchmark_metrics() if is_share(one)}
    assert {"accuracy", "selective_accuracy", "deferral_alignment"} <= shares
    assert not {"balanced_accuracy", "aurc", "expected_calibration_error"} & shares
    assert is_share(metric_from_name("disease_sensitivity"))
    assert not is_share(metric_from_name("disease_f1"))  # a function of a share


# The pilot


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
            )
            for i, hit in enumerate(right)
            for k in range(2)
        )
        lost = EvaluationResult(None, 1, record_id="x", cluster_id="x", error="timeout")
        rows = Rows([*rows, lost], rows.answers)
        sides.append(BenchmarkResult(rows, {}, {}, "openai/gpt-5-mini"))
    return Pilot(sides[0], ACCURACY, sides[1])


def test_two_pilots_give_rates_correlation_and_what_has_to_be_asked() -> None:
    pilot = paired_pilot()
    plan = plan_paired(ACCURACY, Study(n_patients=90, n_simulations=100), pilot=pilot)
    assert plan.inputs["difference"] == pytest.approx(7 / 60)
    assert plan.inputs["discordance"] == pytest.approx(13 / 60)
    assert (pilot.patients.mean_size, pilot.patients.icc) == (2.0, 0.99)  # both rows always agree
    assert plan.n_rows == math.ceil(90 * 121 / 61 - 1e-6)  # a row of the 61st patient fails
    assert plan.simulation is not None
    assert plan.simulation.source == "pilot"
    formula = difference_power(90 * 60 / 61 / 1.0, 7 / 60, 13 / 60, 1.99)
    assert plan.simulation.power == pytest.approx(formula, abs=0.15)
    given = plan_paired(
        ACCURACY, Study(n_patients=90, n_simulations=5), difference=0.1, pilot=pilot
    )
    assert given.simulation is not None
    assert given.simulation.source == "assumptions"  # the pilot's own difference is another one


def abstaining(n: int = 80, *, every: int = 4) -> BenchmarkResult:
    """A run of n patients of whom only every 4th has an answer; one in five of these is wrong."""
    rows = Rows(
        EvaluationResult(
            int(i % (5 * every) > 0) if i % every == 0 else None,
            1,
            i % every > 0,
            0.5 + i / (2 * n),
            record_id=str(i),
            cluster_id=f"p{i}",
        )
        for i in range(n)
    )
    return BenchmarkResult(rows, {}, {}, "m")


def test_patients_without_a_row_that_counts_must_be_asked_too() -> None:
    pilot = Pilot(abstaining(), SelectiveAccuracy())
    assert pilot.n_asked(25) == 100
    assert pilot.n_counted(100) == 25
    study = Study(n_simulations=FEW)
    plan = plan_estimate(SelectiveAccuracy(), study, expected=0.8, half_width=0.1, pilot=pilot)
    alone = plan_estimate(SelectiveAccuracy(), study, expected=0.8, half_width=0.1)
    assert plan.n_patients == plan.n_rows == 4 * alone.n_patients
    assert plan.inputs["expected"] == 0.8
    drawn = plan_estimate(SelectiveAccuracy(), study, half_width=0.1, pilot=pilot)
    assert drawn.simulation is not None
    assert drawn.simulation.source == "pilot"
    assert drawn.n_patients == pytest.approx(plan.n_patients, rel=0.2)


def test_a_certificate_is_planned_from_the_confidences_of_a_pilot() -> None:
    pilot = Pilot(abstaining(200, every=1), SelectiveAccuracy())
    plan = plan_certificate(Study(n_patients=150, n_simulations=100), risk=0.3, pilot=pilot)
    assert plan.inputs["expected_risk"] == pytest.approx(0.2)
    assert plan.simulation is not None
    assert plan.simulation.source == "pilot"
    assert plan.simulation.power == pytest.approx(certificate_power(150, 0.3, 0.1, 0.2), abs=0.15)
    with pytest.raises(InvalidValue, match=r"not below 0\.19"):
        plan_certificate(Study(), risk=0.19, pilot=pilot)


class ErrorRate(Accuracy):
    """Share of rows answered wrongly."""

    key = "error_rate"
    direction = "lower"

    def form(self, table: Table) -> Form:
        return Share(~table.correct, among=table.everyone)


def test_where_less_is_better_the_better_run_has_less() -> None:
    pilot = paired_pilot()
    lower = Pilot(pilot.left, ErrorRate(), pilot.right)
    assert lower.values[0].mean() == pytest.approx(7 / 60)
    study = Study(n_patients=200, n_simulations=20)
    plan = plan_paired(ErrorRate(), study, pilot=lower)
    assert plan.simulation is not None
    assert plan.simulation.power > 0.8
    margin = found_better(lower, 0.05, 0.05)(200, np.random.default_rng(0))
    assert margin == 1


def test_other_metrics_are_planned_by_drawing_the_pilots_patients() -> None:
    metric = metric_from_name("balanced_accuracy")
    pilot = Pilot(result_of(invented_rows(120)), metric)
    found = plan_estimate(metric, Study(n_simulations=30), half_width=0.1, pilot=pilot)
    assert found.formula_n_patients is None
    assert found.power == pytest.approx(0.8, abs=0.2)
    fewer, more = (
        plan_estimate(
            metric, Study(n_patients=n, n_simulations=30), half_width=0.1, pilot=pilot
        ).power
        for n in (found.n_patients * 7 // 10, found.n_patients * 14 // 10)
    )
    assert fewer < 0.5 < 0.9 < more


def test_what_is_not_given_of_patients_is_as_in_the_pilot() -> None:
    pilot = paired_pilot()
    assert patients_of(pilot, None, None) is None
    changed = patients_of(pilot, None, 0.3)
    assert changed is not None
    assert (changed.mean_size, changed.icc) == (2.0, 0.3)
    larger = patients_of(pilot, 4, None)
    assert larger is not None
    assert (larger.mean_size, larger.icc) == (4.0, 0.99)


def test_judges_say_yes_and_no() -> None:
    generator = np.random.default_rng(2)
    much = AssumedPatients(Patients(), (0.5, 0.0, 0.5))
    none = AssumedPatients(Patients(), (0.0, 0.5, 0.5))
    for margin in (0.0, 0.1):
        assert found_better(much, margin, 0.05)(60, generator) == 1
        assert found_better(none, margin, 0.05)(60, generator) == 0
    right, wrong = (AssumedPatients(Patients(), shares) for shares in ((1.0, 0.0), (0.5, 0.5)))
    assert certified(right, 0.2, 0.1)(60, generator) == 1
    assert certified(wrong, 0.2, 0.1)(60, generator) == 0


# The command


@pytest.fixture(scope="module")
def pilots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tmp_path = tmp_path_factory.mktemp("pilots")
    runs = {
        "a": result_of(invented_rows(80)),
        "b": result_of(invented_rows(80, skill=0.8)),
        "one": result_of(invented_rows(2)),
    }
    return {name: str(run.save(tmp_path / f"{name}.json")) for name, run in runs.items()}


KEYS = {
    *("kind", "schema_version", "question", "n_patients", "n_rows", "power"),
    *("formula_n_patients", "design_effect", "simulation", "inputs"),
}
SHARED_INPUTS = {"power", "cluster_size", "icc", "n_patients", "seed"}


@pytest.mark.parametrize(
    ("words", "question", "inputs"),
    [
        (
            "estimate --expected 0.9 --half-width 0.1",
            "estimate",
            {"metric", "alpha", "expected", "half_width"},
        ),
        (
            "compare --difference 0.2 --discordance 0.3",
            "compare",
            {"metric", "alpha", "difference", "discordance"},
        ),
        (
            "non-inferior --margin 0.2 --discordance 0.2",
            "non_inferior",
            {"metric", "alpha", "difference", "discordance", "margin"},
        ),
        (
            "certify --risk 0.2 --expected-risk 0.05",
            "certify",
            {"risk", "delta", "expected_risk"},
        ),
    ],
)
def test_the_keys_of_the_json_are_stable(words: str, question: str, inputs: set[str]) -> None:
    command = ["plan", *words.split(), "--simulations", "20"]
    found = CliRunner().invoke(app, [*command, "--format", "json"])
    plan = json.loads(found.stdout)
    assert set(plan) == KEYS
    assert plan["question"] == question
    assert set(plan["inputs"]) == inputs | SHARED_INPUTS
    assert set(plan["simulation"]) == {"power", "standard_error", "n_studies", "source"}
    assert found.stdout == CliRunner().invoke(app, [*command, "--format", "json"]).stdout
    text = CliRunner().invoke(app, command).output
    assert text.startswith(f"{plan['n_patients']:,} patients ({plan['n_rows']:,} rows) ")
    simulated = plan["simulation"]
    assert f"{share(Estimate(simulated['power']))} of 20 studies" in text
    assert f"(Monte-Carlo error ± {points(Estimate(simulated['standard_error']))})" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("estimate --expected 1 --half-width 0.03", "--expected must be between 0 and 1"),
        ("estimate --expected nan --half-width 0.03", "--expected must be between 0 and 1"),
        ("estimate --expected 0.9 --half-width 0.5", "--half-width must be above 0"),
        ("estimate --expected 0.9 --half-width 1e-9", "more than 1,000,000 patients"),
        ("estimate --expected 0.9", "missing --half-width"),
        ("estimate --half-width 0.03", "missing --expected"),
        ("estimate -m ece --half-width 0.03", "unknown metric 'ece'"),
        ("estimate -m brier_score --half-width 0.03", "--from RUN"),
        ("estimate --expected 0.9 --half-width 0.03 --power 1", "power must be above alpha"),
        ("estimate --from {one} --half-width 0.1", "the pilot has one patient"),
        ("estimate --from {a} --from {b} --half-width 0.1", "--from takes one pilot, not 2"),
        ("estimate --from nowhere --half-width 0.1", "nowhere does not exist"),
        ("estimate --expected 0.9 --half-width 0.1 --simulations 0", "--simulations must be"),
        ("compare --difference 0.2 --discordance 0.1", "cannot be larger than the discordance"),
        ("compare --difference 0.05", "missing --discordance"),
        ("compare --discordance 0.1", "missing --difference"),
        ("compare --difference 0 --discordance 0.1", "--difference must be above 0"),
        ("compare --difference 0.05 --discordance 0.1 --power 0.05", "power must be above alpha"),
        ("compare --difference 0.05 --discordance 0.1 --icc 1", "--icc must be 0 or more"),
        ("compare --difference 0.05 --discordance 0.1 --icc 0.2", "add --cluster-size"),
        ("compare --difference 0.05 --discordance 0.1 --cluster-size 8", "add --icc"),
        ("compare --difference 0.05 --discordance 0.1 --cluster-size 0.5", "--cluster-size must"),
        ("compare --difference 0.05 --discordance 0.1 --n 0", "--n must be between 1"),
        ("compare --discordance 0.1 --n 400", "missing --difference"),
        ("estimate --expected 0.9 --n 400", "missing --half-width"),
        ("estimate --expected 0.9 --half-width 0.1 --margin 0.1", "estimate has no --margin"),
        ("certify --risk 0.05 --expected-risk 0.01 --alpha 0.1", "certify has no --alpha"),
        ("certify --risk 0.05 --expected-risk 0.01 -m accuracy", "certify has no --metric"),
        ("compare --half-width 0.1 --discordance 0.1", "compare has no --half-width"),
        ("certify --expected-risk 0.01", "the bound is missing"),
        ("compare -m aurc --difference 0.05 --discordance 0.1", "two pilots"),
        ("compare --from {a} --from {a}", "the same run twice"),
        ("compare --from {a} --from {b}", "not better than the first"),
        ("compare --from {a} --from {b} --from {one}", "one pilot or two, not 3"),
        ("certify --risk 2 --expected-risk 0.01", "risk must be between 0 and 1"),
        ("certify --risk 0.05 --expected-risk 0.05", "no size helps"),
        ("certify --risk 0.05", "missing --expected-risk"),
        ("certify --risk 0.05 --from {a} --from {b}", "--from takes one pilot, not 2"),
        ("non-inferior --margin 0 --discordance 0.1", "--margin must be above 0"),
        ("non-inferior --margin 0.05 --difference -0.05 --discordance 0.1", "at any size"),
        ("non-inferior --margin 0.05", "missing --discordance"),
        ("non-inferior --discordance 0.1", "missing --margin"),
        ("non-inferior -m aurc --from {a} --from {b}", "missing --margin"),
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
