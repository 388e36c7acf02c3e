"""The file of a table suite as YAML: read strictly, and refused while something is still TODO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonObject, JsonValue
from krisis.yaml_values import read_mapping

# What `krisis init` writes where only the user knows.
TODO = "TODO"


class Part(BaseModel):
    """A mapping in the file; ``shorthand`` is the key that a value alone stands for."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    shorthand: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: object) -> object:
        return cls._checked_keys(given)

    @classmethod
    def _checked_keys(cls, given: object) -> object:
        if cls.shorthand and not isinstance(given, Mapping):
            given = {cls.shorthand: given}
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if not isinstance(given, Mapping):
            raise ValueError(f"must be a mapping with keys such as {', '.join(known[:3])}")
        for key in given:
            if key not in known:
                raise ValueError(str(UnknownName.among("key", str(key), known)))
        return given


class SecondUnitSpec(Part):
    """Another unit of a column, for `--perturb unit`: number · factor + offset."""

    unit: StrictStr = Field(min_length=1)
    factor: StrictInt | StrictFloat
    offset: StrictInt | StrictFloat = 0
    usual: StrictStr = ""

    def check_beside(self, unit: str, usual: str, *, coded: bool) -> None:
        """Refuse a second unit where there is no first one, or the ranges are in one only."""
        if not unit or coded or not self.factor:
            raise ValueError("second_unit is for a number in a unit, and its factor is not 0")
        if bool(usual) != bool(self.usual):
            raise ValueError("usual must be given in both units or in neither")


def read_suite_file(path: Path) -> JsonObject:
    """Return what the file of a suite holds, or say in one sentence why it cannot be used."""
    content = suite_content(path)
    for place, words in open_todos(content):
        raise InvalidFile(f"{path}: {place} is still to be written ({words}); edit that line")
    return content


def suite_content(path: Path) -> JsonObject:
    """Return what the file of a suite holds, also where something is still to be written."""
    what = "a mapping that begins with `suite: table`"
    content = read_mapping(path, what, option="the name of the suite")
    if content.get("kind") == "krisis.run" or ("model" in content and "tasks" not in content):
        raise InvalidFile(f"{path} holds the settings of a run, not a suite; give it as --config")
    if content.get("suite") != "table":
        given = f"has suite: {content['suite']!r}" if "suite" in content else "has no key suite"
        raise InvalidFile(f"{path} {given}; begin the file of a table suite with `suite: table`")
    return content


def open_todos(content: JsonObject) -> Iterator[tuple[str, str]]:
    """Return place and text of everything that `krisis init` left to be written."""
    left: list[tuple[str, JsonValue]] = [("", content)]
    while left:
        place, value = left.pop()
        if isinstance(value, str) and value.startswith(TODO):
            yield place, value
        if not isinstance(value, dict | list):
            continue
        members = value.items() if isinstance(value, dict) else enumerate(value)
        left += reversed([(f"{place}.{key}".removeprefix("."), one) for key, one in members])
