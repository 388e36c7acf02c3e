"""A threshold is certified by chains fixed beforehand, or the size that would do is told."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.certify import DELTA, RISK, WORLDS
from benchmarks.certify import sample_of as simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from tests.invented_runs import ANSWERS, TASK
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.confidence.calibrators import fit_calibrator
from krisis.costs import Costs
from krisis.data.patient_record import PatientRecord, Records
from krisis.decisions.answers import with_costs
from krisis.decisions.certify import (
    CertifyOptions,
    certificate_from,
    certify_run,
    similar_patients,
    why_none,
)
from krisis.decisions.run_sample import ScoreOptions, drawing_seed
from krisis.decisions.sample import (
    Sample,
    chain_starts,
    chains_of,
    crc,
    divided,
    find_threshold,
    fixed_sequence,
    laxest_passed,
    ratio_interval,
    sgr,
)
from krisis.decisions.verify import (
    Promise,
    same_scores_p,
    verify_run,
)
from krisis.errors import InvalidFile, InvalidValue, UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems
from krisis.pages.certify import certificate_section, promise
from krisis.pages.document import Chart, Facts, Sentences
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result, read_items, source_of
from krisis.statistics.risk_tests import fewest_rows
from krisis.statistics.sample_size import assured_rows
from krisis.verbs.plan.study import Study, certificate_power, plan_certificate


def sample(losses: Sequence[float], scores: Sequence[float] | None = None, size: int = 1) -> Sample:
    """Return a sample of patients with so many rows each; scores fall unless they are given."""
    n = len(losses)
    score = np.linspace(1, 0.5, n) if scores is None else np.array(scores, dtype=float)
    patient = np.arange(n) // size
    return Sample(score, np.array(losses, float), patient, n // size, most_rows=size)


def brute_force(accepted: Sequence[int], errors: Sequence[int], a: float, d: float) -> int | None:
    """The procedure once more, written from its description with SciPy alone."""

    @cache
    def allowed(n: int, level: float) -> int:
        k = -1
        while k < n and special.bdtr(k + 1, n, a) <= level:
            k += 1
        return k

    def fewest(level: float) -> int:
        return next(n for n in range(1, 10_000) if (1 - a) ** n <= level)

    def first(n: int, level: float) -> int:
        return next(m for m in range(n + 1) if allowed(m, level) == allowed(n, level))

    def chain(start: int, stop: float, level: float) -> list[int]:
        kept, last = [], -1
        for j, n in enumerate(accepted):
            if start <= n < stop and allowed(n, level) > last:
                kept.append(j)
                last = allowed(n, level)
        return kept

    def passes(j: int, level: float) -> bool:
        return bool(special.bdtr(errors[j], accepted[j], a) <= level)

    def walk(steps: list[int], level: float) -> tuple[list[int], bool]:
        found = []
        for j in steps:
            if not passes(j, level):
                return found, False
            found.append(j)
        return found, True

    if passes(len(accepted) - 1, 0.2 * d):
        return len(accepted) - 1
    d -= 0.2 * d
    total, part = accepted[-1], math.ceil(35 * accepted[-1] / 100)
    if total < 4 * fewest(d):
        found, _ = walk(chain(first(max(fewest(d), part), d), math.inf, d), d)
        return max(found, default=None)
    second = first(max(2 * fewest(d), part), d)
    start = first(2 * fewest(0.3 * d), 0.3 * d)
    if start >= second:
        return max(walk(chain(second, math.inf, d), d)[0], default=None)
    later = chain(second, math.inf, 0.7 * d)
    early = chain(start, accepted[later[0]] if later else math.inf, 0.3 * d)
    one, whole = walk(early, 0.3 * d)
    two, _ = walk(later, d if whole else 0.7 * d)
    return max([*one, *two], default=None)


TABLES = st.lists(
    st.tuples(st.integers(1, 40), st.floats(0, 0.35)), min_size=1, max_size=14
).flatmap(lambda levels: st.tuples(st.just(levels), st.integers(0, 2**31)))


@given(table=TABLES, risk=st.sampled_from([0.1, 0.15, 0.3]), delta=st.sampled_from([0.05, 0.1]))
@settings(max_examples=40, deadline=None)
def test_the_chains_are_those_of_the_description(
    table: tuple[list[tuple[int, float]], int], risk: float, delta: float
) -> None:
    levels, seed = table
    generator = np.random.default_rng(seed)
    accepted = np.cumsum([n for n, _ in levels])
    errors = np.cumsum([generator.binomial(n, p / 2) for n, p in levels])
    found = fixed_sequence(
        accepted, lambda js: special.bdtr(errors[js], accepted[js], risk).tolist(), risk, delta
    )
    assert laxest_passed(found) == brute_force(accepted.tolist(), errors.tolist(), risk, delta)


def test_answering_everything_is_tested_first_and_28_right_answers_are_too_few() -> None:
    # A delta of 0.0625 leaves 0.05 for the chains: 0.9²⁹ = 0.047 ≤ 0.05 < 0.9²⁸
    assert find_threshold(sample([0] * 29), "fixed-sequence", 0.1, 0.0625).threshold == 0.5
    assert find_threshold(sample([0] * 28), "fixed-sequence", 0.1, 0.0625).threshold is None
    # At risk 0.15 and delta 0.1 everything is tested at 0.02, and p = 0.85²⁹ = 0.009.
    found = find_threshold(sample([0] * 29), "fixed-sequence", 0.15, 0.1)
    assert (found.tests[0].candidate + 1, found.tests[0].level) == (29, pytest.approx(0.02))
    assert [test.candidate + 1 for test in found.tests[1:]] == [16, 27]  # stricter ones too
    assert found.threshold == 0.5
    # With the last of 40 wrong it fails (p = 0.012 > 0.01), and the chain at 0.04 starts at 21.
    found = find_threshold(sample([0] * 39 + [1]), "fixed-sequence", 0.15, 0.05)
    assert [test.candidate + 1 for test in found.tests] == [40, 20, 32]
    assert found.tests[1].level == pytest.approx(0.04)


def test_the_starts_by_hand() -> None:
    # n_min(0.1) = 15, n_min(0.03) = 22 at risk 0.15. 59 < 60: one chain from J(⌈20.65⌉ = 21) = 15.
    assert chain_starts(59, 0.15, 0.1) == [(0.1, 15)]
    # 100: s₂ = J(35) = 34 as a(34) = a(35) = 2; s₁ = J(44, 0.03) ≥ 34: one chain at delta.
    assert chain_starts(100, 0.15, 0.1) == [(0.1, 34)]
    starts = chain_starts(1000, 0.15, 0.1)
    assert [level for level, _ in starts] == pytest.approx([0.03, 0.07])
    assert starts[0][1] <= 44 < starts[1][1] <= 350


def test_a_chain_has_the_candidate_at_its_start_and_the_first_ends_before_the_second() -> None:
    assert [c.candidates for c in chains_of(np.array([15, 59]), 0.15, 0.1)] == [[0, 1]]
    starts = [start for _, start in chain_starts(1000, 0.15, 0.1)]
    chains = chains_of(np.array([*starts, 1000]), 0.15, 0.1)
    assert [c.candidates for c in chains] == [[0], [1, 2]]


def test_a_plateau_is_one_candidate_and_chains_keep_what_allows_one_more_error() -> None:
    assert [c.candidates for c in chains_of(np.array([10, 40, 41, 60]), 0.15, 0.1)] == [[1, 3]]
    plateau = sample([0] * 30 + [1] * 30, [0.9] * 60)
    assert plateau.candidates.threshold.tolist() == [0.9]
    assert find_threshold(plateau, "fixed-sequence", 0.1, 0.1).threshold is None


def test_a_first_chain_that_passes_hands_its_level_on() -> None:
    accepted = np.array([60, 400])
    p_of = {0: 0.02, 1: 0.075}  # the chains share 0.08

    def chosen() -> int | None:
        tests = fixed_sequence(accepted, lambda js: map(p_of.__getitem__, js), 0.15, 0.1)
        return laxest_passed(tests)

    assert chosen() == 1
    p_of[0] = 0.04  # the first chain fails, so that the second is tested at 0.056
    assert chosen() is None
    p_of[1] = 0.05
    assert chosen() == 1


def test_bisection_by_hand() -> None:
    # A = 8 candidates: level 0.4/3 = 0.133; middles 3, 5, 6: 0.5⁴ = 0.0625, 0.5⁶, 0.5⁷ pass.
    accepted, none = np.arange(1, 9), np.zeros(8, dtype=np.int64)
    found = sgr(accepted, none, 0.5, 0.4)
    assert [test.candidate for test in found] == [3, 5, 6]
    assert laxest_passed(found) == 6
    assert all(test.level == pytest.approx(0.4 / 3) for test in found)


def test_conformal_risk_control_by_hand() -> None:
    # (Σ loss + 1)/(20 + 1) ≤ 0.15 ⇔ Σ loss ≤ 2.15
    assert crc(np.array([0.0, 1.0, 2.0, 3.0]), 20, 0.15) == 2
    assert crc(np.array([0.0]), 5, 0.15) is None
    # Two rows each: the means of the patients count, half a loss where one row of two is wrong.
    rows = sample([0, 0, 0, 1, 0, 0, 0, 1], size=2)
    assert find_threshold(rows, "crc", 0.5, 0.1).threshold == 0.5  # (1 + 1)/5 ≤ 0.5
    assert find_threshold(rows, "crc", 0.35, 0.1).threshold > 0.5  # (0.5 + 1)/5 ≤ 0.35


@given(
    losses=st.lists(st.integers(0, 1), min_size=1, max_size=120),
    place=st.integers(0, 119),
    method=st.sampled_from(["fixed-sequence", "crc"]),
)
@settings(max_examples=60, deadline=None)
def test_one_error_more_never_lowers_the_threshold(
    losses: list[int], place: int, method: str
) -> None:
    worse = list(losses)
    worse[place % len(worse)] = 1
    found = [find_threshold(sample(one), method, 0.2, 0.1).threshold for one in (losses, worse)]  # type: ignore[arg-type]
    strict = [math.inf if one is None else one for one in found]
    assert strict[1] >= strict[0]


def test_rows_without_a_score_are_deferred_and_counted() -> None:
    rows = sample([0] * 40 + [0] * 10, [*np.linspace(1, 0.6, 40), *[math.nan] * 10])
    assert rows.n_scored == 40
    assert rows.n_rows == 50
    assert rows.accepts(0.0).sum() == 40


def test_several_rows_per_patient_are_bet_on_or_drawn() -> None:
    # n_min(0.08) = 16: 80 patients are enough to bet on.
    few, many = sample([0] * 320, size=4), sample([0] * 340, size=4)
    drawn = find_threshold(few, "fixed-sequence", 0.15, 0.1).tested
    assert find_threshold(few, "fixed-sequence", 0.15, 0.1).test == "betting"
    assert find_threshold(many, "sgr", 0.15, 0.1).tested.n_rows == 85
    assert drawn is few
    fewer = find_threshold(sample([0] * 316, size=4), "fixed-sequence", 0.15, 0.1)
    assert fewer.test == "exact binomial"
    assert fewer.tested.n_rows == fewer.tested.n_patients == 79


def test_every_row_is_drawn_with_one_chance_whatever_the_size_of_its_patient() -> None:
    # Patients of 1 and of 4 rows: a pick among a patient's rows would favour the single rows.
    patient = np.array([0, 1, 1, 1, 1])
    rows = Sample(np.arange(5.0), np.zeros(5), patient, 2, most_rows=4)
    drawn = np.zeros(5)
    for seed in range(800):
        drawn[replace(rows, seed=seed).one_row_each().score.astype(int)] += 1
    assert drawn / 800 == pytest.approx(np.full(5, 0.25), abs=0.06)


def made_run(
    folder: Path,
    n: int = 300,
    *,
    name: str = "a",
    wrong: float = 0.04,
    size: int = 1,
    **fields: object,
) -> Path:
    """Write a run whose errors lie among its less confident answers."""
    generator = np.random.default_rng(len(name) + n)
    rows = []
    for i in range(n):
        score = round(0.99 - 0.5 * generator.random(), 4)
        error = bool(generator.random() < wrong * (1 + 6 * (0.99 - score)))
        metadata = {"sex": ("f", "m")[i % 2], "site": "big" if i % 20 else "small", "day": i}
        rows.append(
            EvaluationResult(
                int(error),
                0,
                confidence=score,
                metadata=metadata,
                record_id=f"{name}{i}",
                cluster_id=f"{name}-{i // size}",
            )
        )
    rows = [replace(row, **fields) for row in rows]
    path = folder / f"{name}.json"
    suite = {"suite": "ckd", "task": "detection", "features": "reduced"}
    made = BenchmarkResult(
        Rows(rows, ANSWERS), {}, suite, "openai/some-model", {"task_facts": TASK}
    )
    made.save(path)
    return path


def items(folder: Path, **settings: object) -> RunItems:
    return read_items(made_run(folder, **settings))  # type: ignore[arg-type]


def test_a_certificate_says_what_it_promises_and_is_read_back(tmp_path: Path) -> None:
    run = items(tmp_path, wrong=0.06)
    certificate = certify_run(run, CertifyOptions(risk=0.15))
    part = certificate.parts[0]
    assert certificate.threshold == part.threshold is not None
    accepted = [r for r in run.table.rows if r.confidence >= part.threshold]  # type: ignore[operator]
    assert part.n_accepted == len(accepted)
    assert part.loss_sum == sum(r.prediction for r in accepted)  # type: ignore[misc]
    assert part.coverage_low < part.coverage < part.coverage_high
    assert certificate.identity.model == "openai/some-model"
    words = certificate.document().sentences()
    assert promise(certificate) in words
    assert set(certificate.assumptions) <= set(words)
    stored = json.loads(dumps(certificate.to_json()))
    assert certificate_from(stored, place="c.json") == certificate
    again = certify_run(run, CertifyOptions(risk=0.15))
    assert dumps(again.to_json()) == dumps(certificate.to_json())


def test_what_is_drawn_is_fixed_by_the_cases_and_has_no_seed(tmp_path: Path) -> None:
    run = items(tmp_path)
    renamed = items(tmp_path, name="bb", n=299)
    (tmp_path / "others").mkdir()
    assert drawing_seed(run) != drawing_seed(renamed)
    # Other answers and confidences change nothing.
    others = items(tmp_path / "others", wrong=0.9)
    assert drawing_seed(others) == drawing_seed(run)
    # Where the run says what was shown, ids change nothing either.
    shown = [replace(one, source=replace(one.source, case_hash="ab")) for one in (run, renamed)]
    assert drawing_seed(shown[0]) == drawing_seed(shown[1])
    with pytest.raises(TypeError):
        CertifyOptions(risk=0.1, seed=7)  # type: ignore[call-arg]


def test_the_hash_of_the_cases_knows_neither_ids_nor_labels_nor_their_order() -> None:
    records = [PatientRecord({"age": i}, i % 2, {}, record_id=f"r{i}") for i in range(4)]
    other = [PatientRecord({"age": i}, 0, {}, record_id=f"x{i}") for i in (2, 0, 3, 1)]
    assert Records(records).case_hash == Records(other).case_hash
    other[0] = PatientRecord({"age": 9}, 0, {}, record_id="x2")
    assert Records(records).case_hash != Records(other).case_hash


@pytest.mark.parametrize("change", ["threshold", "risk", "check", "cut", "more", "kind"])
def test_an_edited_certificate_is_refused(tmp_path: Path, change: str) -> None:
    content = certify_run(items(tmp_path), CertifyOptions(risk=0.15)).to_json()
    if change == "cut":
        del content["parts"]
    else:
        content[change] = {"threshold": 0.1, "risk": 0.5, "check": "0", "more": 1, "kind": "x"}[
            change
        ]
    with pytest.raises(InvalidFile, match="certif"):
        certificate_from(json.loads(dumps(content)), place="c.json")


def test_groups_get_a_threshold_each_and_small_ones_are_named(tmp_path: Path) -> None:
    certificate = certify_run(items(tmp_path), CertifyOptions(risk=0.15, by=["sex", "site"]))
    assert {part.group for part in certificate.parts} == {
        "sex_f, site_big",
        "sex_f, site_small",
        "sex_m, site_big",
    }
    assert all(part.delta == pytest.approx(0.1 / 3) for part in certificate.parts)
    found = {part.group: part for part in certificate.parts}
    assert found["sex_f, site_small"].threshold is None
    assert "15 answers with a score are too few" in found["sex_f, site_small"].reason
    assert found["sex_m, site_big"].threshold is not None
    assert certificate.threshold is None


def test_none_names_the_size_that_would_do_or_says_that_none_does(tmp_path: Path) -> None:
    hopeful = certify_run(items(tmp_path, n=20, wrong=0), CertifyOptions(risk=0.1))
    n = assured_rows(0, 20, risk=0.1, level=0.056)
    words = f"with about {n:,.0f} similar patients you would have an 80 % chance of a certificate"
    assert words in hopeful.parts[0].reason
    hopeless = certify_run(items(tmp_path, name="bb", wrong=0.9), CertifyOptions(risk=0.05))
    assert "so no sample size helps" in hopeless.parts[0].reason


@pytest.mark.parametrize(("errors", "rows"), [(0, 20), (5, 100), (20, 300)])
def test_the_assured_size_is_that_of_exact_binomials(errors: int, rows: int) -> None:
    n = int(assured_rows(errors, rows, risk=0.1, level=0.056))
    allowed = np.flatnonzero(stats.binom.cdf(np.arange(n), n, 0.1) <= 0.056).max(initial=-1)
    risks = np.random.default_rng(1).beta(errors + 1, rows - errors + 1, 20_000)
    assert stats.binom.cdf(allowed, n, risks).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("n_wrong", "told"), [(5, True), (10, False)])
def test_the_size_named_counts_the_answers_above_the_threshold_alone(
    tmp_path: Path, n_wrong: int, told: bool
) -> None:
    """120 of 600 patients reach the threshold: five times as many are needed.

    5 of them wrong are 4.2 %, not yet shown to be below 5.5 %; of 10 wrong nothing is known.
    """
    rows = [
        EvaluationResult(
            int(i < n_wrong if i < 120 else i % 5 < 2),
            0,
            confidence=0.9 if i < 120 else 0.5,
            record_id=f"r{i}",
        )
        for i in range(600)
    ]
    suite = {"suite": "ckd", "task": "detection", "features": "reduced"}
    made = BenchmarkResult(Rows(rows, ANSWERS), {}, suite, "m", {"task_facts": TASK})
    made.save(tmp_path / "a.json")
    risk = 0.075 if told else 0.1
    reason = certify_run(read_items(tmp_path / "a.json"), CertifyOptions(risk=risk)).parts[0].reason
    assert "% of the 120 most confident answers are wrong" in reason
    n = 5 * assured_rows(n_wrong, 120, risk=risk, level=0.056)
    assert (f"with about {n:,.0f} similar patients" in reason) == told
    assert ("how many would be enough cannot be told" in reason) == (not told)
    assert math.isnan(n) or n > 600  # these patients did not certify: fewer cannot be enough


@pytest.mark.parametrize(
    ("n_wrong", "risk", "said", "helps"),
    [
        (2, 0.1, "but they are too few to show a risk of at most 0.1", True),
        (5, 0.1, "and the bound is 0.1", False),  # 5 of 50: just the bound
        (20, 0.1, "and the bound is 0.1, so no sample size helps", False),
    ],
)
def test_why_no_threshold_is_certified(n_wrong: int, risk: float, said: str, helps: bool) -> None:
    one_score = sample([1.0] * n_wrong + [0.0] * (50 - n_wrong), [0.9] * 50)
    found = find_threshold(one_score, "fixed-sequence", risk, 0.1)
    assert why_none(found) == (f"{2 * n_wrong} % of all 50 answers are wrong, {said}", helps)


@pytest.mark.parametrize("size", [1, 4])
def test_too_few_answers_are_compared_with_what_it_takes(size: int) -> None:
    """12 answers of 1,000 patients; where one can have four, four times as many are needed."""
    n = 12
    answers = [0.0] * n + [math.nan] * (1000 * size - n)
    few = sample(answers, (np.array(answers) + 0.9).tolist(), size)
    words, helps = why_none(find_threshold(few, "fixed-sequence", 0.1, 0.1))
    fewest = size * fewest_rows(0.1, divided(0.1)[1])
    assert words.startswith(
        f"{n} answers with a score are too few: without a single error it takes {fewest}, "
    )
    assert helps


def test_of_losses_in_between_no_size_is_named() -> None:
    between = replace(sample([0.5] + [0.0] * 49, [0.9] * 50), binary=False)
    found = find_threshold(between, "fixed-sequence", 0.06, 0.1)
    assert found.threshold is None
    assert math.isfinite(assured_rows(0.5, 50, risk=0.06, level=0.056))
    assert math.isnan(similar_patients(between, found))


def test_sgr_is_for_wrong_answers_alone(tmp_path: Path) -> None:
    run = items(tmp_path)
    assert certify_run(run, CertifyOptions(risk=0.2, method="sgr")).threshold is not None
    with pytest.raises(InvalidValue, match="sgr is for the loss 'error', not 'cost'"):
        CertifyOptions(risk=0.2, method="sgr", score=ScoreOptions(loss="cost"))


@pytest.mark.parametrize(
    ("suite", "declared", "said"),
    [
        ("ckd", None, "the most that was seen: declare it with --rows-per-patient"),
        ("ckd", 5, "as declared"),
        ("phq8", None, "as in the suite"),
        ("phq8", 5, "as declared"),
    ],
)
def test_a_certificate_says_who_told_how_many_rows_a_patient_has(
    tmp_path: Path, suite: str, declared: int | None, said: str
) -> None:
    found = items(tmp_path, size=4)
    run = replace(found, source=replace(found.source, suite=suite))
    options = CertifyOptions(risk=0.2, score=ScoreOptions(rows_per_patient=declared))
    (sentence,) = [one for one in certify_run(run, options).assumptions if "none has more" in one]
    assert f"({said})" in sentence


_ASSUMED = {
    "missing": "rows that were not evaluated",
    "one row": "Every patient has one",
    "several rows": "none has more than 4 rows",
    "mean": "Every patient counts once",
    "drawn": "One row per patient was tested",
    "monotone": "The risk never falls",
    "divided": "Delta is divided by 2",
}


@pytest.mark.parametrize(
    ("size", "n", "options", "assumed"),
    [
        (1, 300, {}, ["one row"]),
        (1, 300, {"method": "sgr"}, ["one row", "monotone"]),
        (1, 300, {"by": ["sex"]}, ["one row", "divided"]),
        (4, 100, {}, ["several rows", "drawn"]),
        (4, 300, {"method": "crc"}, ["several rows", "mean"]),
        (4, 300, {}, ["several rows"]),  # enough patients to bet on the sums of all their rows
    ],
)
def test_a_certificate_states_what_it_rests_on_and_nothing_else(
    tmp_path: Path, size: int, n: int, options: dict[str, Any], assumed: list[str]
) -> None:
    certificate = certify_run(items(tmp_path, n=n, size=size), CertifyOptions(risk=0.2, **options))
    text = " ".join(certificate.assumptions)
    assert [name for name, words in _ASSUMED.items() if words in text] == assumed


def test_a_certificate_states_that_missing_rows_are_assumed_to_be_like_the_others() -> None:
    rows = [EvaluationResult(0, 0, confidence=0.9, record_id=f"r{i}") for i in range(99)]
    rows += [EvaluationResult(None, 0, error="lost", record_id="x")]
    suite = {"suite": "ckd", "task": "detection", "features": "reduced"}
    result = BenchmarkResult(Rows(rows, ANSWERS), {}, suite, "m", {"task_facts": TASK})
    run = items_of_result(result, source_of(result))
    assumed = certify_run(run, CertifyOptions(risk=0.2)).assumptions
    assert any(one.startswith("The 1 rows that were not evaluated") for one in assumed)


def test_losses_in_between_use_hoeffding_and_bentkus(tmp_path: Path) -> None:
    run = with_costs(items(tmp_path), Costs({0: {1: 1}, 1: {0: 4}}, price=0.8))
    options = CertifyOptions(risk=0.15, score=ScoreOptions(loss="cost"))
    certificate = certify_run(run, options)
    assert (certificate.costs, certificate.price) == ([(0, 1, 0.25), (1, 0, 1.0)], 0.2)
    plain = certify_run(items(tmp_path, name="aa"), CertifyOptions(risk=0.15))
    assert certificate.parts[0].test == "Hoeffding–Bentkus"
    assert certificate.parts[0].loss_sum * 4 == pytest.approx(
        round(certificate.parts[0].loss_sum * 4)
    )
    assert plain.parts[0].test == "exact binomial"
    assert "the mean cost among future answered cases is at most 0.15" in promise(certificate)
    part = certificate.parts[0]
    exact = stats.binomtest(part.n_accepted, part.n_rows).proportion_ci(0.95, "exact")
    assert (part.coverage_low, part.coverage_high) == pytest.approx(tuple(exact))
    stored = certificate_from(json.loads(dumps(certificate.to_json())), place="c")
    assert verify_run(stored, items(tmp_path, name="new")).verdict == "held"


def test_a_certificate_is_verified_on_new_patients(tmp_path: Path) -> None:
    certificate = certify_run(items(tmp_path, n=600), CertifyOptions(risk=0.15))
    fresh = verify_run(certificate, items(tmp_path, name="new", n=600), time="day")
    assert fresh.verdict == "held"
    part = fresh.parts[0]
    exact = stats.binomtest(round(part.loss_sum), part.n_accepted).proportion_ci(0.95, "exact")
    assert (part.risk_interval.low, part.risk_interval.high) == pytest.approx(tuple(exact))
    assert fresh.p_scores > 0.01
    assert fresh.p_time is not None
    assert verify_run(certificate, items(tmp_path, name="bad", wrong=0.5)).verdict == "broken"
    assert verify_run(certificate, items(tmp_path, name="short", n=30)).verdict == "cannot tell"


def test_several_rows_per_patient_are_certified_and_verified(tmp_path: Path) -> None:
    run = items(tmp_path, n=800, size=4)
    certificate = certify_run(run, CertifyOptions(risk=0.2))
    assert certificate.parts[0].test == "betting"
    assert certificate.rows_per_patient == 4
    fresh = verify_run(certificate, items(tmp_path, name="new", n=800, size=4))
    assert fresh.verdict == "held"
    assert fresh.parts[0].risk_interval.method == "betting"
    declared = ScoreOptions(rows_per_patient=3)
    with pytest.raises(InvalidValue, match="has 4 rows and at most 3"):
        certify_run(run, CertifyOptions(risk=0.2, score=declared))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "are those that the certificate was made on"),
        ({"model": "other"}, "of the model"),
        ({"suite": "other"}, "of the suite"),
        ({"task": "staging"}, "of the task"),
    ],
)
def test_another_run_is_refused_by_name(tmp_path: Path, fields: dict[str, str], said: str) -> None:
    run = items(tmp_path)
    certificate = certify_run(run, CertifyOptions(risk=0.15))
    other = replace(run, source=replace(run.source, **fields))
    with pytest.raises(InvalidValue, match=said):
        verify_run(certificate, other)


def test_the_variant_and_the_calibrator_belong_to_the_certificate(tmp_path: Path) -> None:
    run, fresh = items(tmp_path), items(tmp_path, name="new")
    calibrator = fit_calibrator(
        items(tmp_path, name="fit"), ["stated_confidence"], method="isotonic"
    )
    with pytest.raises(InvalidValue, match="confidence variant"):
        verify_run(certify_run(run, CertifyOptions(risk=0.15)), fresh, confidence="llm")
    score = ScoreOptions(calibrator=calibrator)
    certificate = certify_run(run, CertifyOptions(risk=0.15, score=score))
    assert certificate.confidence == "calibrated"
    with pytest.raises(InvalidValue, match="calibrator"):
        verify_run(certificate, fresh)
    assert verify_run(certificate, fresh, calibrator=calibrator).parts[0].n_accepted > 0
    with pytest.raises(InvalidValue, match="voids the guarantee"):
        certify_run(
            items(tmp_path, name="fi2"),
            CertifyOptions(
                risk=0.15,
                score=ScoreOptions(
                    calibrator=fit_calibrator(
                        read_items(tmp_path / "fi2.json"), ["stated_confidence"]
                    ),
                ),
            ),
        )


def test_scores_of_other_patients_are_told_apart() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.random(150), generator.random(120)
    assert same_scores_p(first.tolist(), second.tolist(), 1) > 0.05
    assert same_scores_p(first.tolist(), (second * 0.7).tolist(), 1) < 0.01
    assert same_scores_p(first.tolist(), [*second[:60], *[None] * 60], 1) < 0.01
    assert (
        same_scores_p([0.8] * 400, [0.8] * 400, 1) == 1
    )  # sums of 1/400 are not 0 but for rounding


def test_the_limits_of_a_risk_mirror_those_of_its_complement() -> None:
    rows = sample([1, 0, 0, 0] * 10 + [0] * 80, size=4)
    wrong, everyone = rows.loss == 1, np.ones(rows.n_rows, dtype=np.bool_)
    risk, right = (ratio_interval(rows, hits, everyone) for hits in (wrong, ~wrong))
    assert (risk.low, risk.high) == pytest.approx((1 - right.high, 1 - right.low))
    assert risk.low < 10 / 120 < risk.high < 0.5


def test_crc_is_verified_on_the_means_of_patients() -> None:
    # Two patients lose 1 of 1 and 0 of 3 rows: (1 + 0)/2, where 1 of 4 rows is lost.
    rows = Sample(np.ones(4), np.array([1.0, 0, 0, 0]), np.array([0, 1, 1, 1]), 2, most_rows=3)
    people, lost, among = Promise(0.5, 0.1, whole=True).losses(rows)
    assert sorted(lost.tolist()) == [0, 1]
    assert (people.n_rows, people.clustered, int(among.sum())) == (2, False, 2)


def test_a_group_without_new_rows_is_told(tmp_path: Path) -> None:
    certificate = certify_run(items(tmp_path), CertifyOptions(risk=0.2, by=["sex"]))
    new = items(tmp_path, name="new", metadata={"sex": "f"})
    verdict = verify_run(certificate, new).document().verdict
    assert verdict is not None
    assert verdict.line("sex_m").answer == "cannot tell"
    assert verdict.line("sex_m").reason == "the run has no case of this group"


def test_rows_of_one_patient_ask_for_more_patients() -> None:
    """200 patients with 4 rows, 10 wrong in all four: a design effect of 4, as 200 rows."""
    wrong = np.repeat(np.arange(200) < 10, 4).astype(np.float64)
    clustered = Sample(np.full(800, 0.9), wrong, np.repeat(np.arange(200), 4), 200, most_rows=4)
    found = find_threshold(clustered, "fixed-sequence", 0.08, 0.1)
    assert found.threshold is None
    expected = assured_rows(10, 200, risk=0.08, level=0.056)
    assert similar_patients(clustered, found) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("n", [100, 300])
def test_the_size_named_gives_a_certificate_as_often_as_it_says(n: int) -> None:
    """Of runs without a certificate, new ones of the size named have one in 80 % or more."""
    world, generator = WORLDS[0], np.random.default_rng(n)
    sizes = []
    for number in range(60):
        drawn = simulated(*world.draw(generator, (n, 1), 0.0), number)
        found = find_threshold(drawn, "fixed-sequence", RISK, DELTA)
        size = similar_patients(drawn, found) if found.threshold is None else math.nan
        sizes += [] if math.isnan(size) else [min(int(size), 3000)]
    assert len(sizes) >= 5
    assert min(sizes) > n
    certified = 0
    for number, size in enumerate(sizes):
        again = simulated(*world.draw(generator, (size, 1), 0.0), number)
        certified += find_threshold(again, "fixed-sequence", RISK, DELTA).threshold is not None
    assert certified / len(sizes) >= 0.8


@pytest.mark.parametrize(("true", "verdict"), [(0.05, "held"), (0.2, "broken")])
def test_the_patients_named_by_a_check_that_cannot_tell_tell(true: float, verdict: str) -> None:
    """Of checks that cannot tell, new ones with as many patients as named tell in 80 % or more."""
    generator, promise = np.random.default_rng(7), Promise(0.5, 0.1)

    def drawn(n: int) -> Sample:
        # A fifth of the patients are below the threshold, and always wrong.
        score, wrong = generator.random(n) + 0.375, generator.random(n) < true
        return sample((wrong | (score < 0.5)).astype(float), score.tolist())

    checked = [drawn(80) for _ in range(40)]
    found = [promise.n_to_tell(one) for one in checked if promise.judged(one)[0] == "cannot tell"]
    sizes = [n for n in found if n is not None]
    assert len(sizes) >= 8
    assert min(sizes) > 80
    assert np.median(sizes) < 2000
    told = [promise.judged(drawn(n))[0] for n in sizes]
    assert told.count(verdict) / len(told) >= 0.8


def test_the_patients_that_would_tell_are_those_of_the_test_at_half_the_level() -> None:
    # 60 of 80 are accepted: 3 of them wrong against 0.1, and 12 wrong, or 48 right against 0.9.
    for wrong, right_side in ((3, False), (12, True)):
        losses = np.array([1] * wrong + [0] * (60 - wrong) + [1] * 20, dtype=float)
        rows = sample(losses.tolist(), [0.9] * 60 + [0.1] * 20)
        errors, risk = (60 - wrong, 0.9) if right_side else (wrong, 0.1)
        needed = assured_rows(errors, 60, risk=risk, level=0.025) * 80 / 60
        expected = None if math.isnan(needed) else math.ceil(needed)
        assert Promise(0.5, 0.1).n_to_tell(rows) == expected


def test_one_row_of_every_patient_names_patients_not_rows() -> None:
    # Rows 1 to 4 of half of the patients and row 1 of the others: a row drawn meets 5/8 of them.
    patient = np.repeat(np.arange(20), np.where(np.arange(20) % 2, 4, 1))
    rows = Sample(np.ones(50), np.zeros(50), patient, 20, most_rows=4)
    promise = Promise(0.5, 0.2)
    tested = promise.tested(rows)
    assert tested.n_rows == tested.n_patients < 20
    needed = assured_rows(0, tested.n_rows, risk=0.2, level=0.025)
    assert promise.n_to_tell(rows) == math.ceil(needed * 20 / tested.n_patients) > 20


def test_a_check_that_cannot_tell_names_a_number_and_one_that_tells_none(tmp_path: Path) -> None:
    certificate = certify_run(items(tmp_path, wrong=0.06), CertifyOptions(risk=0.15))
    assert verify_run(certificate, items(tmp_path, name="long", wrong=0)).parts[0].n_to_tell is None
    found = verify_run(certificate, items(tmp_path, name="short", n=30, wrong=0.06))
    assert found.verdict == "cannot tell"
    (part,) = found.parts
    assert part.n_to_tell is not None
    assert part.n_to_tell > part.n_patients
    assert f"about {part.n_to_tell:,} similar patients" in " ".join(str(found).split())
    assert found.to_json()["parts"][0]["n_to_tell"] == part.n_to_tell


@pytest.mark.parametrize(("expected", "n"), [(0.0, 60), (0.02, 400), (0.02, 900), (0.04, 1500)])
def test_the_planned_power_is_that_of_the_procedure(expected: float, n: int) -> None:
    generator = np.random.default_rng(n)
    n_runs = 200
    runs = (sample((generator.random(n) < expected).astype(float)) for _ in range(n_runs))
    seen = sum(find_threshold(r, "fixed-sequence", 0.05, 0.1).threshold is not None for r in runs)
    power = certificate_power(n, 0.05, 0.1, expected)
    spread = math.sqrt(power * (1 - power) / n_runs)
    assert abs(seen / n_runs - power) <= 3.5 * spread + 1e-9


def test_the_planned_size_is_sustained() -> None:
    n = plan_certificate(
        Study(n_simulations=1), risk=0.1, delta=0.1, expected_risk=0.04
    ).formula_n_patients
    assert n is not None
    assert certificate_power(n - 1, 0.1, 0.1, 0.04) < 0.8
    assert min(certificate_power(m, 0.1, 0.1, 0.04) for m in range(n, 3 * n)) >= 0.8
    with pytest.raises(InvalidValue, match="no size helps"):
        plan_certificate(Study(), risk=0.1, delta=0.1, expected_risk=0.1)


def test_groups_are_verified_at_a_level_that_holds_for_all_of_them(tmp_path: Path) -> None:
    certificate = certify_run(items(tmp_path, n=800), CertifyOptions(risk=0.2, by=["sex"]))
    parts = verify_run(certificate, items(tmp_path, name="new", n=800)).parts
    assert len(parts) == 2
    for part in parts:
        assert part.risk_interval.level == pytest.approx(1 - 0.05 / 2)
        exact = stats.binomtest(round(part.loss_sum), part.n_accepted).proportion_ci(0.975)
        assert part.risk_interval.high == pytest.approx(exact.high)


def test_a_risk_above_the_bound_by_chance_breaks_nothing() -> None:
    # 4 of 20 wrong against a bound of 0.1: the interval, 0.06 to 0.44, holds the bound.
    promise = Promise(0.5, 0.1)
    assert promise.judged(sample([1] * 4 + [0] * 16))[0] == "cannot tell"
    assert promise.judged(sample([1] * 10 + [0] * 10))[0] == "broken"
    assert promise.judged(sample([0] * 60))[0] == "held"


def test_crc_is_verified_per_case_and_others_per_answer(tmp_path: Path) -> None:
    run, new = items(tmp_path), items(tmp_path, name="new")
    crc_part = verify_run(certify_run(run, CertifyOptions(risk=0.1, method="crc")), new).parts[0]
    assert 0 < crc_part.n_accepted < crc_part.n_rows
    assert crc_part.risk == pytest.approx(crc_part.loss_sum / crc_part.n_rows)
    part = verify_run(certify_run(run, CertifyOptions(risk=0.2)), new).parts[0]
    assert part.risk == pytest.approx(part.loss_sum / part.n_accepted)
    assert part.coverage == pytest.approx(part.n_accepted / part.n_rows)


def test_a_report_shows_the_certificate_on_the_curve(tmp_path: Path) -> None:
    run = items(tmp_path)
    certificate = certify_run(run, CertifyOptions(risk=0.15))
    section = certificate_section(certificate, run)
    promise, *assumed = (part for part in section.parts if isinstance(part, Sentences))
    assert list(promise.lines) == list(certificate.document().lead)
    assert [part.lines[0] for part in assumed] == ["Assumptions:"]  # and nothing is verified
    (chart,) = (part for part in section.parts if isinstance(part, Chart))
    figure = chart.draw()
    shown = [p["threshold"] for p in figure.table if p["certified"]]
    assert shown == [certificate.threshold]
    assert figure.title.startswith("Certified at a risk of 15 %: ")
    fresh = items(tmp_path, name="new")
    parts = list(certificate_section(certificate, fresh).parts)
    at = parts.index(Sentences(["On the patients of this run:"]))
    promised, held = parts[at + 1 : at + 3]
    assert isinstance(promised, Sentences)
    assert promised.lines[0].startswith("Promised: With a")
    answer = {"held": "yes", "broken": "no"}.get(
        verify_run(certificate, fresh).verdict, "cannot tell"
    )
    assert isinstance(held, Facts)
    assert held.pairs[0][0] == "Held?"
    assert held.pairs[0][1].startswith(f"{answer}: risk")


def invoke(*arguments: object, command: str = "certify") -> tuple[int, str]:
    result = CliRunner().invoke(app, [command, *map(str, arguments)])
    if isinstance(result.exception, UserError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def test_the_command_certifies_and_verifies(tmp_path: Path) -> None:
    run, fresh = made_run(tmp_path), made_run(tmp_path, name="new")
    bad, path = made_run(tmp_path, name="bad", wrong=0.5), tmp_path / "certificate.json"
    code, text = invoke(run, "--risk", 0.15, "-o", path)
    assert code == 0
    assert "answer where the stated confidence is" in text
    assert json.loads(path.read_text(encoding="utf-8"))["kind"] == "krisis.certificate"
    assert invoke(path, fresh, command="verify")[0] == 0
    code, text = invoke(bad, "--risk", 0.05)
    assert (code, "no threshold: " in text) == (1, True)
    assert invoke(run, "--risk", 0.15, "--seed", 7)[0] == 2
    code, text = invoke(path, bad, "--format", "json", command="verify")
    assert (code, json.loads(text)["verdict"]) == (1, "broken")
    code, text = invoke(tmp_path / "x.json", fresh, command="verify")
    assert code == 2
    assert "x.json does not exist" in text
    code, text = invoke(run, "--risk", 0.15, "-o", path)
    assert code == 2
    assert "exists already" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--risk", 0], "risk must be between 0 and 1"),
        (["--risk", 1], "risk must be between 0 and 1"),
        (["--risk", "nan"], "risk must be between 0 and 1"),
        (["--risk", "1e-12"], "choose 1e-06 or more"),
        (["--risk", 0.1, "--delta", 1.5], "delta must be between 0 and 1"),
        (["--risk", 0.1, "--method", "magic"], "unknown method 'magic'"),
        (["--risk", 0.1, "--method", "crc", "--delta", 0.1], "--delta does not apply"),
        (["--risk", 0.1, "--method", "crc", "--by", "sex"], "no delta to divide"),
        (["--risk", 0.1, "--by", "sect"], "did you mean 'sex'"),
        (["--risk", 0.1, "--by", "sex,sex"], "name every group once"),
        (["--risk", 0.1, "--loss", "abs"], "unknown loss 'abs'"),
        (["--risk", 0.1, "--loss", "abs_norm"], "unknown loss 'abs_norm'"),
        (["--risk", 0.1, "--costs", "none.yaml"], "add --loss cost, or omit --costs"),
        (["--risk", 0.1, "--price", 1], "must be above 0 and below 1"),
        (["--risk", 0.1, "--confidence", "verbalized"], "verbalized_confidence is missing"),
        ([], "add for instance --risk 0.05"),
        (
            ["--risk", 0.1, "--loss", "cost", "--costs", "none.yaml"],
            "none.yaml does not exist; check --costs",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, options: list[object], said: str) -> None:
    code, text = invoke(made_run(tmp_path), *options)
    assert code == 2
    assert said in text
    assert "\n" not in text.strip()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"confidence": None}, "no answer has the signal stated_confidence"),
        ({"abstained": True, "prediction": None}, "answered none of the 300 rows"),
        ({"error": "no answer"}, "300 of 300 cases (100 %) were not evaluated"),
        ({"error": "cut off", "failure_class": "malformed_reply"}, "answered none of the 300"),
    ],
)
def test_a_run_without_answers_or_confidence_is_refused(
    tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    code, text = invoke(made_run(tmp_path, **fields), "--risk", 0.1)
    assert code == 2
    assert said in text


@pytest.mark.parametrize(
    "text",
    [
        "costs: {0: {1: -1}, 1: {0: 1}}\nprice: 0.1",
        "costs: {0: {1: 0}, 1: {0: 0}}\nprice: 0.1",
        "costs: {0: {1: x}, 1: {0: 1}}\nprice: 0.1",
        "costs: {0: {1: 1}, 1: {0: 1}}",
        "costs: 3\nprice: 0.1",
        "[1]",
        ": :",
    ],
)
def test_a_cost_table_without_costs_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(text, encoding="utf-8")
    asked = ("--risk", 0.1, "--loss", "cost", "--costs", path)
    code, said = invoke(made_run(tmp_path), *asked)
    assert code == 2
    assert "costs.yaml" in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "costs: {0: {1: 1}, 1: {0: 1}, 7: {0: 1}}\nprice: 0.1",
            "unknown answer in the costs: '7'",
        ),
        ("costs: {0: {1: 1}}\nprice: 0.1", "nothing of the answer 0 where 1 is right"),
        ("costs: {0: {1: 1}, 1: {0: 4}}\nprice: 4", "below 4, the costliest error"),
    ],
)
def test_costs_that_do_not_fit_the_answers_are_refused(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(text, encoding="utf-8")
    asked = ("--risk", 0.1, "--loss", "cost", "--costs", path)
    code, said = invoke(made_run(tmp_path), *asked)
    assert (code, sentence in said) == (2, True)
    assert "\n" not in said.strip()
