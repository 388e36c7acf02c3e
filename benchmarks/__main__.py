"""Run every benchmark, or those named: python -m benchmarks [NAME …]."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from pathlib import Path

QUIET = {"timing", "__main__"}


def main() -> None:
    present = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)])]
    for name in sys.argv[1:] or [name for name in present if name not in QUIET]:
        module = import_module(f"benchmarks.{name}")
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.main()


if __name__ == "__main__":
    main()
