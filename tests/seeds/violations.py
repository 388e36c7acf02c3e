"""Violations of the seeds, planted one at a time; each names the check that must catch it."""

from __future__ import annotations

import inspect
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seeds import checks, shapes

import krisis.metrics
import krisis.selective_prediction as sp
from krisis import benchmark
from krisis.backends import prompt
from krisis.benchmark import Benchmark
from krisis.confidence import models, signals, variants
from krisis.data.ckd import courses, deferral, egfr, imputation, records, uci
from krisis.data.ckd import suite as kidney
from krisis.data.phq8 import run_file
from krisis.execution import callers
from krisis.execution.engine import Engine, StoragePolicy
from krisis.metrics import abstention, accuracy, calibration, labels, repeats, risk_coverage
from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import MeanOfShares, Share
from krisis.metrics.table import NO_LABEL, Table
from krisis.results import account
from krisis.results.result import BenchmarkResult
from krisis.statistics import bootstrap, logistic
from krisis.verbs.selective import artifact, evaluation

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch, Path], None]


@dataclass(frozen=True)
class Violation:
    """What is violated, the check that must catch it, and how it is planted."""

    words: str
    caught_by: str
    plant: Plant


VIOLATIONS: list[Violation] = []


def violates(check: Callable[..., None], words: str) -> Callable[[Plant], Plant]:
    """Add a violation that this check must catch."""

    def add(plant: Plant) -> Plant:
        VIOLATIONS.append(Violation(words, check.__name__.replace("_", " "), plant))
        return plant

    return add


def instead(check: Callable[..., None], words: str, owner: Any, name: str, new: Any) -> None:
    """Add a violation that is one attribute replaced by another."""

    def plant(patch: Patch, folder: Path) -> None:
        patch.setattr(owner, name, new)

    violates(check, words)(plant)


def wrapped(
    check: Callable[..., None], words: str, owner: Any, name: str, change: Callable[[Any], Any]
) -> None:
    """Add a violation that changes what a function returns."""
    original = getattr(owner, name)

    def new(*arguments: Any, **options: Any) -> Any:
        return change(original(*arguments, **options))

    instead(check, words, owner, name, new)


def option(check: Callable[..., None], words: str, owner: Any, name: str, **changed: Any) -> None:
    """Add a violation that calls a function with other options."""
    original = getattr(owner, name)

    def new(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, **changed})

    instead(check, words, owner, name, new)


# Metrics -----------------------------------------------------------------------------------------

