"""Every benchmark starts: it imports, and its entry point ends when it is given little to do."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest
from benchmarks.__main__ import APART, main, present

PARTS = {"__main__", "timing", "coverage_worlds"}
# Benchmark → constants that make it small. What is absent here is small by its options, below.
SMALL: dict[str, dict[str, object]] = {
    "execution": {"N_CALLS": 10, "N_ROUNDS": 1, "SIZES": (10, 20)},
    "metrics": {"N_ROWS": 500},
    "phq8": {"N_PARTICIPANTS": 5},
    "reporting": {"N_LARGE": 200},
    "selective": {"N_LARGE": 1000},
    "tables": {"N_ROWS": 5000},
}
# These start servers or commands, which takes longer than a quick test may.
LONG = {"execution", "reporting", "selective"}
OPTIONS = {
    "audit": ["--runs", "2", "--draws", "99", "--only", "nothing"],
    "certify": ["--runs", "2", "--world", "nothing"],
    "clinical_coverage": ["--runs", "2", "--match", "nothing"],
    "decision_coverage": ["--runs", "2", "--task", "nothing"],
    "coverage": ["--runs", "2", "--match", "nothing"],
    "monitor": ["--histories", "1"],
    "plan": ["--runs", "2", "--only", "nothing"],
    "stop_when": ["--runs", "5", "--looks", "5"],
    "verdict": ["--runs", "2", "--only", "nothing"],
}


@pytest.mark.parametrize("name", [name for name in present() if name not in PARTS])
def test_every_benchmark_imports_and_has_an_entry_point(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").main)


def test_every_benchmark_of_make_bench_is_tried_here() -> None:
    assert {name for name in present() if name not in APART} - {"cluster"} == set(SMALL)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in SMALL]
)
def test_make_bench_reaches_the_end_of_every_benchmark(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(f"benchmarks.{name}")
    for constant, value in SMALL[name].items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sys, "argv", ["benchmarks", name])
    main()
    assert capsys.readouterr().out.count("wanted") >= 2


@pytest.mark.parametrize("name", [name for name in OPTIONS if name in present()])
def test_the_name_of_a_benchmark_is_not_one_of_its_options(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"benchmarks.{name}")
    seen: list[list[str]] = []
    monkeypatch.setattr(module, "main", lambda: seen.append(sys.argv[1:]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", name])
    main()
    assert seen == [[]]


@pytest.mark.parametrize(("name", "options"), OPTIONS.items())
def test_a_simulation_reads_its_options(
    name: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [name, *options])
    import_module(f"benchmarks.{name}").main()
