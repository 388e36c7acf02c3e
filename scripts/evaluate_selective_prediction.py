"""Evaluate selective prediction: `krisis selective`, which writes its artifact beside the input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from krisis.cli.app import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--output", "-o")
    given, _ = parser.parse_known_args()
    if given.input and given.output is None:
        sys.argv += ["--output", str(Path(given.input[0]).parent)]
    sys.argv[1:1] = ["selective"]
    main()
