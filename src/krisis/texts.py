"""Texts that people read are TOML files next to the code that shows them; here they are read."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from krisis.json_values import JsonObject


def stated_in(package: str, file: str) -> JsonObject:
    """Return what a TOML file of texts next to the code states."""
    return tomllib.loads(files(package).joinpath(file).read_text(encoding="utf-8"))