EIGHT = checks.the_eight_metrics
instead(
    EIGHT,
    "accuracy leaves abstentions out",
    accuracy.Accuracy,
    "form",
    lambda self, table: Share(table.correct, among=table.answered),
)
instead(
    EIGHT,
    "an abstained row with the right prediction is right",
    Table,
    "correct",
    property(lambda self: self.prediction == self.truth),
)
instead(
    EIGHT,
    "balanced accuracy is the best recall",
    MeanOfShares,
    "value",
    lambda self: max(self.shares.values()),
)
instead(
    EIGHT,
    "an answer without a prediction is left out of selective accuracy",
    abstention.SelectiveAccuracy,
    "form",
    lambda self, table: Share(table.correct, among=table.answered & (table.prediction != NO_LABEL)),
)
instead(
    EIGHT,
    "abstention rate counts the answered",
    abstention.AbstentionRate,
    "hits",
    "answered",
)
instead(
    EIGHT,
    "answer rate counts the abstained",
    abstention.AnswerRate,
    "hits",
    "abstained",
)
instead(EIGHT, "breakdown by sex", labels, "_DEFAULT_GROUPS", {"stage": "sex"})
instead(
    EIGHT,
    "bin edges wrong",
    calibration,
    "confidence_bin",
    lambda confidence, n: np.minimum(np.ceil(confidence * n).astype(np.int64), n - 1),
)
wrapped(
    EIGHT,
    "the limits of the bins are shifted",
    calibration.ExpectedCalibrationError,
    "_bins",
    lambda bins: [{**one, "low": one["high"]} for one in bins],
)
instead(
    EIGHT,
    "bins are not weighted",
    calibration.GapSum,
    "value",
    lambda self: float(
        np.mean(
            np.abs(np.bincount(self.index, self.hits - self.confidence)) / np.bincount(self.index)
        )
    ),
)
instead(
    EIGHT,
    "the Brier score takes confidence for the probability of 1",
    calibration,
    "squared_errors",
    lambda table: np.square(
        table.confidence - np.array([label == 1 for label in table.labels])[table.truth]
    ),
)
instead(
    EIGHT,
    "stages and courses have a Brier score",
    calibration,
    "squared_errors",
    lambda table: np.square(np.where(table.correct, 1 - table.confidence, table.confidence)),
)
instead(
    EIGHT,
    "two of the four cases of deferral are swapped",
    abstention.DeferralAlignment,
    "details",
    lambda self, table, form, of=abstention.DeferralAlignment.details: _swapped_cases(
        of(self, table, form)
    ),
)
wrapped(
    EIGHT,
    "a metric does not count the abstained",
    BaseMetric,
    "scored",
    lambda found: (replace(found[0], n_abstained=0), found[1]),
)
wrapped(
    EIGHT,
    "an undefined metric gives no reason",
    BaseMetric,
    "scored",
    lambda found: (replace(found[0], details={**found[0].details, "reason": ""}), found[1]),
)
wrapped(
    EIGHT,
    "the stack begins with another metric",
    krisis.metrics,
    "default_benchmark_metrics",
    lambda found: [*found[1:], found[0]],
)
wrapped(
    EIGHT,
    "the stack has a ninth metric",
    krisis.metrics,
    "default_benchmark_metrics",
    lambda found: [*found, abstention.NoAnswerRate()],
)
instead(
    EIGHT,
    "calling a metric is not computing it",
    BaseMetric,
    "__call__",
    lambda self, rows, **options: replace(self.compute(rows), value=0.5),
)
instead(
    checks.accuracy_with_neutral_abstentions,
    "neutral abstentions count",
    accuracy.Accuracy,
    "form",
    lambda self, table: Share(table.correct, among=table.everyone),
)
wrapped(
    checks.the_bundles,
    "no Brier score among the metrics of calibration",
    krisis.metrics,
    "default_calibration_metrics",
    lambda found: found[:1],
)


def _swapped_cases(details: Any) -> Any:
    cells = details["confusion"]
    one, two = "abstain_when_should_answer", "answer_when_should_defer"
    return {**details, "confusion": {**cells, one: cells[two], two: cells[one]}}


# The kidney suite --------------------------------------------------------------------------------

FILE, SYNTHETIC = checks.the_records_of_a_file, checks.the_synthetic_records
EQUATION, COURSES = checks.the_equation_and_the_stages, checks.the_courses

instead(EQUATION, "men's constants for women", egfr, "_FEMALE", egfr._MALE)
instead(FILE, "men's constants for women, in records", egfr, "_FEMALE", egfr._MALE)
instead(EQUATION, "the exponent above the knee is another", egfr, "_EXPONENT_ABOVE", -1.209)
instead(EQUATION, "stage 2 begins at 59", egfr, "CATEGORY_LIMITS", (15.0, 30.0, 45.0, 59.0, 90.0))
for _check in (FILE, SYNTHETIC):
    wrapped(
        _check,
        "no conflict marked",
        records,
        "seed_flags",
        lambda found: {**found, "label_conflicts_with_stage": False},
    )
    wrapped(
        _check,
        "no threshold marked",
        records,
        "seed_flags",
        lambda found: {**found, "near_threshold": False},
    )
    instead(
        _check,
        "margin × 10",
        records,
        "seed_flags",
        lambda features, task, has_ckd, margin, of=deferral.seed_flags, **options: of(
            features, task, has_ckd, 10 * margin, **options
        ),
    )
    instead(_check, "45 is a limit", kidney, "STAGE_LIMITS", (15.0, 30.0, 45.0, 60.0, 90.0))
    wrapped(_check, "egfr None", records, "_estimate_fields", lambda found: {**found, "egfr": None})
    wrapped(
        _check,
        "stage always 3",
        records,
        "_estimate_fields",
        lambda found: {**found, "ckd_stage": 3},
    )
    wrapped(
        _check,
        "nothing is to be deferred",
        records.RecordMaker,
        "_due",
        lambda found: {**found, "should_abstain": False},
    )
