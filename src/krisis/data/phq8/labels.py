"""Label files as corpora bring them: several read together, holes and contradictions found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from krisis.data.phq8.findings import Findings, Place, table_rows
from krisis.data.phq8.items import ITEM_KEYS, N_SCORES

SPLITS = ("train", "dev", "test")
_HIGHEST = N_SCORES - 1
_HIGHEST_TOTAL = _HIGHEST * len(ITEM_KEYS)
_NAMED_SPLIT = re.compile(r"(?:^|_)(train|dev|test)_split")
_PREFIX = re.compile(r"^phq8?[1-8]?(?=[a-z])")
_ITEMS = {
    **{key.lower(): key for key in ITEM_KEYS},
    "concentration": "Concentrating",
    "psychomotor": "Moving",
}
_OTHERS = {
    **dict.fromkeys(("participantid", "participant"), "participant"),
    **dict.fromkeys(("phq8score", "phqscore", "phq8total"), "total"),
    "split": "split",
}
_NOT_GIVEN = frozenset({"", "na", "n/a", "nan", "null", "none"})


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value with its place."""

    place: Place
    column: str
    text: str

    def whole(self, highest: int) -> int | None:
        """Return the value as a whole number from 0 to the highest, else None; 2.0 is 2."""
        digits = re.fullmatch(r"([0-9]{1,3})(?:\.0+)?", self.text)
        number = int(digits[1]) if digits else highest + 1
        return number if number <= highest else None

    @property
    def given(self) -> bool:
        """Tell whether anything is in the cell."""
        return self.text.lower() not in _NOT_GIVEN

    def refuse(self, name: str, wanted: str) -> None:
        """Add the fault that the value is not what it must be."""
        problem = f"participant {name}: the value must be {wanted}, not {self.text[:40]!r}"
        self.place.add("fault", problem, self.column, self.text, name)

    def leave_out(self, name: str, problem: str) -> None:
        """Add that the item or the participant is left out."""
        self.place.add("left_out", f"participant {name} {problem}", self.column, self.text, name)


@dataclass(slots=True)
class PersonLabels:
    """What all label files say of one participant; ``holes`` are items without a score."""

    scores: dict[str, int] = field(default_factory=dict)
    holes: dict[str, _Cell] = field(default_factory=dict)
    totals: list[_Cell] = field(default_factory=list)
    split: str = ""
    contradicts: bool = False


def read_labels(files: Sequence[Path], findings: Findings) -> dict[str, PersonLabels]:
    """Read all label files together, by participant; what they say twice must agree."""
    people: dict[str, PersonLabels] = {}
    with_items = [_read_file(Place(findings, file), people) for file in files]
    if files and not any(with_items):
        Place(findings, files[0], 1).fault(
            f"no labels file has item scores; one needs the columns PHQ8_{ITEM_KEYS[0]} … "
            f"PHQ8_{ITEM_KEYS[-1]} (read: {', '.join(file.name for file in files)})"
        )
    for name, person in people.items():
        # With a score that could not be read there is no sum.
        if person.scores and len(person.scores) + len(person.holes) == len(ITEM_KEYS):
            _check_totals(name, person)
        if person.scores and not person.contradicts:
            for cell in person.holes.values():
                cell.leave_out(name, "has no score for this item; the item is left out")
    return people


def _read_file(place: Place, people: dict[str, PersonLabels]) -> bool:
    """Add what a file says and tell whether it has columns of items, or cannot be read."""
    _, rows = table_rows(place)
    line, header = next(rows, (1, []))
    columns = _columns(place.at(line), header)
    if "participant" not in columns.values():
        if header:
            problem = f"the column is missing, found {', '.join(header)[:200]}"
            place.at(line).fault(problem, "Participant_ID")
        return True
    seen: dict[str, int] = {}
    for number, row in rows:
        here = place.at(number)
        cells = {
            name: _Cell(here, header[index].strip(), row[index].strip())
            for index, name in columns.items()
            if index < len(row)
        }
        if len(row) < len(header):
            column = header[len(row)].strip()
            here.fault("the line ends before this column; fill it up", column)
        name = _person(here, cells, seen)
        if name:
            _add(name, people.setdefault(name, PersonLabels()), cells)
    _tell_what_was_read(place, len(seen), list(columns.values()))
    return bool(set(columns.values()) & set(ITEM_KEYS))


