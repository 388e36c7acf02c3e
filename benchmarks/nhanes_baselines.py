"""The tables of the pages on real people: labels, reasons to defer, and every baseline.

Run `python -m benchmarks.nhanes_baselines`; it takes some minutes.
"""

from __future__ import annotations

from collections import Counter
from math import isnan

from tests.data.nhanes import prompt_reader

from krisis import Benchmark, SuiteConfig
from krisis.backends.catalogue import backend_from_name
from krisis.backends.scripted import ScriptedBackend
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.data.nhanes.hypertension import HypertensionSuite
from krisis.data.nhanes.suite import SurveySuite
from krisis.execution.options import Execution
from krisis.metrics.base import MetricScore
from krisis.metrics.scoring import metric_from_name

METRICS = (
    *("right_decisions", "answerable_accuracy", "undue_answer_rate"),
    *("selective_accuracy", "answer_rate", "deferral_alignment"),
)
READER = "prompt-only reader"


def suites() -> list[tuple[str, SurveySuite]]:
    found: list[tuple[str, SurveySuite]] = [
        (f"diabetes {task}", DiabetesSuite(SuiteConfig(task=task))) for task in DiabetesSuite.tasks
    ]
    for task in HypertensionSuite.tasks:
        for guideline in (None,) if "unnamed" in task else ("ACC/AHA 2017", "ESC 2024"):
            suite = HypertensionSuite(SuiteConfig(task=task), guideline=guideline)
            found.append((" ".join(filter(None, ("hypertension", task, guideline))), suite))
    return found


def shares(name: str, suite: SurveySuite) -> None:
    """Print labels and reasons over everybody, held out or not."""
    records = [*suite.load(), *suite.training_records()]
    n = len(records)
    labels = Counter(str(record.label) for record in records)
    reasons = Counter(reason for r in records for reason in r.metadata["abstain_reasons"])
    kinds = Counter(str(record.metadata["deferral_kind"]) for record in records)
    print(f"{name}: {n} people, {suite.describe()['n_records']} held out")
    for what, found in (("label", labels), ("reason", reasons), ("kind", kinds)):
        print(f"  {what}: {', '.join(f'{k} {v} ({v / n:.3f})' for k, v in found.most_common())}")


def cell(score: MetricScore) -> str:
    if isnan(score.value):
        return "–"
    between = (
        "" if score.interval is None else f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    )
    return f"{score.value:.3f}{between}".replace("0.", ".")


def main() -> None:
    metrics = [metric_from_name(name) for name in METRICS]
    for name, suite in suites():
        shares(name, suite)
        for baseline in (*suite.baselines, READER):
            backend = backend_from_name(baseline) if baseline != READER else None
            backend = backend or ScriptedBackend(prompt_reader.reply)
            ran = Benchmark(
                suite, backend, metrics, batch_size=1, execution=Execution(baselines=False)
            ).run()
            cells = [cell(ran.metric_scores[key]) for key in METRICS]
            print(f"| {baseline} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