wrapped(
    checks.every_row_has_its_estimate,
    "egfr None outside the preset",
    records,
    "_estimate_fields",
    lambda found: {**found, "egfr": None},
)
instead(FILE, "children have an estimate", deferral, "ADULT_AGE_YEARS", 0)
wrapped(
    FILE,
    "medians 0",
    imputation.Imputer,
    "fit",
    lambda found: imputation.Imputer(dict.fromkeys(found.middles, 0)),
)
instead(
    FILE,
    "gaps are filled with the mean",
    imputation,
    "_middle",
    lambda name, values, of=imputation._middle: (
        of(name, values)
        if imputation.FEATURES[name].codes
        else float(np.mean([one for one in values if one is not None]))
    ),
)
instead(
    FILE,
    "the held-out patients are learnt from",
    kidney.CKDSuite,
    "_maker",
    lambda self, training, of=kidney.CKDSuite._maker: of(
        self, None if training is None else self._file.patients
    ),
)
wrapped(
    checks.the_held_out_patients,
    "held out = training",
    kidney.CKDSuite,
    "_split",
    lambda found: (found[1], found[1]),
)
wrapped(
    checks.the_held_out_patients,
    "everybody is held out",
    kidney.CKDSuite,
    "_split",
    lambda found: (found[0], [*found[0], *found[1]]),
)


@violates(FILE, "labels swapped")
def _labels_swapped(patch: Patch, folder: Path) -> None:
    patch.setattr(records, "CKD_PRESENT", 1)
    patch.setattr(records, "CKD_ABSENT", 0)


instead(FILE, "everybody is a man", records, "_engineered_sex", lambda patient, seed: 0)


@violates(SYNTHETIC, "synthetic cases of the preset are deferred by probabilities")
def _by_probabilities(patch: Patch, folder: Path) -> None:
    original = kidney.CKDSuite._maker
    patch.setattr(
        kidney.CKDSuite,
        "_maker",
        lambda self, training: replace(original(self, training), by_flags=False),
    )


instead(COURSES, "every course ambiguous", deferral, "_is_ambiguous", lambda features: True)
instead(COURSES, "no course ambiguous", deferral, "_is_ambiguous", lambda features: False)
instead(COURSES, "another range is ambiguous", deferral, "AMBIGUOUS_CHANGE", (0.1, 0.2))
wrapped(
    COURSES,
    "labels of courses swapped",
    courses,
    "_labels",
    lambda found: np.where(
        found == "improving", "worsening", np.where(found == "worsening", "improving", found)
    ),
)
instead(COURSES, "a large fall is 50 %", courses, "LARGE_FALL", 0.5)
instead(COURSES, "a rise of 5 % improves", courses, "RISE", 0.05)


@violates(checks.the_columns_of_the_file, "a missing column is taken from another")
def _missing_column(patch: Patch, folder: Path) -> None:
    original = uci._column_positions

    def positions(place: Path, header: list[str], sex_column: str | None) -> dict[str, int]:
        missing = [name for name in uci.COLUMNS if name not in header]
        return original(place, [*header, *missing], sex_column) | dict.fromkeys(missing, 0)

    patch.setattr(uci, "_column_positions", positions)


# Benchmark, prompts and reports ------------------------------------------------------------------

