"""The one reader of YAML: every file and every option that holds YAML is read here.

YAML drops the first of two equal keys in silence, lets a few lines of anchors stand for millions of
values, and can take minutes for a large file. All three are refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import yaml

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, JsonValue

_MOST_BYTES = 4_000_000
# An anchor inside itself has no end.
_MOST_VALUES = 100_000
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Builds plain values only, and refuses a key that is written twice."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, JsonValue]:
        seen: set[Hashable] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {line}: a key must be a word or a number")
            # Equal as text ('1' and "1") or as a value (1 and 1.0, of which a dict keeps one).
            same: set[Hashable] = {key.value}
            if key.tag != _MERGE:  # `<<`, which takes in the keys of an anchor
                same.add(self.construct_object(key))
            if seen & same:
                raise yaml.YAMLError(f"line {line}: the key {key.value!r} is written twice")
            seen |= same
        return super().construct_mapping(node, deep=deep)


def read_mapping(path: Path, what: str, *, option: str) -> JsonObject:
    """Read a YAML or JSON file that must hold a mapping.

    ``what`` is what the file must hold, and ``option`` where the user named it; both are for the
    sentence that refuses the file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InvalidFile(f"{path} does not exist; check {option}") from None
    except IsADirectoryError:
        raise InvalidFile(f"{path} is a directory; name a YAML file, and check {option}") from None
    except UnicodeDecodeError:
        raise InvalidFile(f"{path} is not text in UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise InvalidFile(
            f"{path} is larger than {_MOST_BYTES // 1_000_000} MB and must hold {what}; "
            f"check {option}"
        )
    found = parse_yaml(text, str(path))
    if not isinstance(found, dict):
        raise InvalidFile(f"{path} must hold {what}")
    return found


def parse_yaml(text: str, place: str) -> JsonValue:
    """Return the plain values of a YAML text; ``place`` is where it was found.

    >>> parse_yaml("require: [accuracy >= 0.8]", "gate.yaml")
    {'require': ['accuracy >= 0.8']}
    """
    try:
        content: JsonValue = yaml.load(text, _Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InvalidFile(f"{place} is not YAML: {line}{error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2024-99-99
        raise InvalidFile(f"{place} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InvalidFile(f"{place} is YAML nested too deeply; write it flatter") from None
    _check_number_of_values(content, place)
    return content


def _check_number_of_values(content: JsonValue, place: str) -> None:
    remaining, n_values = [content], 0
    while remaining:
        value = remaining.pop()
        n_values += 1
        if n_values > _MOST_VALUES:
            raise InvalidFile(
                f"{place} holds more than {_MOST_VALUES} values, or an anchor inside itself; write "
                "it without anchors"
            )
        if isinstance(value, dict):
            remaining += value.values()
        elif isinstance(value, list | set | tuple):
            remaining += value
