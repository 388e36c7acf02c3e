"""Evaluate selective prediction: the command `krisis selective` under its script name."""

from __future__ import annotations

import sys

from krisis.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = ["selective"]
    main()