option(checks.the_batches, "every record is a call", Benchmark, "__init__", batch_size=1)
option(checks.the_calls_in_parallel, "one call at a time", Benchmark, "__init__", max_concurrency=1)
option(checks.the_calls_in_parallel, "all calls at once", Benchmark, "__init__", max_concurrency=6)


@violates(checks.the_fallback_of_a_malformed_batch, "a malformed batch is asked one by one")
def _one_by_one(patch: Patch, folder: Path) -> None:
    original = Engine._settle

    async def settle(self: Engine, batch: Any, spent: Any, *, again: bool = False) -> None:
        if len(batch) in (1, 4, 5, 8):
            await original(self, batch, spent, again=again)
        else:
            for case in batch:
                await original(self, [case], spent)

    patch.setattr(Engine, "_settle", settle)


@violates(checks.the_retries, "nothing is tried again")
def _no_retries(patch: Patch, folder: Path) -> None:
    original = callers.call_with_retries

    async def once(attempt: Any, policy: Any, **options: Any) -> Any:
        return await original(attempt, replace(policy, max_retries=0), **options)

    patch.setattr(callers, "call_with_retries", once)


wrapped(
    checks.the_execution_metadata,
    "the token total is as reported",
    account.Spending,
    "of",
    lambda found: replace(found, token_total=found.token_total_reported),
)
wrapped(
    checks.the_execution_metadata,
    "tokens of the input are not counted",
    account.Spending,
    "of",
    lambda found: replace(found, input_tokens=None),
)
wrapped(
    checks.the_execution_metadata,
    "throughput is seconds per record",
    account.Spending,
    "of",
    lambda found: replace(found, records_per_second=1 / found.records_per_second),
)


@violates(checks.the_execution_metadata, "the full JSON has no rows")
def _no_rows(patch: Patch, folder: Path) -> None:
    original = BenchmarkResult.to_json
    patch.setattr(
        BenchmarkResult,
        "to_json",
        lambda self, include_results=True, **options: original(
            self, include_results=False, **options
        ),
    )


instead(
    checks.the_captured_prompts,
    "prompts are not redacted",
    prompt._Words,
    "redacted",
    lambda self, proposal="", *, batch: "- sc: 7.25, 8.25, 9.25, 10.25, 11.25",
)
wrapped(
    checks.the_captured_prompts,
    "every row has a template of its own",
    account.Prompts,
    "of",
    lambda found: replace(found, prompt_templates=found.prompt_templates * 2),
)
wrapped(
    checks.the_captured_prompts,
    "prompts are not counted",
    account.Prompts,
    "of",
    lambda found: replace(found, n_prompts_captured=0),
)


@violates(checks.what_a_model_does_not_see, "the model sees metadata")
def _seen(patch: Patch, folder: Path) -> None:
    original = checks.PatientRecord.__post_init__

    def seen(self: Any) -> None:
        object.__setattr__(self, "features", {**self.features, **self.metadata})
        original(self)

    patch.setattr(checks.PatientRecord, "__post_init__", seen)


# Selective prediction ----------------------------------------------------------------------------

CURVES, VARIANTS = checks.the_curves, checks.the_confidence_variants
EVALUATION = checks.the_command_line_of_an_evaluation
INTERVALS = checks.the_published_intervals


def variant(words: str, name: str, rule: Callable[[Mapping[str, Any]], Any]) -> None:
    """Add a violation of one confidence variant."""

    def plant(patch: Patch, folder: Path) -> None:
        patch.setitem(variants.VARIANTS, name, replace(variants.VARIANTS[name], rule=rule))

    violates(VARIANTS, words)(plant)


variant("llm is cut at three", "llm", lambda s: np.minimum(s["llm_evidence_count"], 3))
variant("total evidence is doubled", "total_evidence", lambda s: 2 * s["llm_evidence_count"])
variant("an entropy is taken as it is", "token_pe", lambda s: s["token_pe"])
variant("an energy is taken as it is", "token_energy", lambda s: s["token_energy"])
variant("verbalized is v / 5", "verbalized", lambda s: s["verbalized_confidence"] / 5)
variant(
    "deviation is taken as it is", "consistency_inverse_std", lambda s: s["consistency_score_std"]
)
for _name, _weights in (("hybrid_verbalized", (0.3, 0.4, 0.3)), ("hybrid_consistency", (1, 0, 0))):
    variant(
        f"{_name} has other weights",
        _name,
        lambda s, w=_weights: (
            w[0] * next(iter(s.values())) + w[1] * variants._evidence(s) + w[2] * 0.0
        ),
    )
