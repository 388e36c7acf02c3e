"""Train a supervised confidence calibrator: `krisis calibrate` under its script name."""

from __future__ import annotations

import sys

from published_options import translated

from krisis.cli.app import main

if __name__ == "__main__":
    inputs, others = translated(sys.argv[1:])
    sys.argv[1:] = ["calibrate", *inputs, *others]
    main()
