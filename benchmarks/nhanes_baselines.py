"""The tables of the page on diabetes: answers, and every baseline.

Run `python -m benchmarks.nhanes_baselines`.
"""

from __future__ import annotations

from collections import Counter
from math import isnan

from benchmarks.decision_skill import skill_cells
from krisis import Benchmark, registry
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.execution.options import Execution
from krisis.metrics.base import MetricScore
from krisis.metrics.scoring import metric_from_name

ANSWERING = {
    "logistic": {"least_confidence": 0.0},
    "boosting": {"least_confidence": 0.0},
}
PRICES = (0.02, 0.05)


def cell(score: MetricScore) -> str:
    if isnan(score.value):
        return "–"
    between = (
        "" if score.interval is None else f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    )
    return f"{score.value:.3f}{between}".replace("0.", ".")


def main() -> None:
    suite = DiabetesSuite()
    records = [*suite.load(), *suite.training_records()]
    labels = Counter(str(record.label) for record in records)
    held_out = len(suite.load())
    shares = ", ".join(f"{k} {v:,} ({v / len(records):.3f})" for k, v in labels.most_common())
    print(f"{len(records):,} people, {held_out:,} held out: {shares}")
    metrics = [metric_from_name(key) for key in (*suite.task.metrics, "accuracy")]
    for baseline in (*suite.baselines, "boosting"):
        if baseline == "always-abstain":
            continue
        backend = registry.find("backends", baseline)(**ANSWERING.get(baseline, {}))
        ran = Benchmark(suite, backend, metrics, execution=Execution(baselines=False)).run()
        cells = [cell(score) for score in ran.metric_scores.values()]
        skill = [skill_cells(ran, price) for price in PRICES]
        print(f"| {baseline} | {' | '.join([*cells, *skill])} |", flush=True)


if __name__ == "__main__":
    main()