instead(
    VARIANTS,
    "hybrids clip a similarity",
    variants,
    "_similarity",
    lambda s: np.clip(s["retrieval_similarity_mean"], 0, 1),
)
instead(
    VARIANTS,
    "evidence is not cut at three",
    variants,
    "_evidence",
    lambda s: s["llm_evidence_count"] / 3,
)


@violates(VARIANTS, "secondary average → minimum")
def _minimum(patch: Patch, folder: Path) -> None:
    patch.setitem(variants._COMBINATIONS, "average", np.minimum)


@violates(VARIANTS, "secondary product → average")
def _average(patch: Patch, folder: Path) -> None:
    patch.setitem(variants._COMBINATIONS, "product", variants._COMBINATIONS["average"])


@violates(VARIANTS, "a null verbalized confidence is the lowest")
def _lowest(patch: Patch, folder: Path) -> None:
    name = "verbalized_confidence"
    patch.setitem(signals.SIGNALS, name, replace(signals.SIGNALS[name], null_means=1.0))


@violates(VARIANTS, "a null similarity is 1")
def _similar(patch: Patch, folder: Path) -> None:
    name = "retrieval_similarity_max"
    patch.setitem(signals.SIGNALS, name, replace(signals.SIGNALS[name], null_means=1.0))


REQUIRED = checks.the_signals_that_must_be_there
instead(
    REQUIRED,
    "the number of references is not required",
    variants,
    "require_signal",
    lambda run, name, needed_by: None,
)
instead(
    REQUIRED,
    "a missing signal is replaced",
    signals,
    "_refuse_lacking",
    lambda run, index, name, needed_by: None,
)


@violates(REQUIRED, "a null token signal is 0")
def _null_token(patch: Patch, folder: Path) -> None:
    patch.setitem(signals.SIGNALS, "token_pe", replace(signals.SIGNALS["token_pe"], null_means=0.0))


def _backwards(found: Any) -> Any:
    losses = np.diff(found.loss_accepted, prepend=0.0)[::-1]
    return replace(found, loss_accepted=np.cumsum(losses))


def _without_plateaus(losses: Any, confidence: Any, n_items: int) -> Any:
    ranks = np.argsort(np.argsort(confidence, kind="stable"), kind="stable")
    return risk_coverage.risk_coverage_curve(losses, ranks, n_items)


instead(
    CURVES,
    "equal confidences are accepted one by one",
    sp,
    "risk_coverage_curve",
    _without_plateaus,
)
for _check in (CURVES, EVALUATION):
    instead(
        _check,
        "no hull",
        risk_coverage.RiskCoverageCurve,
        "achievable",
        lambda self, space="selective": self,
    )
    instead(
        _check,
        "risk at 0 is 0",
        risk_coverage.RiskCoverageCurve,
        "aurc",
        lambda self, max_coverage=None: self._area(self.selective_risk, 0.0, max_coverage),
    )
    instead(
        _check,
        "generalized risk at 0 is the first",
        risk_coverage.RiskCoverageCurve,
        "augrc",
        lambda self, max_coverage=None: self._area(
            self.generalized_risk, float(self.generalized_risk[0]), max_coverage
        ),
    )
    instead(
        _check,
        "a truncated area ends at a working point",
        risk_coverage.RiskCoverageCurve,
        "_area_until",
        lambda self, height, first, limit: float(
            np.trapezoid(
                [first, *height[self.coverage <= limit]],
                [0, *self.coverage[self.coverage <= limit]],
            )
        ),
    )
    instead(
        _check,
        "risk at a coverage is that of the last point below",
        risk_coverage.RiskCoverageCurve,
        "risk_at",
        lambda self, coverage: (
            float(self.selective_risk[max(np.searchsorted(self.coverage, coverage) - 1, 0)]),
            float(self.coverage[max(np.searchsorted(self.coverage, coverage) - 1, 0)]),
        ),
    )
    instead(
        _check,
        "generalized risk is selective risk",
        risk_coverage.RiskCoverageCurve,
        "generalized_risk",
        risk_coverage.RiskCoverageCurve.selective_risk,
    )
