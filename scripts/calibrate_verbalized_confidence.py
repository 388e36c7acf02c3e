"""Fit a temperature to verbalized confidence: `krisis calibrate` with its method and feature."""

from __future__ import annotations

import sys

from krisis.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = [
        "calibrate",
        "--method",
        "temperature_scaling",
        "--features",
        "verbalized_confidence",
    ]
    main()
