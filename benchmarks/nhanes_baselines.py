"""The tables of the page on diabetes: answers, and every baseline by the costs of the task.

Run `python -m benchmarks.nhanes_baselines`.
"""

from __future__ import annotations

from collections import Counter
from math import isnan

from krisis import Benchmark, registry
from krisis.data.base import SuiteConfig
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.execution.options import Execution
from krisis.metrics.base import MetricScore
from krisis.metrics.scoring import metric_from_name

PRICES = (0.02, 0.05)
METRICS = ("disease_auroc", "decision_cost", "cost_saved")


def cell(score: MetricScore) -> str:
    if isnan(score.value):
        return "–"
    between = (
        "" if score.interval is None else f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    )
    return f"{score.value:.3f}{between}"


def main() -> None:
    suite = DiabetesSuite()
    records = [*suite.load(), *suite.training_records()]
    labels = Counter(str(record.label) for record in records)
    held_out = len(suite.load())
    shares = ", ".join(f"{k} {v:,} ({v / len(records):.3f})" for k, v in labels.most_common())
    print(f"{len(records):,} people, {held_out:,} held out: {shares}")
    for baseline in (*suite.baselines, "boosting"):
        cells = []
        for price in PRICES:
            suite = DiabetesSuite(SuiteConfig(price=price))
            metrics = [metric_from_name(key) for key in METRICS]
            backend = registry.find("backends", baseline)()
            ran = Benchmark(suite, backend, metrics, execution=Execution(baselines=False)).run()
            auroc, cost, saved = (cell(ran.metric_scores[key]) for key in METRICS)
            deferred = sum(row.abstained for row in ran.evaluation_results) / held_out
            cells += [cost, saved, f"{deferred:.2f}"]
        print(f"| {baseline} | {' | '.join([auroc, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
