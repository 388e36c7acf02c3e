"""Run every benchmark, or those named: python -m benchmarks [NAME …]."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

# Programs of their own: python -m benchmarks.coverage (takes an hour), python -m benchmarks.walk,
# python -m benchmarks.viewer, .parquet and .ckd (take minutes)
QUIET = {
    "timing",
    "ckd",
    "nhanes_baselines",
    "coverage",
    "coverage_worlds",
    "certify",
    "decide",
    "walk",
    "viewer",
    "parquet",
    "__main__",
}


def main() -> None:
    names = sys.argv[1:]
    if len(names) == 1:
        module = import_module(f"benchmarks.{names[0]}")
        print(f"{names[0]}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.main()
        return
    present = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)])]
    # Each in a process of its own: what one holds in memory must not count against the next.
    for name in names or [name for name in present if name not in QUIET]:
        subprocess.run([sys.executable, "-m", "benchmarks", name], check=True)


if __name__ == "__main__":
    main()