def _tell_what_was_read(place: Place, n_people: int, columns: Sequence[str]) -> None:
    n_items = len(set(columns) & set(ITEM_KEYS))
    read = [f"{n_items} items" if n_items else "no item scores"]
    read += [name for name in ("total", "split") if name in columns]
    split = "" if "split" in columns else _split_of(place.file)
    read += [f"split {split} by the name of the file"] if split else []
    place.add("note", f"read as labels of {n_people} participants: {', '.join(read)}")


def _columns(place: Place, header: Sequence[str]) -> dict[int, str]:
    """Return what each column is read as, by its place; items must be all there or none."""
    columns: dict[int, str] = {}
    for index, written in enumerate(header):
        name = _meaning(written)
        if name in columns.values():
            place.fault(f"a second column is read as {name}; keep one", written.strip())
        elif name:
            columns[index] = name
    present = set(columns.values()) & set(ITEM_KEYS)
    for key in ITEM_KEYS if present else ():
        if key not in present:
            place.fault("the column is missing", f"PHQ8_{key}")
    return columns


def _meaning(written: str) -> str:
    """Return what a column is read as, or nothing for one that is not used.

    >>> [_meaning(name) for name in ("PHQ_8NoInterest", "PHQ8_8_Psychomotor", "PCL-C_13_Sleep")]
    ['NoInterest', 'Moving', '']
    """
    plain = re.sub(r"[^a-z0-9]", "", written.lower())
    return _OTHERS.get(plain) or _ITEMS.get(_PREFIX.sub("", plain), "")


def _person(place: Place, cells: Mapping[str, _Cell], seen: dict[str, int]) -> str:
    """Return the name of the participant of a line, or nothing where there is none to use."""
    cell = cells.get("participant") or _Cell(place, "", "")
    name = re.sub(r"(?:\.0+|_P)$", "", cell.text)
    if not name:
        scored = any(cells[key].given for key in ITEM_KEYS if key in cells)
        problem = "the line names no participant and is left out; name one or remove it"
        place.add("fault" if scored else "left_out", problem, cell.column, cell.text)
    elif not name.isprintable() or len(name) > 100:
        place.fault("the participant must be a short name on one line", cell.column)
        return ""
    elif name in seen:
        problem = f"participant {name} appears twice, first in line {seen[name]}; keep one line"
        place.fault(problem, cell.column, cell.text)
        return ""
    seen.update({name: place.line or 0} if name else {})
    return name


def _split_of(file: Path) -> str:
    named = _NAMED_SPLIT.search(file.name.lower())
    return named[1] if named else ""


def _add(name: str, person: PersonLabels, cells: Mapping[str, _Cell]) -> None:
    for key in ITEM_KEYS:
        if key in cells:
            _add_score(name, person, key, cells[key])
    total = cells.get("total")
    if total and total.given:
        if total.whole(_HIGHEST_TOTAL) is None:
            total.refuse(name, f"a whole number from 0 to {_HIGHEST_TOTAL}")
        else:
            person.totals.append(total)
    named, where = cells.get("split"), cells["participant"]
    split = named.text.lower() if named and named.given else _split_of(where.place.file)
    if named and split not in ("", *SPLITS):
        named.refuse(name, "train, dev or test")
    elif split and person.split not in ("", split):
        problem = (
            f"participant {name} is in the split {split} here and in {person.split} in another "
            "file; keep one"
        )
        where.place.fault(problem, where.column, where.text)
    else:
        person.split = split or person.split


def _add_score(name: str, person: PersonLabels, key: str, cell: _Cell) -> None:
    score = cell.whole(_HIGHEST)
    if not cell.given:
        if key not in person.scores:
            person.holes[key] = cell
    elif score is None:
        cell.refuse(name, "0, 1, 2 or 3")
    else:
        known = person.scores.setdefault(key, score)
        person.holes.pop(key, None)
        if known != score:
            person.contradicts = True
            problem = f"has the score {score} here and {known} in another file, and is left out"
            cell.leave_out(name, problem)


def _check_totals(name: str, person: PersonLabels) -> None:
    """Compare stated totals with the items; an item without a score may have any."""
    least = sum(person.scores.values())
    most = least + _HIGHEST * len(person.holes)
    for cell in person.totals:
        total = cell.whole(_HIGHEST_TOTAL) or 0
        if not least <= total <= most:
            person.contradicts = True
            sums = str(least) if least == most else f"{least} to {most}"
            cell.leave_out(
                name,
                f"has the total {total} and items that add up to {sums}; one of them is wrong, so "
                "the participant is left out",
            )