wrapped(
    CURVES,
    "the oracle ranks the other way",
    checks,
    "optimal_curve",
    _backwards,
)
instead(CURVES, "Cmax of the answered", sp, "compute_cmax", lambda items: 1.0)
instead(
    CURVES,
    "a loss is squared",
    sp,
    "compute_loss",
    lambda item, loss="abs_norm": float((item.pred - item.gt) ** 2) / (3 if loss != "abs" else 1),
)


BOOTSTRAP, DELTAS = checks.the_bootstrap, checks.the_paired_deltas


@violates(BOOTSTRAP, "items are drawn, not participants")
def _items_drawn(patch: Patch, folder: Path) -> None:
    patch.setattr(
        sp,
        "_by_participant",
        lambda items: {f"{i.participant_id} {i.item}": [i] for i in items},
    )


instead(
    BOOTSTRAP,
    "nothing is drawn twice",
    sp,
    "draw_clusters",
    lambda n, options: [np.tile(np.arange(n), (options.n_resamples, 1))],
)
for _check in (BOOTSTRAP, DELTAS):
    instead(
        _check,
        "the interval covers 90 %",
        sp,
        "_percentiles",
        lambda groups, value, n, seed, level, of=sp._percentiles: of(groups, value, n, seed, 0.9),
    )
instead(
    DELTAS,
    "a delta is left minus right",
    sp,
    "paired_bootstrap_delta_by_participant",
    lambda left, right, metric, of=sp.paired_bootstrap_delta_by_participant, **options: of(
        right, left, metric, **options
    ),
)

CALIBRATORS = checks.the_calibrators
wrapped(
    CALIBRATORS,
    "a temperature is turned round",
    models.TemperatureScalingCalibrator,
    "fit",
    lambda found: models.TemperatureScalingCalibrator(temperature=1 / found.temperature),
)
instead(CALIBRATORS, "weights are not penalised", models, "_PENALTY", 0.0)
instead(CALIBRATORS, "logistic weights are not penalised", logistic, "_PENALTY", 0.0)
for fit, module in (("linear", models), ("logistic", logistic)):
    instead(
        CALIBRATORS,
        f"features are not standardised in a {fit} fit",
        module,
        "standards",
        lambda features: (np.zeros(features.shape[1]), np.ones(features.shape[1])),
    )
instead(
    CALIBRATORS,
    "an isotonic fit is a step function",
    models.IsotonicCalibrator,
    "predict",
    lambda self, features: np.array(self.outputs)[
        np.minimum(np.searchsorted(self.inputs, features[:, 0]), len(self.inputs) - 1)
    ],
)
instead(CALIBRATORS, "ECE has ten bins", models, "N_BINS", 10)
wrapped(
    CALIBRATORS, "log loss in bits", sp, "compute_binary_nll", lambda found: found / math.log(2)
)
instead(
    checks.the_features_of_a_calibrator,
    "a missing feature claims the most",
    sp,
    "signal_of",
    lambda name: signals.Signal(missing=5.0),
)

PARSED = checks.the_items_of_a_run


@violates(PARSED, "failed participants are included")
def _failed_included(patch: Patch, folder: Path) -> None:
    original = run_file._participant
    patch.setattr(
        run_file,
        "_participant",
        lambda entry, scale, place: original({**entry, "success": True}, scale, place),
    )


