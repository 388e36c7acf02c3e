"""Report, row explorer and comparison at 160 and at 100,000 rows, against their limits."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.invented_runs import invented_rows, result_of, write_run

from benchmarks.timing import best_seconds, line
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.results.loading import load_result
from krisis.verbs.compare.pairs import CompareOptions, compare_runs
from krisis.viewer.app import _answer
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.filters import RowFilter
from krisis.viewer.pages import cases, runs

# At this number of rows every limit of the large case holds.
N_LARGE = 100_000
QUERIES = {
    "unfiltered": {},
    "outcome and correctness": {"outcome": "answered", "correct": "no"},
    "text, first time": {"text": "confidence"},
    "rare text and range": {"text": "case-0777", "confidence_min": "0.5", "confidence_max": "0.9"},
    "cell, stage, surest first, page 40": {
        "cell": "answer_when_safe",
        "group": "stage: 3",
        "sort": "-confidence",
        "page": "40",
    },
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for n_rows, most_seconds, most_megabytes in ((160, 5.0, 2.5), (N_LARGE, 15.0, 6.0)):
            run = write_run(Path(folder) / f"run-{n_rows}", result_of(invented_rows(n_rows)))
            _report(run, n_rows, most_seconds, most_megabytes)
        _explorer(Path(folder))
    _comparison()


def _report(run: Path, n_rows: int, most_seconds: float, most_megabytes: float) -> None:
    start = time.perf_counter()
    result = load_result(run)
    loaded = time.perf_counter() - start
    seconds = best_seconds(lambda: page_of(run_document(result)), repeats=2) + loaded
    megabytes = len(page_of(run_document(result)).encode()) / 1e6
    words = f"report of {n_rows:,} rows, reading included"
    line(words, f"{seconds:.2f} s", f"≤ {most_seconds:g} s", seconds <= most_seconds)
    line(
        "size of that page",
        f"{megabytes:.2f} MB",
        f"≤ {most_megabytes:g} MB",
        megabytes <= most_megabytes,
    )


def _explorer(folder: Path) -> None:
    catalogue = Catalogue(folder)
    name = f"run-{N_LARGE}"
    start = time.perf_counter()
    catalogue.load(name).select(RowFilter())
    line(
        "opening 100,000 rows for the first time",
        f"{time.perf_counter() - start:.2f} s",
        "(no limit)",
        True,
    )
    scope = {"headers": [], "path": "/"}
    _answer(scope, cases.page(catalogue, "run-160", {}))  # templates are compiled once per server
    for words, query in QUERIES.items():
        seconds = _seconds(lambda q=query: _answer(scope, cases.page(catalogue, name, q)))
        line(f"cases, {words}", f"{seconds * 1000:.0f} ms", "≤ 150 ms", seconds <= 0.15)
    seconds = _seconds(lambda: _answer(scope, runs.page(catalogue, {}, ())))
    line("list of runs", f"{seconds * 1000:.0f} ms", "≤ 150 ms", seconds <= 0.15)


def _seconds(action: object) -> float:
    """Time the very first call, without any help of a cache that it fills itself."""
    start = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - start


def _comparison() -> None:
    for n_rows, n_permutations in ((160, 9_999), (N_LARGE, 1_999)):
        runs = {
            name: result_of(invented_rows(n_rows, skill=skill))
            for name, skill in (("left", 1.0), ("right", 0.9))
        }
        options = CompareOptions(n_permutations=n_permutations)
        seconds = best_seconds(lambda r=runs, o=options: compare_runs(r, o), repeats=1)
        words = f"comparison of 2 × {n_rows:,} rows, {n_permutations:,} permutations"
        line(words, f"{seconds:.2f} s", "(no limit)", True)


if __name__ == "__main__":
    main()
