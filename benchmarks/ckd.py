"""Loading the kidney suite against reading its file; deferral labels against plain loops."""

from __future__ import annotations

import csv
import math
import tempfile
from pathlib import Path

from benchmarks.timing import best_seconds, line
from krisis.data.base import SuiteConfig
from krisis.data.ckd import latent, posterior
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.egfr import creatinine_for
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import uci_text


def load_file(path: Path) -> None:
    """What a user waits for: 80 held-out and 200 synthetic patients with their labels."""
    clear()
    assert len(CKDSuite(SuiteConfig(), path).load()) == 280


def clear() -> None:
    for cached in (posterior._person, posterior._prior, posterior._measured, posterior._below):
        cached.cache_clear()


def read_plainly(path: Path) -> None:
    with path.open(newline="") as file:
        assert sum(1 for _ in csv.DictReader(file)) == 400


def labels_by_posterior(cases: list[dict[str, float]]) -> list[float]:
    clear()
    return [float(posterior.posterior(case).categories.max()) for case in cases]


def labels_by_loops(cases: list[dict[str, float]]) -> list[float]:
    """The same sum over sex, age and cells for creatinine alone, one number at a time."""
    grid = latent.gfr_grid()
    found = []
    for case in cases:
        low, high = math.log(case["sc"] - 0.05), math.log(case["sc"] + 0.05)
        sums = [0.0] * 6
        for diabetes in (0, 1):
            of_diabetes = 0.3 if diabetes else 0.7
            chance = float(latent.hypertension_probability(diabetes))
            for hypertension in (0, 1):
                of_causes = of_diabetes * (chance if hypertension else 1 - chance)
                for age, of_age in zip(latent.AGES, latent.AGE_PROBABILITIES, strict=True):
                    weights = latent.category_weights(age, diabetes, hypertension)
                    for cell, gfr in enumerate(grid.gfr):
                        category = int(grid.category[cell])
                        prior = of_causes * of_age * weights[category]
                        prior *= grid.share_of_category[cell]
                        for female in (False, True):
                            mean = math.log(creatinine_for(gfr, age, female=female))
                            sums[category] += 0.5 * prior * (normal(high, mean) - normal(low, mean))
        found.append(max(sums) / sum(sums))
    return found


def normal(value: float, mean: float) -> float:
    return 0.5 * math.erfc((mean - value) / (latent.LOG_CREATININE_SD * math.sqrt(2)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        path.write_text(uci_text(draw_cohort(400, seed=1)))
        seconds = best_seconds(lambda: load_file(path))
        floor = best_seconds(lambda: read_plainly(path))
    what = "load 80 real and 200 synthetic patients"
    line(what, f"{seconds:.3f} s", "at most 1 s", seconds <= 1.0)
    line("  against reading the CSV alone", f"{seconds / floor:.0f} times", "stated", True)
    case = [{"sc": 1.3}]
    assert abs(labels_by_posterior(case)[0] - labels_by_loops(case)[0]) < 1e-9
    seconds = best_seconds(lambda: labels_by_posterior(case))
    floor = best_seconds(lambda: labels_by_loops(case), repeats=1)
    ratio = seconds / floor
    line("exact posterior against plain loops", f"{ratio:.4f}", "at most 0.05", ratio <= 0.05)
