"""The eight metrics on a million rows against a plain Python loop over the same rows."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterable

from benchmarks.timing import best_seconds, line
from krisis.metrics import (
    BaseMetric,
    EvaluationResult,
    default_abstention_metrics,
    default_accuracy_metrics,
    default_calibration_metrics,
)
from krisis.metrics.base import Rows
from krisis.metrics.scoring import score_all

N_ROWS = 1_000_000


def eight() -> list[BaseMetric]:
    return [
        *default_accuracy_metrics(),
        *default_calibration_metrics(),
        *default_abstention_metrics(),
    ]


def make_rows(n_rows: int) -> list[EvaluationResult]:
    draw = random.Random(0)
    return [
        EvaluationResult(
            draw.randrange(2),
            draw.randrange(2),
            draw.random() < 0.2,
            draw.random(),
            record_id=f"r{index}",
            metadata={"should_abstain": draw.random() < 0.3, "ckd_stage": draw.randrange(1, 6)},
        )
        for index in range(n_rows)
    ]


def equal(left: object, right: object) -> bool:
    if left is None or right is None:
        return False
    if left == right:
        return True
    try:
        return int(left) == int(right)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        return str(left).strip().lower() == str(right).strip().lower()


def stage_of(row: EvaluationResult) -> str:
    stage = row.metadata.get("ckd_stage")
    return "unknown_stage" if stage is None else f"stage_{stage}"


def share(pairs: Iterable[tuple[str, bool]]) -> float:
    """Return the share of hits after filling the breakdown that a report shows."""
    hits = total = 0
    groups: dict[str, list[int]] = {}
    for group, hit in pairs:
        total += 1
        hits += hit
        cell = groups.setdefault(group, [0, 0])
        cell[0] += hit
        cell[1] += 1
    return hits / total


def mean_recall(rows: list[EvaluationResult]) -> float:
    recall: dict[object, list[int]] = {}
    for r in rows:
        cell = recall.setdefault(r.ground_truth, [0, 0])
        cell[0] += not r.abstained and equal(r.prediction, r.ground_truth)
        cell[1] += 1
    return sum(hit / count for hit, count in recall.values()) / len(recall)


def calibration_error(rows: list[EvaluationResult]) -> float:
    bins = [[0, 0, 0.0] for _ in range(15)]
    n_usable = 0
    for r in rows:
        if not r.abstained and r.prediction is not None and r.confidence is not None:
            cell = bins[min(int(r.confidence * 15), 14)]
            cell[0] += 1
            cell[1] += equal(r.prediction, r.ground_truth)
            cell[2] += r.confidence
            n_usable += 1
    return sum(abs(hit - mass) for _, hit, mass in bins) / n_usable


def brier(rows: list[EvaluationResult]) -> float:
    squares = []
    for r in rows:
        if not r.abstained and r.prediction is not None and r.confidence is not None:
            probability = r.confidence if int(r.prediction) == 1 else 1 - r.confidence
            squares.append((probability - int(r.ground_truth)) ** 2)
    return sum(squares) / len(squares)


def plain_loop(rows: list[EvaluationResult]) -> list[float]:
    """Compute the eight metrics as a careful person would without NumPy."""
    return [
        share((stage_of(r), not r.abstained and equal(r.prediction, r.ground_truth)) for r in rows),
        mean_recall(rows),
        calibration_error(rows),
        brier(rows),
        share((stage_of(r), not r.abstained) for r in rows),
        share((stage_of(r), equal(r.prediction, r.ground_truth)) for r in rows if not r.abstained),
        share((stage_of(r), r.abstained) for r in rows),
        share(
            (stage_of(r), r.metadata["should_abstain"] == r.abstained)
            for r in rows
            if "should_abstain" in r.metadata
        ),
    ]


def measure_speed(rows: list[EvaluationResult]) -> None:
    start = time.perf_counter()
    expected = plain_loop(rows)
    loop_seconds = time.perf_counter() - start
    ready = Rows(rows)
    got = [score.value for score in score_all(eight(), ready).values()]
    assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(got, expected, strict=True))
    from_columns = loop_seconds / best_seconds(lambda: score_all(eight(), ready))
    line(
        "eight metrics from columns, times a plain loop",
        f"{from_columns:.1f}×",
        "≥ 20×",
        from_columns >= 20,
    )
    with_conversion = loop_seconds / best_seconds(lambda: score_all(eight(), list(rows)), repeats=3)
    line("the same including conversion", f"{with_conversion:.1f}×", "≥ 8×", with_conversion >= 8)


def measure_rows() -> list[EvaluationResult]:
    seconds = best_seconds(lambda: [EvaluationResult(1, 1, False, 0.5) for _ in range(100_000)])
    line("constructing 100,000 rows", f"{seconds:.3f} s", "≤ 0.2 s", seconds <= 0.2)
    tracemalloc.start()
    rows = make_rows(N_ROWS)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    line("1,000,000 rows with id and metadata in memory", f"{held:.0f} MB", "≤ 500 MB", held <= 500)
    return rows


def measure_start() -> None:
    def run(*arguments: str) -> float:
        command = [sys.executable, *arguments]
        return best_seconds(
            lambda: subprocess.run(command, check=True, capture_output=True), repeats=7
        )

    bare = run("-c", "pass")
    imported = (run("-c", "import krisis") - bare) * 1000
    line(
        "import krisis, beyond a bare interpreter", f"{imported:.0f} ms", "≤ 60 ms", imported <= 60
    )
    helped = (run("-c", "from krisis.cli.app import app; app(['--help'])") - bare) * 1000
    line("krisis --help, beyond a bare interpreter", f"{helped:.0f} ms", "≤ 250 ms", helped <= 250)


def main() -> None:
    measure_start()
    measure_speed(measure_rows())


if __name__ == "__main__":
    main()
