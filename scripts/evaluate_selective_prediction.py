"""Evaluate selective prediction: `krisis selective`, its artifact next to the input."""

from __future__ import annotations

import sys
from pathlib import Path

from published_options import translated

from krisis.cli.app import main
from krisis.selective_prediction import parse_items

__all__ = ["parse_items"]

if __name__ == "__main__":
    inputs, others = translated(sys.argv[1:])
    names = {word.partition("=")[0] for word in others}
    if inputs and not names & {"--output", "-o"}:
        others += ["--output", str(Path(inputs[0]).parent)]
    sys.argv[1:] = ["selective", *inputs, *others]
    main()
