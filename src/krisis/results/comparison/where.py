"""In which groups two runs differ most: paired by patient, adjusted for all groups together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.forms import prior_icc
from krisis.metrics.paired import Exchanges
from krisis.metrics.partition import verdicts
from krisis.metrics.table import WHY_DEFERRED, BoolArray, Label, Table
from krisis.results.comparison.matching import OUTCOMES
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import unseen_disagreement
from krisis.statistics.paired_groups import PairedGroup, PairedGroups, paired_groups

LARGEST_NUMBER_OF_GROUPS = 24
EVERYWHERE = "all rows"
# What two runs may do differently in a group, and how it is said.
FIGURES = {"right": "right answers", "abstained": "abstentions"}
_GENERAL = ("sex", "site", "item")
_CONFIDENCES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# Heading, such as "stage", to the rows of every group under it.
Groups = Mapping[str, Mapping[str, BoolArray]]


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One figure of two runs in one group; ``gap`` is its difference less that of all other rows.

    Intervals are for this group alone; ``p_adjusted``, of the gap, is for all groups and figures.
    """

    heading: str
    group: str
    figure: str
    _: KW_ONLY
    n_rows: int
    n_patients: int
    left: float
    right: float
    delta: float
    interval: Interval
    gap: float
    gap_interval: Interval
    p_value: float
    p_adjusted: float

    @property
    def name(self) -> str:
        """Name the group with its heading."""
        return f"{self.heading}: {self.group}"

    @property
    def more(self) -> bool:
        """Tell whether the runs differ more in this group than elsewhere."""
        return abs(self.delta) >= abs(self.delta - self.gap)

    def to_dict(self) -> JsonObject:
        """Return the difference as JSON values."""
        fields: JsonObject = {name: getattr(self, name) for name in self.__slots__}
        for name in ("interval", "gap_interval"):
            fields[name] = [fields[name].low, fields[name].high]
        return fields


@dataclass(frozen=True, slots=True)
class Where:
    """The groups in which two runs were compared, those that stand out first.

    ``outcomes`` counts the rows by what became of them in the left and in the right run;
    ``skipped`` says which groups were not tested, and why.
    """

    left: str
    right: str
    overall: Mapping[str, GroupDifference]
    differences: Sequence[GroupDifference]
    outcomes: Mapping[tuple[str, str], int]
    skipped: Mapping[str, str]
    level: float = 0.95

    @property
    def standing_out(self) -> list[GroupDifference]:
        """Return the groups in which the difference is another than elsewhere."""
        limit = 1 - self.level + 1e-12
        return [one for one in self.differences if one.p_adjusted <= limit]

    def to_dict(self) -> JsonObject:
        """Return everything as JSON values."""
        return {
            "overall": {name: one.to_dict() for name, one in self.overall.items()},
            "standing_out": [f"{one.name}, {one.figure}" for one in self.standing_out],
            "n_tests": len(self.differences),
            "groups": [one.to_dict() for one in self.differences],
            "outcomes": [
                {"left": left, "right": right, "n_rows": n}
                for (left, right), n in self.outcomes.items()
            ],
            "skipped": dict(self.skipped),
        }


def differing(left: Table, right: Table) -> BoolArray:
    """Tell on which rows the runs differ in what they answered, or in whether they did."""
    first, second = (
        np.array([*table.labels, None], dtype=object)[table.prediction] for table in (left, right)
    )
    answered = left.answered & right.answered
    found: BoolArray = (
        (left.abstained != right.abstained)
        | (left.no_answer != right.no_answer)
        | (answered & (first != second))
    )
    return found


def groups_of(left: Table, right: Table, words: Callable[[Label], str] = str) -> Groups:
    """Return the rows of every group that both runs define alike, so that they can be exchanged.

    Confidence is therefore the mean of both runs; what became of a row in one of them is no group:
    where one run happened to be wrong, another that is no better looks better.
    """
    found: dict[str, dict[str, BoolArray]] = {}
    named = dict.fromkeys((*left.answers.groups, *_GENERAL))
    for heading in named:
        names, code = left.grouped(heading)
        unknown, prefix = f"unknown_{heading}", f"{heading}_"
        found[heading.replace("_", " ")] = {
            "not stated" if name == unknown else name.removeprefix(prefix): code == place
            for place, name in enumerate(names)
        }
    found["truth"] = {words(label): left.truth == code for code, label in enumerate(left.labels)}
    due = left.should_abstain
    found["deferral"] = {"due": due == 1, "not due": due == 0}
    found["reason for deferral"] = dict(_reasons(left))
    found["mean confidence of both"] = dict(_bands(left, right))
    filled = {
        heading: {name: rows for name, rows in groups.items() if rows.any()}
        for heading, groups in found.items()
    }
    return {heading: groups for heading, groups in filled.items() if _divides(groups)}


def _divides(groups: Mapping[str, BoolArray]) -> bool:
    return any(not rows.all() for rows in groups.values())


def _reasons(table: Table) -> Iterator[tuple[str, BoolArray]]:
    if not table.says_why_deferred:
        return
    places: dict[str, list[int]] = {}
    for place, given in enumerate(table.metadata(WHY_DEFERRED[1])):
        reasons = [given] if isinstance(given, str) and given else given
        for reason in set(map(str, reasons)) if isinstance(reasons, list | tuple) else ():
            places.setdefault(reason.replace("_", " "), []).append(place)
    for reason, members in sorted(places.items()):
        rows = np.zeros(table.n_scored, dtype=np.bool_)
        rows[members] = True
        yield reason, rows


