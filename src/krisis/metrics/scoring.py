"""Score a list of metrics on one table: checked first, and none at the expense of the others."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence

from krisis import registry
from krisis.errors import InvalidValue, UnknownName, UserError
from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.base import (
    BaseMetric,
    EvaluationResult,
    MetricScore,
    MetricScores,
    key_of,
    table_of,
)
from krisis.metrics.forms import Form, Uncertainty, Undefined
from krisis.metrics.table import Table
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval


def metric_from_name(name: str) -> BaseMetric:
    """Return the metric of a name, with its parameters in brackets where it has any.

    The name is a registered key, or the place of a class such as ``my_metrics.py:Recall``, whose
    code is executed: give only names that the user typed.

    >>> metric_from_name("expected_calibration_error[n_bins=5]").parameters()["n_bins"]
    5
    """
    key, parameters = _read(name)
    kind = registry.find_or_load("metrics", key)
    if not (isinstance(kind, type) and issubclass(kind, BaseMetric)):
        raise InvalidValue(f"{key!r} is not a metric; name a class derived from BaseMetric")
    return registry.made(kind, parameters, f"the metric {name!r}", "KEY[NAME=VALUE, …]")


def metrics_from_names(names: Iterable[str]) -> list[BaseMetric]:
    """Return the metrics of names, a bundle giving all of its own.

    >>> metrics_from_names(["accuracy", "clinical_calibration[of=positive]"])[1].identifier
    'calibration_in_the_large[of=positive]'
    """
    found: list[BaseMetric] = []
    for name in names:
        key, parameters = _read(name)
        metrics, bundles = registry.table("metrics"), registry.table("bundles")
        if key not in bundles:
            if key not in metrics and not registry.is_place(key):
                raise UnknownName.among("metric", key, [*metrics, *bundles])
            found.append(metric_from_name(name))
            continue
        bundle = registry.find("bundles", key)
        found += registry.made(bundle, parameters, f"the bundle {name!r}", "KEY[NAME=VALUE, …]")
    return found


def registered_metrics(names: JsonValue) -> list[BaseMetric]:
    """Return the metrics among names that were read from a file; those not registered are left out.

    A metric may be named by its label.

    >>> [metric.key for metric in registered_metrics(["aurc", "Brier Score", "payload.py:X", 7])]
    ['aurc', 'brier_score']
    """
    known = {*registry.table("metrics"), *registry.table("bundles")}
    listed = names if isinstance(names, list) else []
    texts = [name for name in listed if isinstance(name, str)]
    keys = [name if name.partition("[")[0] in known else key_of(name) for name in texts]
    return metrics_from_names(key for key in keys if key.partition("[")[0] in known)


def _read(name: str) -> tuple[str, JsonObject]:
    """Return key and parameters of a name."""
    key, bracket, inside = name.strip().partition("[")
    return key, _parameters(inside.rstrip(), name) if bracket else {}


def _parameters(text: str, name: str) -> JsonObject:
    found: JsonObject = {}
    for pair in text.removesuffix("]").split(","):
        parameter, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not parameter or not text.endswith("]"):
            raise InvalidValue(
                f"{name!r} has parameters that cannot be read; write them as KEY[NAME=VALUE, …]"
            )
        try:
            found[parameter] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[parameter] = value  # a word, such as abs
    return found


def check_metrics(metrics: Iterable[BaseMetric]) -> list[BaseMetric]:
    """Refuse what is no metric, and two metrics that would share one line of a report."""
    given = list(metrics)
    for metric in given:
        if isinstance(metric, type) and issubclass(metric, BaseMetric):
            raise InvalidValue(f"give the metric {metric.__name__}(), not its class")
        if not isinstance(metric, BaseMetric) or not hasattr(metric, "name"):
            raise InvalidValue(
                f"{metric!r} is not a metric; derive its class from BaseMetric and give it a name"
            )
        metric.check()
    labels = [metric.label for metric in given]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InvalidValue(f"the metric {twice!r} appears twice; name each metric once")
    return given


def undefined_form(error: BaseException) -> Undefined:
    """Return a number that does not exist because the code of its metric failed."""
    return Undefined(f"the metric raised {type(error).__name__}: {error}")


def _scored(metric: BaseMetric, table: Table) -> tuple[MetricScore, Form | Undefined]:
    """Score one metric; an error in its code must cost neither the rows nor the other metrics."""
    try:
        return metric.scored(table)
    except (Exception, SystemExit) as error:
        form = undefined_form(error)
        identity = metric.identity()
        score = MetricScore(metric.name, math.nan, n_abstained=table.n_abstained, **identity)
        score.details["reason"] = form.reason
        return score, form


def _uncertainty(form: Form, table: Table, options: BootstrapOptions) -> Uncertainty:
    try:
        return form.uncertainty(table, options)
    except Exception as error:  # a form of one's own
        return Uncertainty(Interval.undefined(undefined_form(error).reason))


def score_all(
    metrics: Iterable[BaseMetric],
    results: Sequence[EvaluationResult] | Table,
    *,
    intervals: BootstrapOptions | None = None,
) -> MetricScores:
    """Compute every metric on one table.

    With ``intervals`` every value that is defined gets an interval as well.
    """
    table = table_of(results)
    scores = MetricScores()
    for metric in check_metrics(metrics):
        score, form = _scored(metric, table)
        if metric.omit_zero and score.value == 0:
            continue
        if metric.omit_undefined and math.isnan(score.value):
            continue
        score.name = metric.label
        if intervals is not None and isinstance(form, Form) and not math.isnan(score.value):
            found = _uncertainty(form, table, intervals)
            score.interval = found.interval
            score.details |= found.details
        scores[metric.label] = score
    return scores


def metric_of(score: MetricScore) -> BaseMetric | None:
    """Return the metric behind a stored score, with its parameters; None if it is not installed.

    Only registered classes are looked up: a file may not choose what is imported.
    """
    plugins = registry.table("metrics").keys() - registry.BUILT_IN["metrics"].keys()
    for name in (score.key, *sorted(plugins)):
        try:
            kind = registry.find("metrics", name)
            if kind.key == score.key:
                made: BaseMetric = kind(**score.parameters)
                return made
        except (UserError, TypeError, AttributeError):
            continue
    return None
