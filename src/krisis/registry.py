"""Names to classes: built-ins from a table, plug-ins from entry points, or the place of a class."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeVar

from krisis.errors import InvalidValue, KrisisError, PlugInFault, UnknownName
from krisis.json_values import JsonObject, JsonValue

Made = TypeVar("Made")
Kind = Literal[
    "suites",
    "backends",
    "formats",
    "commands",
    "sections",
    "figures",
    "tabs",
    "metrics",
    "bundles",
]

_CLINICAL = "krisis.metrics.clinical_calibration"

# "module:attribute" strings, so that listing names imports nothing.
BUILT_IN: dict[Kind, dict[str, str]] = {
    "suites": {
        "ckd": "krisis.data.ckd.suite:CKDSuite",
        "diabetes": "krisis.data.nhanes.diabetes:DiabetesSuite",
        "phq8": "krisis.data.phq8.suite:PHQ8Suite",
        "support2": "krisis.data.support2.suite:Support2Suite",
        "table": "krisis.data.table.suite:TableSuite",
    },
    "backends": {
        "always-abstain": "krisis.backends.baselines.constant:AlwaysAbstain",
        "majority": "krisis.backends.baselines.constant:Majority",
        "guideline": "krisis.backends.baselines.rules:Guideline",
        "ideal": "krisis.backends.baselines.rules:Ideal",
        "rule": "krisis.backends.baselines.rules:RuleBackend",
        "logistic": "krisis.backends.baselines.fitted:Logistic",
        "boosting": "krisis.backends.baselines.fitted:Boosting",
        "lexicon": "krisis.backends.baselines.rules:Lexicon",
        "reader": "krisis.backends.baselines.readers:ReaderBackend",
        "physician": "krisis.backends.baselines.readers:Physician",
        "openai": "krisis.backends.openai:OpenAIBackend",
        "anthropic": "krisis.backends.anthropic:AnthropicBackend",
        "grok": "krisis.backends.grok:GrokBackend",
        "gemini": "krisis.backends.gemini:GeminiBackend",
        "openrouter": "krisis.backends.api:APIBackend",
        "compatible": "krisis.backends.compatible:CompatibleBackend",
        "local": "krisis.backends.local:LocalBackend",
    },
    # Files of other programs that are read or written: `krisis.formats.base` says how.
    "formats": {
        "csv": "krisis.formats.text_tables:CSV",
        "inspect": "krisis.formats.inspect_log:InspectLog",
        "jsonl": "krisis.formats.text_tables:JSONLines",
        "lm-eval": "krisis.formats.lm_eval:LMEvalSamples",
        "parquet": "krisis.formats.parquet_tables:Parquet",
        "phq8-run": "krisis.data.phq8.run_file:PHQ8RunFile",
    },
    # What `krisis data NAME` does: functions that the suites bring along.
    "commands": {
        "ckd": "krisis.data.ckd.uci:write",
        "phq8": "krisis.data.phq8.commands:write",
        "check-interviews": "krisis.data.phq8.commands:check",
    },
    # What verbs add to a report (by its option), to `krisis figure` and to the pages of a run.
    "sections": {
        "decide": "krisis.verbs.decide.section:costs_of_report",
        "curve": "krisis.verbs.decide.section:curve_of_report",
        "audit": "krisis.verbs.audit.section:audit_of_report",
    },
    "figures": {
        "risk-coverage": "krisis.pages.charts.curves:risk_coverage_of_runs",
        "reliability": "krisis.pages.charts.reliability:reliability",
        "forest": "krisis.pages.charts.forest:forest",
        "deferral": "krisis.pages.charts.forest:deferral",
        "decision-curve": "krisis.verbs.decide.figures:decision_curves",
        "cost": "krisis.verbs.decide.figures:costs",
    },
    "tabs": {"decide": "krisis.verbs.decide.tab:page"},
    "metrics": {
        "accuracy": "krisis.metrics.accuracy:Accuracy",
        "balanced_accuracy": "krisis.metrics.accuracy:BalancedAccuracy",
        "expected_calibration_error": "krisis.metrics.calibration:ExpectedCalibrationError",
        "brier_score": "krisis.metrics.calibration:BrierScore",
        "answer_rate": "krisis.metrics.abstention:AnswerRate",
        "no_answer_rate": "krisis.metrics.abstention:NoAnswerRate",
        "not_evaluated_rate": "krisis.metrics.abstention:NotEvaluatedRate",
        "selective_accuracy": "krisis.metrics.abstention:SelectiveAccuracy",
        "abstention_rate": "krisis.metrics.abstention:AbstentionRate",
        "deferral_alignment": "krisis.metrics.abstention:DeferralAlignment",
        "decision_cost": "krisis.metrics.decision:DecisionCost",
        "decision_skill": "krisis.metrics.decision:DecisionSkill",
        "cost_saved": "krisis.metrics.decision:CostSaved",
        "deferral_skill": "krisis.metrics.decision:DeferralSkill",
        "right_decisions": "krisis.metrics.abstention:RightDecisions",
        "answerable_accuracy": "krisis.metrics.abstention:AnswerableAccuracy",
        "inappropriate_answer_rate": "krisis.metrics.abstention:InappropriateAnswerRate",
        "quadratic_weighted_kappa": "krisis.metrics.ordinal:QuadraticWeightedKappa",
        "mean_absolute_error": "krisis.metrics.ordinal:MeanAbsoluteError",
        "total_bias": "krisis.metrics.totals:TotalBias",
        "total_mae": "krisis.metrics.totals:TotalMAE",
        "total_correlation": "krisis.metrics.totals:TotalCorrelation",
        "screening_sensitivity": "krisis.metrics.totals:ScreeningSensitivity",
        "screening_specificity": "krisis.metrics.totals:ScreeningSpecificity",
        "disease_sensitivity": "krisis.metrics.disease:DiseaseSensitivity",
        "disease_specificity": "krisis.metrics.disease:DiseaseSpecificity",
        "disease_ppv": "krisis.metrics.disease:DiseasePPV",
        "disease_npv": "krisis.metrics.disease:DiseaseNPV",
        "disease_lr_positive": "krisis.metrics.disease:PositiveLikelihoodRatio",
        "disease_lr_negative": "krisis.metrics.disease:NegativeLikelihoodRatio",
        "disease_f1": "krisis.metrics.disease:DiseaseF1",
        "disease_auroc": "krisis.metrics.discrimination:DiseaseAUROC",
        "disease_auprc": "krisis.metrics.discrimination:DiseaseAUPRC",
        "aurc": "krisis.metrics.selective_prediction:AURC",
        "augrc": "krisis.metrics.selective_prediction:AUGRC",
        "risk_at_80_coverage": "krisis.metrics.selective_prediction:RiskAtCoverage",
        "calibration_in_the_large": f"{_CLINICAL}:CalibrationInTheLarge",
        "calibration_slope": f"{_CLINICAL}:CalibrationSlope",
        "observed_expected_ratio": f"{_CLINICAL}:ObservedExpectedRatio",
    },
    # Functions that return several metrics: one word for all of them.
    "bundles": {
        "default": "krisis.metrics:usual_metrics",
        "selective": "krisis.metrics.selective_prediction:default_selective_metrics",
        "classification": "krisis.metrics.disease:default_classification_metrics",
        "clinical_calibration": f"{_CLINICAL}:clinical_calibration_metrics",
        "binary": "krisis.metrics.discrimination:binary_metrics",
    },
}


@cache
def table(kind: Kind) -> dict[str, str]:
    """Return every known name of a kind with the place of its class."""
    plugins = {point.name: point.value for point in entry_points(group=f"krisis.{kind}")}
    taken = sorted(plugins.keys() & BUILT_IN[kind].keys())
    if taken:
        raise InvalidValue(
            f"an installed plug-in registers {kind} {taken} which krisis already has; "
            "rename its entry point"
        )
    return {**BUILT_IN[kind], **plugins}


def names(kind: Kind) -> list[str]:
    """Return the known names of a kind, sorted."""
    return sorted(table(kind))


def is_place(name: str) -> bool:
    """Say whether a name is the place of a class: `my_suite.py:Clinic`, `package.module:Clinic`."""
    place, colon, attribute = name.partition("[")[0].rpartition(":")
    return bool(colon and place and attribute.isidentifier())


def is_suite_file(name: str) -> bool:
    """Say whether a name is the YAML file of a table suite."""
    return name.lower().endswith((".yaml", ".yml"))


def find(kind: Kind, name: str) -> JsonValue:
    """Return the class registered under a name, or say which names there are.

    Names that are read from a run, a result or another file may only be looked up here: nothing
    but krisis and installed plug-ins is imported.

    >>> find("metrics", "accuracy").key
    'accuracy'
    """
    known = table(kind)
    if kind == "suites" and name not in known and is_suite_file(name):
        name = "table"
    if name not in known:
        raise UnknownName.among(kind.removesuffix("s"), name, known)
    if name in BUILT_IN[kind]:
        module, _, attribute = known[name].partition(":")
        return getattr(import_module(module), attribute)
    return _brought(known[name], _what(kind, name))


def find_or_load(kind: Kind, name: str) -> JsonValue:
    """Return the class of a name that the user typed: registered, or the place of their own code.

    Loading a place executes it, so this is never called with a name that a stored run holds,
    unless the run is trusted (`krisis.runs.trust`).

    >>> find_or_load("metrics", "krisis.metrics.accuracy:Accuracy").key
    'accuracy'
    """
    if name not in table(kind) and is_place(name):
        return _brought(name, _what(kind, name))
    return find(kind, name)


def _what(kind: Kind, name: str) -> str:
    return f"the {kind.removesuffix('s')} {name!r}"


def options_of(found: type) -> tuple[set[str], bool]:
    """Return the options that a class is made with, and whether it takes any others as well."""
    parameters = inspect.signature(found).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = {one.name for one in parameters if one.kind in named}
    return names, any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def made(found: Callable[..., Made], options: JsonObject, what: str, option: str) -> Made:
    """Make an object of a class that a user named; say what it lacks where that is not possible."""
    try:
        return found(**options)
    except TypeError as error:
        if fault_of_own_code(error) is not None:
            raise
        raise InvalidValue(f"{what} cannot be made: {error}; give arguments as {option}") from error


# Top-level modules of users' own code that this process has loaded, with what they were loaded as.
_OWN_MODULES: dict[str, str] = {}


def own_modules() -> list[str]:
    """Return the top-level modules of the user's own code that this process has loaded."""
    return list(_OWN_MODULES)