def _bands(left: Table, right: Table) -> Iterator[tuple[str, BoolArray]]:
    mean = (left.confidence + right.confidence) / 2
    for low, high in pairwise(_CONFIDENCES):
        last = high == _CONFIDENCES[-1]
        rows = (mean >= low) & ((mean <= high) if last else (mean < high))
        yield f"{low:.1f} to {high:.1f}" if last else f"{low:.1f} to below {high:.1f}", rows
    yield "not stated by both", np.isnan(mean)


def where_they_differ(
    names: tuple[str, str],
    tables: tuple[Table, Table],
    exchanges: Exchanges,
    *,
    words: Callable[[Label], str] = str,
    n_pairs: int = 1,
) -> Where:
    """Compare two runs on the same rows group by group, by right answers and by abstentions.

    Every group is held against all other rows. Adjusted p-values are joint over all groups and
    both figures (max-T on the same draws), times the number of pairs of runs.
    """
    left, right = tables
    figures = {"right": (left.correct, right.correct)}
    if (left.abstained != right.abstained).any():
        figures["abstained"] = (left.abstained, right.abstained)
    tested, skipped = _tested(left, groups_of(left, right, words))
    everyone = {(EVERYWHERE, ""): left.everyone}
    columns = [
        (*key, figure, rows) for key, rows in (everyone | tested).items() for figure in figures
    ]
    sides = [(figures[figure], rows) for *_, figure, rows in columns]
    found = _inference(tables, sides, exchanges, n_pairs)
    differences = [
        _difference(left, key, figures[key[2]], rows, (found, place))
        for place, (*key, rows) in enumerate(columns)
    ]
    overall = {one.figure: one for one in differences if one.heading == EVERYWHERE}
    limit = 1 - exchanges.level + 1e-12
    groups = sorted(differences[len(overall) :], key=lambda one: _place(one, limit))
    return Where(*names, overall, groups, _outcomes(left, right), skipped, exchanges.level)


def _place(one: GroupDifference, limit: float) -> tuple[bool, bool, float, float]:
    """Order groups: those that stand out, by how far; then the others, by p."""
    if one.p_adjusted <= limit:
        return False, not one.more, -abs(one.gap), -abs(one.delta)
    return True, False, one.p_adjusted, one.p_value


def _tested(
    table: Table, groups: Groups
) -> tuple[dict[tuple[str, str], BoolArray], dict[str, str]]:
    """Return the groups that are large enough beside a rest that is, and why others are not."""
    tested: dict[tuple[str, str], BoolArray] = {}
    skipped: dict[str, str] = {}
    for heading, parts in groups.items():
        if len(parts) > LARGEST_NUMBER_OF_GROUPS:
            skipped[heading] = f"{len(parts)} different values"
            continue
        for group, rows in parts.items():
            if min(_n_patients(table, rows), _n_patients(table, ~rows)) >= SMALLEST_GROUP:
                tested[heading, group] = rows
            elif not rows.all():
                reason = f"fewer than {SMALLEST_GROUP} patients inside or outside"
                skipped[f"{heading}: {group}"] = reason
    return tested, skipped


def _inference(
    tables: tuple[Table, Table],
    columns: Sequence[tuple[tuple[BoolArray, BoolArray], BoolArray]],
    exchanges: Exchanges,
    n_pairs: int,
) -> PairedGroups:
    left, right = tables
    discordant = verdicts(left) != verdicts(right)
    floors = {id(rows): _floors(left, rows, discordant, exchanges.level) for _, rows in columns}
    groups = [
        PairedGroup(b.astype(np.float64) - a, rows, floors[id(rows)]) for (a, b), rows in columns
    ]
    drawn = {"n_draws": exchanges.n, "seed": exchanges.seed}
    return paired_groups(
        groups, left.pools.code, **drawn, level=exchanges.level, n_comparisons=n_pairs
    )


def _floors(
    table: Table, rows: BoolArray, discordant: BoolArray, level: float
) -> tuple[float, float]:
    """Return the least standard errors inside and outside: what nobody disagreed on may differ."""

    def least(side: BoolArray) -> float:
        if not side.any():
            return 0.0
        counts = (table.patients.sums(discordant & side), table.patients.sums(side))
        return unseen_disagreement(*counts, level=level, prior_icc=prior_icc(table))

    return least(rows), least(~rows)


def _difference(
    table: Table,
    key: Sequence[str],
    sides: tuple[BoolArray, BoolArray],
    rows: BoolArray,
    found: tuple[PairedGroups, int],
) -> GroupDifference:
    test, place = found
    left, right = (float(side[rows].mean()) for side in sides)
    return GroupDifference(
        *key,
        n_rows=int(np.count_nonzero(rows)),
        n_patients=_n_patients(table, rows),
        left=left,
        right=right,
        delta=right - left,
        interval=test.within.interval(place),
        gap=float(test.gap.difference[place]),
        gap_interval=test.gap.interval(place),
        p_value=float(test.gap.p_value[place]),
        p_adjusted=float(test.gap.adjusted_p_value[place]),
    )


def _n_patients(table: Table, rows: BoolArray) -> int:
    return int(np.count_nonzero(np.bincount(table.patients.code[rows], minlength=1)))


def _outcomes(left: Table, right: Table) -> dict[tuple[str, str], int]:
    codes = len(OUTCOMES) * verdicts(left) + verdicts(right)
    counts = np.bincount(codes, minlength=len(OUTCOMES) ** 2).tolist()
    pairs = [(before, after) for before in OUTCOMES for after in OUTCOMES]
    return dict(zip(pairs, counts, strict=True))
