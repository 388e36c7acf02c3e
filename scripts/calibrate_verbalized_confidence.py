"""Fit a temperature to verbalized confidence: `krisis calibrate` with its method and signal."""

from __future__ import annotations

import sys

from published_options import translated

from krisis.cli.app import main

if __name__ == "__main__":
    inputs, others = translated(sys.argv[1:])
    fixed = ["--calibrator", "temperature_scaling", "--signals", "verbalized_confidence"]
    sys.argv[1:] = ["calibrate", *inputs, *fixed, *others]
    main()