wrapped(
    PARSED,
    "failed participants are not counted",
    sp,
    "read_items",
    lambda run: replace(run, failed=()),
)


@violates(PARSED, "parse_items is not where the seed has it")
def _no_parse_items(patch: Patch, folder: Path) -> None:
    edited(
        patch,
        folder,
        "evaluate_selective_prediction.py",
        "import parse_items\n",
        "import parse_items as _read\n\nparse_items = lambda *given: ([], set(), set())\n",
    )


# The published command lines ---------------------------------------------------------------------


def edited(patch: Patch, folder: Path, name: str, old: str, new: str) -> None:
    """Run the scripts from a copy in which one of them is another."""
    copy = folder / "scripts"
    shutil.copytree(checks.SCRIPTS, copy)
    text = (copy / name).read_text(encoding="utf-8")
    assert old in text
    (copy / name).write_text(text.replace(old, new), encoding="utf-8")
    patch.setattr(checks, "SCRIPTS", copy)


def script_edit(check: Callable[..., None], words: str, name: str, old: str, new: str) -> None:
    """Add a violation in the text of a script."""

    def plant(patch: Patch, folder: Path) -> None:
        edited(patch, folder, name, old, new)

    violates(check, words)(plant)


COMPARISON = checks.the_command_line_of_a_comparison
TEMPERATURE = checks.the_command_line_of_a_temperature
CALIBRATOR = checks.the_command_line_of_a_calibrator
for _check, _script, _own, _other in (
    (EVALUATION, "evaluate_selective_prediction.py", "selective", "certify"),
    (COMPARISON, "evaluate_selective_prediction.py", "selective", "compare"),
    (TEMPERATURE, "calibrate_verbalized_confidence.py", "calibrate", "selective"),
    (CALIBRATOR, "train_confidence_calibrator.py", "calibrate", "selective"),
):
    script_edit(_check, "a script calls another command", _script, f'["{_own}", ', f'["{_other}", ')
    script_edit(_check, "a script drops its inputs", _script, ", *inputs,", ",")
script_edit(
    TEMPERATURE,
    "another method is fitted",
    "calibrate_verbalized_confidence.py",
    '"temperature_scaling"',
    '"isotonic"',
)
script_edit(
    CALIBRATOR,
    "a script drops the named features",
    "published_options.py",
    '"--features": "--signals"',
    '"--features": "--ignored"',
)
script_edit(
    checks.the_command_line_of_a_run,
    "one sample is asked for",
    "reproduce_results.py",
    "repeats=repeats,",
    "repeats=1,",
)
instead(
    checks.the_command_line_of_a_run,
    "the deviation is that of a sample",
    repeats,
    "consistency_of",
    lambda samples, of=repeats.consistency_of: replace(of(samples), score_std=0.123),
)
wrapped(
    TEMPERATURE,
    "the calibrated confidence ignores the temperature",
    variants,
    "_calibrated",
    lambda values: np.clip(values, 0.4, 0.6),
)
instead(
    checks.the_calibration_that_must_be_named,
    "a variant without its calibrator is the plain one",
    variants,
    "_calibrated",
    lambda run, name, calibrator: variants.confidence_of(run, "verbalized"),
)
for _key, _words in (
    ("schema_version", "2"),
    ("loss", {"name": "abs", "definition": "error", "raw_multiplier": 1}),
    ("population", {"participants_total": 6, "participants_included": 6}),
    ("inputs", [{"path": "run.json"}]),
    ("comparison", {"enabled": True}),
):

    def _entry(patch: Patch, folder: Path, key: str = _key, value: Any = _words) -> None:
        original = artifact.artifact_of
        changed = lambda *given, **options: {**original(*given, **options), key: value}  # noqa: E731
        patch.setattr("krisis.verbs.selective.artifact_of", changed)

    violates(EVALUATION, f"the artifact has another {_key}")(_entry)