def _brought(place: str, what: str) -> JsonValue:
    """Load a class of the user's own, from a file or a module that can be imported here."""
    source, _, attribute = place.rpartition(":")
    try:
        module = _module_of_file(Path(source)) if source.endswith(".py") else _module(source)
    except KrisisError:
        raise
    except (Exception, SystemExit) as error:
        raise PlugInFault(
            f"{what} cannot be loaded from {source}: {_sentence(error)}; fix it, or check the "
            "name (--debug shows the traceback)"
        ) from error
    _OWN_MODULES[module.__name__.partition(".")[0]] = what
    if not hasattr(module, attribute):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UnknownName.among(f"class of {source}:", attribute, classes)
    return getattr(module, attribute)


def _module(name: str) -> ModuleType:
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)  # a console script does not look where it is started
    return import_module(name)


def _module_of_file(path: Path) -> ModuleType:
    """Import a file as a script would import it: what lies beside it can be imported too."""
    path = path.expanduser().resolve()
    if not path.is_file():
        raise UnknownName(f"there is no file {path}; check the path before the colon")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    if loaded is not None or path.stem in sys.stdlib_module_names:
        raise UnknownName(
            f"{path} has the name of another module, {path.stem}; give the file another name"
        )
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return import_module(path.stem)


def fault_of_own_code(error: BaseException) -> PlugInFault | None:
    """Return the fault of the user's own code that raised an error; None if it was not theirs."""
    frames = traceback.walk_tb(error.__traceback__)
    own = [
        (frame, line)
        for frame, line in frames
        if frame.f_globals.get("__name__", "").partition(".")[0] in _OWN_MODULES
    ]
    if not own:
        return None
    frame, line = own[-1]
    code = frame.f_code
    what = _OWN_MODULES[frame.f_globals["__name__"].partition(".")[0]]
    return PlugInFault(
        f"{what} failed in {code.co_name} ({Path(code.co_filename).name}, line {line}): "
        f"{_sentence(error)}; fix it (--debug shows the traceback)"
    )


def _sentence(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
