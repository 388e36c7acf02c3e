"""Train a supervised confidence calibrator: `krisis calibrate` under its script name."""

from __future__ import annotations

import sys

from krisis.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = ["calibrate"]
    main()