wrapped(
    EVALUATION,
    "gaps are shares, not percent",
    artifact,
    "_interpretation",
    lambda found: {key: one / 100 if isinstance(one, float) else one for key, one in found.items()},
)
wrapped(
    COMPARISON,
    "an artifact of two loses the flat counts",
    artifact,
    "_populations",
    lambda found: {key: one for key, one in found.items() if key.startswith("input")},
)
instead(
    COMPARISON,
    "a delta of the artifact is left minus right",
    evaluation.Evaluation,
    "delta",
    lambda self, name, figure, of=evaluation.Evaluation.delta: (
        -of(self, name, figure)[0],
        of(self, name, figure)[1],
    ),
)
for _check in (INTERVALS, checks.the_published_intervals_of_deltas):
    instead(
        _check,
        "published draws are others",
        bootstrap,
        "draw_clusters",
        lambda n, options, of=bootstrap.draw_clusters: of(
            n, replace(options, seed=options.seed + 1)
        ),
    )
    instead(
        _check,
        "participants are numbered as text is sorted, backwards",
        evaluation,
        "_published_numbers",
        lambda table: evaluation.Units(
            table.patients.n - 1 - table.patients.code, table.patients.n
        ),
    )


# Shapes ------------------------------------------------------------------------------------------


@violates(shapes.the_parameters_of_a_benchmark, "another default batch size")
def _batch_size(patch: Patch, folder: Path) -> None:
    defaults = dict(Benchmark.__init__.__kwdefaults__ or {})
    positional = list(Benchmark.__init__.__defaults__ or ())
    positional[1] = 16
    patch.setattr(Benchmark.__init__, "__defaults__", tuple(positional))
    patch.setattr(Benchmark.__init__, "__kwdefaults__", defaults)


@violates(shapes.the_fields_of_the_objects, "a field has another name")
def _field(patch: Patch, folder: Path) -> None:
    found = inspect.signature(shapes.MetricScore)
    renamed = [
        one.replace(name="info") if name == "details" else one
        for name, one in found.parameters.items()
    ]
    patch.setattr(
        shapes.MetricScore, "__signature__", found.replace(parameters=renamed), raising=False
    )


instead(
    shapes.the_fields_of_the_objects,
    "a confidence of 1.2 is taken",
    shapes.EvaluationResult,
    "__post_init__",
    lambda self: None,
)
instead(
    shapes.a_metric_of_ones_own,
    "the benchmark scores by its own metrics, too",
    Benchmark,
    "__init__",
    lambda self, suite, backend, metrics=None, of=Benchmark.__init__, **options: of(
        self, suite, backend, None, **options
    ),
)
instead(
    shapes.which_way_a_metric_is_better,
    "a higher calibration error is better",
    calibration.ExpectedCalibrationError,
    "direction",
    "higher",
)
wrapped(
    shapes.a_total_of_tokens_alone,
    "a total is unknown where its parts are",
    account.Spending,
    "of",
    lambda found: replace(found, token_total=None),
)
wrapped(
    shapes.a_suite_of_ones_own,
    "metadata do not pass through",
    StoragePolicy,
    "row",
    lambda row: replace(row, metadata={}),
)
instead(
    shapes.the_records_that_are_given,
    "given records are described as the suite",
    benchmark,
    "described",
    lambda suite, given, of=benchmark.described: of(suite, None),
)
instead(
    shapes.the_brier_score_of_a_task,
    "the labels that were drawn decide",
    calibration,
    "squared_errors",
    lambda table: np.square(np.where(table.correct, 1 - table.confidence, table.confidence)),
)


@violates(shapes.the_settings_of_the_backends, "retries cannot be set")
def _retries(patch: Patch, folder: Path) -> None:
    for kind in shapes.CAPS:
        patch.setattr(kind, "max_retries", property(lambda self: 5, lambda self, value: None))


@violates(shapes.the_names_of_selective_prediction, "a published name is gone")
def _name_gone(patch: Patch, folder: Path) -> None:
    patch.setattr(sp, "__all__", [name for name in sp.__all__ if name != "parse_items"])
