"""Names to classes: built-ins from a table of strings, plug-ins from entry points, one door."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Literal

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonValue

Kind = Literal["suites", "backends", "metrics", "formats", "commands"]

# "module:attribute" strings, so that listing names imports nothing.
BUILT_IN: dict[Kind, dict[str, str]] = {
    "suites": {
        "ckd": "krisis.data.ckd.suite:CKDSuite",
        "phq8": "krisis.data.phq8.suite:PHQ8Suite",
    },
    "backends": {
        "always-answer": "krisis.backends.baselines.constant:AlwaysAnswer",
        "always-abstain": "krisis.backends.baselines.constant:AlwaysAbstain",
        "majority": "krisis.backends.baselines.constant:Majority",
        "guideline": "krisis.backends.baselines.rules:Guideline",
        "bayes-optimal": "krisis.backends.baselines.rules:BayesOptimal",
        "rule": "krisis.backends.baselines.rules:RuleBackend",
        "logistic": "krisis.backends.baselines.logistic:Logistic",
        "lexicon": "krisis.backends.baselines.rules:Lexicon",
        "openai": "krisis.backends.openai:OpenAIBackend",
        "anthropic": "krisis.backends.anthropic:AnthropicBackend",
        "grok": "krisis.backends.grok:GrokBackend",
        "gemini": "krisis.backends.gemini:GeminiBackend",
        "openrouter": "krisis.backends.api:APIBackend",
        "compatible": "krisis.backends.compatible:CompatibleBackend",
        "local": "krisis.backends.local:LocalBackend",
        "hf": "krisis.backends.huggingface:TransformersBackend",
        "replay": "krisis.execution.replay:ReplayBackend",
    },
    # Files of finished runs that are not krisis's own: classes with `recognises` and `read`.
    "formats": {
        "phq8-run": "krisis.data.phq8.run_file:PHQ8RunFile",
    },
    # What `krisis data NAME` does: functions that the suites bring along.
    "commands": {
        "ckd": "krisis.data.ckd.commands:write",
        "check": "krisis.data.ckd.commands:check",
        "phq8": "krisis.data.phq8.commands:write",
        "check-interviews": "krisis.data.phq8.commands:check",
    },
    "metrics": {
        "accuracy": "krisis.metrics.accuracy:Accuracy",
        "balanced_accuracy": "krisis.metrics.accuracy:BalancedAccuracy",
        "expected_calibration_error": "krisis.metrics.calibration:ExpectedCalibrationError",
        "brier_score": "krisis.metrics.calibration:BrierScore",
        "answer_rate": "krisis.metrics.abstention:AnswerRate",
        "selective_accuracy": "krisis.metrics.abstention:SelectiveAccuracy",
        "abstention_rate": "krisis.metrics.abstention:AbstentionRate",
        "deferral_alignment": "krisis.metrics.abstention:DeferralAlignment",
        "disease_sensitivity": "krisis.metrics.classification:DiseaseSensitivity",
        "disease_specificity": "krisis.metrics.classification:DiseaseSpecificity",
        "disease_ppv": "krisis.metrics.classification:DiseasePPV",
        "disease_npv": "krisis.metrics.classification:DiseaseNPV",
        "aurc": "krisis.metrics.selective_prediction:AURC",
        "augrc": "krisis.metrics.selective_prediction:AUGRC",
        "risk_at_80_coverage": "krisis.metrics.selective_prediction:RiskAtCoverage",
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


def find(kind: Kind, name: str) -> JsonValue:
    """Return the class registered under a name, or say which names there are."""
    known = table(kind)
    if name not in known:
        raise UnknownName.among(kind.removesuffix("s"), name, known)
    module, _, attribute = known[name].partition(":")
    return getattr(import_module(module), attribute)
