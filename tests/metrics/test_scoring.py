"""Metrics by name, checked before they are scored."""

from __future__ import annotations

from typing import Any

import pytest

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import Accuracy
from krisis.metrics.scoring import check_metrics, metric_from_name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("accuracy[treat_abstention=True]", "cannot be made.*treat_abstention"),
        ("accuracy[]", "parameters that cannot be read"),
        ("risk_at_80_coverage[loss]", "parameters that cannot be read"),
    ],
)
def test_parameters_of_a_metric_that_cannot_be_read_are_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        metric_from_name(name)


def test_a_metric_is_named_as_reports_name_it() -> None:
    for name in ("accuracy[treat_abstention_as_neutral=True]", "aurc[loss=abs]"):
        assert metric_from_name(name).identifier == name


def test_a_name_that_is_no_metric_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown metric 'acuracy'; did you mean 'accuracy'"):
        metric_from_name("acuracy")
    with pytest.raises(InvalidValue, match="is not a metric; name a class derived from BaseMetric"):
        metric_from_name("krisis.metrics.table:Table")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([Accuracy], r"give the metric Accuracy\(\), not its class"),
        (["accuracy"], "'accuracy' is not a metric"),
        ([Accuracy(), Accuracy()], "'Accuracy' appears twice"),
    ],
)
def test_what_cannot_be_scored_is_refused(given: list[Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        check_metrics(given)
