"""Run every benchmark, or those named: python -m benchmarks [NAME …]."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

# Not measured by `make bench`: parts of others, and simulations or large files that take minutes to
# hours. Each of these is a program of its own, such as python -m benchmarks.coverage.
APART = {
    "auroc",
    "comparison",
    "__main__",
    "timing",
    "coverage_worlds",
    "audit",
    "certify",
    "ckd",
    "clinical_coverage",
    "coverage",
    "decide",
    "decision_coverage",
    "monitor",
    "nhanes_baselines",
    "parquet",
    "plan",
    "run_file",
    "stop_when",
    "support2",
    "verdict",
    "viewer",
    "walk",
}


def present() -> list[str]:
    """Return the names of all modules here."""
    return [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]


def main() -> None:
    names = sys.argv[1:]
    if len(names) == 1:
        module = import_module(f"benchmarks.{names[0]}")
        sys.argv = [f"benchmarks.{names[0]}"]  # the name is not an option of the benchmark
        print(f"{names[0]}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.main()
        return
    # Each in a process of its own: what one holds in memory must not count against the next.
    broken = [
        name
        for name in names or [name for name in present() if name not in APART]
        if subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode
    ]
    if broken:
        sys.exit(f"not finished: {', '.join(broken)}")


if __name__ == "__main__":
    main()
