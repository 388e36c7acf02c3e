"""Runs on the same cases, pair by pair: differences with intervals and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from krisis import registry
from krisis.api.scoring import AnyRun, Metric, results_of
from krisis.cost_file import AnyCosts
from krisis.errors import InvalidValue
from krisis.metrics.scoring import metrics_from_names
from krisis.results.what_if import what_if
from krisis.verbs.compare.pairs import CompareOptions, Comparison, compare_runs


def compare(
    *runs: AnyRun | Mapping[str, AnyRun],
    metrics: Sequence[Metric] = (),
    primary: str | None = None,
    margin: float | Mapping[str, float] | None = None,
    permutations: int = 1999,
    seed: int = 42,
    level: float = 0.95,
    costs: AnyCosts | None = None,
    price: float | None = None,
) -> Comparison:
    """Compare runs on the same cases, pair by pair: differences with intervals and p-values.

    Arguments:
        runs: Two or more runs, by path or in memory, or one mapping of names to runs; a folder
            stands for the runs in it.
        metrics: Only these metrics, by name or as such; fewer tests.
        primary: The metric that is tested alone, without adjustment for the others.
        margin: Non-inferiority margin: one number, or one per metric.
        permutations: Number of permutations of patients.
        seed: Seed of the permutations.
        level: The level of intervals and tests.
        costs: What answers and deferrals cost, for all runs: a `Costs`, or the YAML file of one.
        price: Cost of one deferral relative to the costliest error, for all runs.

    Returns:
        A `Comparison`: ``pairs`` with a `MetricDelta` per metric, ``to_frame()``, ``to_dict()``.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 20, "a": [0, 1] * 20, "b": [0, 0] * 20, "case": range(40)}
    >>> ways = [krisis.score(rows, truth="y", prediction=n, id="case", model=n) for n in "ab"]
    >>> pair = krisis.compare(*ways, metrics=["accuracy"]).pairs[0]
    >>> pair.deltas["accuracy"].delta, pair.deltas["accuracy"].verdict()
    (-0.5, 'worse')
    """
    named = [run for run in runs if isinstance(run, Mapping)]
    if named and len(runs) > 1:
        raise InvalidValue("give runs one by one, or one mapping of names to runs")
    loaded = results_of(
        named[0] if named else [run for run in runs if not isinstance(run, Mapping)]
    )
    if costs is not None or price is not None:
        loaded = {name: what_if(run, costs, price) for name, run in loaded.items()}
    options = CompareOptions(
        tuple(_compared(metrics)), permutations, seed, level, margin, primary=primary
    )
    return compare_runs(loaded, options)


def _compared(metrics: Sequence[Metric]) -> list[Metric]:
    """Return names of scores that the runs have, and metrics of one's own or of a bundle as such.

    A name stays a name: the runs are compared in the form in which they were scored.
    """
    found: list[Metric] = []
    for one in [metrics] if isinstance(metrics, str) else metrics:
        own = isinstance(one, str) and (
            registry.is_place(one) or one.partition("[")[0] in registry.table("bundles")
        )
        found += metrics_from_names([str(one)]) if own else [one]
    return found
