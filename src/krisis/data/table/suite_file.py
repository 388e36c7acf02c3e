"""The file of a table suite as YAML: read strictly, and refused while something is still TODO."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import ClassVar

import yaml
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

# What `krisis init` writes where only the user knows.
TODO = "TODO"
# An anchor inside itself has no end, and few lines of anchors can stand for millions of values.
_MOST_VALUES = 100_000


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


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice, of which YAML would drop the first."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, JsonValue]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {line}: a key must be a word or a number")
            if key.value in seen:
                raise yaml.YAMLError(f"line {line}: the key {key.value!r} is written twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_suite_file(path: Path) -> JsonObject:
    """Return what the file of a suite holds, or say in one sentence why it cannot be used."""
    content = _content(path)
    if not isinstance(content, dict):
        raise InvalidFile(f"{path} must hold a mapping that begins with `suite: table`")
    if content.get("kind") == "krisis.run" or ("model" in content and "tasks" not in content):
        raise InvalidFile(f"{path} holds the settings of a run, not a suite; give it as --config")
    if content.get("suite") != "table":
        given = f"has suite: {content['suite']!r}" if "suite" in content else "has no key suite"
        raise InvalidFile(f"{path} {given}; begin the file of a table suite with `suite: table`")
    if todo := _open_todo(content, path):
        raise InvalidFile(f"{path}: {todo[0]} is still to be written ({todo[1]}); edit that line")
    return content


def _content(path: Path) -> JsonValue:
    if path.is_dir():
        raise InvalidFile(f"{path} is a directory; give the YAML file of a suite in it")
    try:
        content: JsonValue = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506
    except FileNotFoundError:
        raise InvalidFile(f"there is no file {path}; give the YAML file of a suite") from None
    except UnicodeDecodeError:
        raise InvalidFile(f"{path} is not text in UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InvalidFile(f"{path} is not YAML: {place}{error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidFile(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return content


def _open_todo(content: JsonObject, path: Path) -> tuple[str, str] | None:
    """Return place and text of the first thing that `krisis init` left to be written."""
    left: list[tuple[str, JsonValue]] = [("", content)]
    n_values = 0
    while left:
        place, value = left.pop()
        n_values += 1
        if n_values > _MOST_VALUES:
            raise InvalidFile(
                f"{path} holds more than {_MOST_VALUES} values, or an anchor inside itself; write "
                "without anchors"
            )
        if isinstance(value, str) and value.startswith(TODO):
            return place, value
        if not isinstance(value, dict | list):
            continue
        members = value.items() if isinstance(value, dict) else enumerate(value)
        left += reversed([(f"{place}.{key}".removeprefix("."), one) for key, one in members])
    return None
