"""Loading the kidney suite against reading its file; deferral labels against plain loops."""

from __future__ import annotations

import csv
import math
import tempfile
from pathlib import Path

from benchmarks.timing import best_seconds, line
from krisis.data.base import SuiteConfig
from krisis.data.ckd import posterior, setting
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.egfr import LOG_CREATININE_SD, creatinine_for
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import uci_text


def load_file(path: Path) -> None:
    """What a user waits for: 400 patients of a file with their labels."""
    clear()
    suite = CKDSuite(SuiteConfig(), path)
    assert len(suite.load()) + len(suite.training_records()) == 400


def load_cohort(task: str) -> None:
    clear()
    assert len(CKDSuite(SuiteConfig(task=task)).load()) == 200


def clear() -> None:
    posterior._of_creatinine.cache_clear()


def read_plainly(path: Path) -> None:
    with path.open(newline="") as file:
        assert sum(1 for _ in csv.DictReader(file)) == 400


def labels_by_posterior(cases: list[dict[str, float]]) -> list[float]:
    clear()
    return [float(posterior.posterior(case).sum(axis=1).max()) for case in cases]


def labels_by_loops(cases: list[dict[str, float]]) -> list[float]:
    """The same sum over diabetes, sex, age and cells for creatinine alone, one by one."""
    grid = setting.egfr_grid()
    found = []
    for case in cases:
        low, high = math.log(case["sc"] - 0.05), math.log(case["sc"] + 0.05)
        sums = [0.0] * 6
        for diabetes, of_diabetes in ((0, 0.7), (1, 0.3)):
            for age, of_age in zip(setting.AGES, setting.AGE_PROBABILITIES, strict=True):
                for cell, log_egfr in enumerate(grid.log_egfr):
                    category = int(grid.category[cell])
                    prior = of_diabetes * of_age * setting.CATEGORY_SHARES[diabetes][category]
                    prior *= grid.share_of_category[cell]
                    for female in (False, True):
                        mean = math.log(creatinine_for(math.exp(log_egfr), age, female=female))
                        sums[category] += 0.5 * prior * (normal(high, mean) - normal(low, mean))
        found.append(max(sums) / sum(sums))
    return found


def normal(value: float, mean: float) -> float:
    return 0.5 * math.erfc((mean - value) / (LOG_CREATININE_SD * math.sqrt(2)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        path.write_text(uci_text(draw_cohort(400, seed=1)))
        seconds = best_seconds(lambda: load_file(path))
        floor = best_seconds(lambda: read_plainly(path))
    line("load 400 patients of a file", f"{seconds:.3f} s", "at most 1 s", seconds <= 1.0)
    line("  against reading the CSV alone", f"{seconds / floor:.0f} times", "stated", True)
    for task in CKDSuite.tasks:
        seconds = best_seconds(lambda task=task: load_cohort(task))
        line(f"load 200 patients, {task}", f"{seconds:.3f} s", "at most 1 s", seconds <= 1.0)
    case = [{"sc": 1.3}]
    assert abs(labels_by_posterior(case)[0] - labels_by_loops(case)[0]) < 1e-9
    seconds = best_seconds(lambda: labels_by_posterior(case))
    floor = best_seconds(lambda: labels_by_loops(case), repeats=1)
    ratio = seconds / floor
    line("exact posterior against plain loops", f"{ratio:.4f}", "at most 0.05", ratio <= 0.05)
