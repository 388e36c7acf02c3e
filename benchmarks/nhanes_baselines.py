"""The tables of the page on diabetes and hypertension: answers, and every baseline.

Run `python -m benchmarks.nhanes_baselines`; it takes about two minutes.
"""

from __future__ import annotations

from collections import Counter
from math import isnan

from benchmarks.decision_skill import skill_cells
from krisis import Benchmark, registry
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.data.nhanes.hypertension import HypertensionSuite
from krisis.data.nhanes.suite import SurveySuite
from krisis.execution.options import Execution
from krisis.metrics.base import MetricScore
from krisis.metrics.scoring import metric_from_name

ANSWERING = {
    "logistic": {"least_confidence": 0.0},
    "boosting": {"least_confidence": 0.0},
    "guideline": {"risk": 0.999},
}
PRICES = {"diabetes": (0.02, 0.05), "hypertension": (0.1, 0.2)}


def suites() -> list[tuple[str, SurveySuite]]:
    return [
        ("diabetes undiagnosed", DiabetesSuite()),
        ("hypertension third-reading ACC/AHA 2025", HypertensionSuite()),
        ("hypertension third-reading ESC 2024", HypertensionSuite(guideline="ESC 2024")),
    ]


def cell(score: MetricScore) -> str:
    if isnan(score.value):
        return "–"
    between = (
        "" if score.interval is None else f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    )
    return f"{score.value:.3f}{between}".replace("0.", ".")


def main() -> None:
    for name, suite in suites():
        records = [*suite.load(), *suite.training_records()]
        labels = Counter(str(record.label) for record in records)
        held_out = len(suite.load())
        shares = ", ".join(f"{k} {v:,} ({v / len(records):.3f})" for k, v in labels.most_common())
        print(f"{name}: {len(records):,} people, {held_out:,} held out: {shares}")
        metrics = [metric_from_name(key) for key in (*suite.task.metrics, "accuracy")]
        for baseline in suite.baselines:
            if baseline in ("always-answer", "always-abstain"):
                continue
            backend = registry.find("backends", baseline)(**ANSWERING.get(baseline, {}))
            ran = Benchmark(suite, backend, metrics, execution=Execution(baselines=False)).run()
            cells = [cell(score) for score in ran.metric_scores.values()]
            skill = [skill_cells(ran, price) for price in PRICES[suite.name]]
            print(f"| {baseline} | {' | '.join([*cells, *skill])} |", flush=True)


if __name__ == "__main__":
    main()
