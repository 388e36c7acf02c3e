"""The one reader of YAML: every file and every option that holds YAML is read here.

YAML drops the first of two equal keys in silence, lets a few lines of anchors stand for millions of
values, and can take minutes for a large file. All three are refused in one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
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


def key_lines(text: str) -> dict[str, int]:
    """Return the line of every key of a YAML text by its path, and of every text in a list.

    >>> key_lines("tasks:\\n  main:\\n    features: [age]\\n")["tasks.main.features.age"]
    3
    """
    found: dict[str, int] = {}
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return found
    remaining: list[tuple[str, yaml.Node | None]] = [("", root)]
    while remaining and len(found) < _MOST_VALUES:
        place, node = remaining.pop()
        members: list[tuple[yaml.Node, yaml.Node | None]] = []
        if isinstance(node, yaml.MappingNode):
            members = list(node.value)
        elif isinstance(node, yaml.SequenceNode):
            members = [(item, None) for item in node.value]
        for key, value in members:
            if isinstance(key, yaml.ScalarNode):
                path = f"{place}.{key.value}".removeprefix(".")
                found.setdefault(path, key.start_mark.line + 1)
                remaining.append((path, value))
    return found


class Noted:
    """A value to be written as YAML with a comment after it, or lines of comment above it."""

    def __init__(self, value: JsonValue, note: str = "", *, above: Sequence[str] = ()) -> None:
        self.value, self.note, self.above = value, note, above


def yaml_text(content: Mapping[str, object], *, above: Sequence[str] = ()) -> str:
    """Return a mapping as YAML: a line for each key, mappings of plain values on one line.

    Values may be `Noted`. The text is read back and must give the same values.

    >>> print(yaml_text({"answers": Noted({"Y": "yes"}, "as in the table")}), end="")
    answers: {Y: 'yes'}  # as in the table
    """
    text = "\n".join([*(_comment(line) for line in above), *_yaml_lines(content, "")]) + "\n"
    if parse_yaml(text, "the draft") != _plain_values(content):
        raise AssertionError("a YAML text must give back the values that it was made from")
    return text


def _plain_values(value: object) -> JsonValue:
    if isinstance(value, Noted):
        return _plain_values(value.value)
    if isinstance(value, Mapping):
        return {key: _plain_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_values(one) for one in value]
    return value


def _comment(words: str) -> str:
    """Return a comment on one line; signs of control in a name of a column are spaces."""
    return f"# {''.join(sign if sign.isprintable() else ' ' for sign in words)}".rstrip()


def _yaml_lines(content: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, given in content.items():
        noted = given if isinstance(given, Noted) else Noted(given)
        value = noted.value
        yield from (f"{indent}{_comment(line)}" for line in noted.above)
        after = f"  {_comment(noted.note)}" if noted.note else ""
        name = _on_one_line(key)
        if isinstance(value, Mapping) and value and _is_deep(value):
            yield f"{indent}{name}:{after}"
            yield from _yaml_lines(value, f"{indent}  ")
        elif isinstance(value, list) and any(isinstance(item, Noted) for item in value):
            yield f"{indent}{name}:{after}"
            for item in value:
                one = item if isinstance(item, Noted) else Noted(item)
                yield from (f"{indent}  {_comment(line)}" for line in one.above)
                note = f"  {_comment(one.note)}" if one.note else ""
                yield f"{indent}  - {_on_one_line(one.value)}{note}"
        else:
            yield f"{indent}{name}: {_on_one_line(value)}{after}"


def _is_deep(value: Mapping[str, object]) -> bool:
    return any(isinstance(one, Mapping | Noted) for one in value.values())


def _on_one_line(value: JsonValue) -> str:
    written = yaml.safe_dump(
        value, sort_keys=False, default_flow_style=True, width=math.inf, allow_unicode=True
    )
    return written.removesuffix("\n").removesuffix("\n...")


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
