"""The PHQ-8 run file: experiments by mode, participants, items and signals, read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis import __version__
from krisis.data.base import Label, Task
from krisis.data.phq8.items import ITEM_KEYS, N_SCORES
from krisis.data.phq8.task import TASK
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject, JsonValue
from krisis.outcomes import NO_ANSWER_CLASSES
from krisis.plain_run import PlainRow, PlainRun

SCHEMA_VERSION = "1"
_MOST_LEVELS = 1000
# What a model wrote is in the run; the run file holds figures.
_TEXTS = frozenset({"evidence_quotes", "quotes_not_found"})
_UNANSWERED = "items_without_answer"


@dataclass(frozen=True, slots=True)
class OrdinalScale:
    """The items of a questionnaire, in order, and the scores each can have."""

    items: tuple[str, ...] = ITEM_KEYS
    lowest: int = 0
    highest: int = N_SCORES - 1

    @property
    def task(self) -> Task:
        """Return the task whose answers the scores are."""
        if self == OrdinalScale():
            return TASK
        return Task(
            name="questionnaire",
            answers={score: f"score {score}" for score in range(self.lowest, self.highest + 1)},
            ordered=True,
            groups=TASK.groups,
            default_loss=TASK.default_loss,
            default_confidence=TASK.default_confidence,
            person=TASK.person,
            unit=TASK.unit,
        )


class PHQ8RunFile:
    """The file format of PHQ-8 runs, as the registry offers it."""

    @staticmethod
    def recognises(_: Path, content: JsonMapping) -> bool:
        """Tell whether a JSON object looks like a PHQ-8 run file."""
        return "experiments" in content

    @classmethod
    def load(cls, path: Path, content: JsonMapping, mode: str | None) -> PlainRun:
        """Return one experiment of a file; ``mode`` is required where there are several."""
        return cls.experiment(content, mode, str(path))

    @staticmethod
    def experiment(content: JsonMapping, mode: str | None, place: str) -> PlainRun:
        """Check and return one experiment."""
        metadata = _mapping(content, "run_metadata", place)
        experiments = content.get("experiments")
        if not isinstance(experiments, list) or not experiments:
            raise InvalidFile(f"{place}: experiments must be a list with at least one experiment")
        modes = [_mode(entry, f"{place}: experiment {i}") for i, entry in enumerate(experiments)]
        position = _chosen(modes, mode, place)
        where = f"{place}: mode {modes[position]}"
        results = _mapping(experiments[position], "results", where)
        scale = _scale(content, place)
        task = scale.task
        return PlainRun(
            suite="phq8" if task is TASK else task.name,
            task=task.facts(),
            rows=_participants(results.get("results"), scale, where),
            run_id=_text_or_none(metadata.get("run_id")),
            git_commit=_text_or_none(metadata.get("git_commit")),
            mode=modes[position],
            provenance=_mapping(experiments[position], "provenance", where),
        )

    @staticmethod
    def content(runs: Sequence[PlainRun]) -> JsonObject:
        """Return the run file of finished runs, one for each mode."""
        modes = [run.mode for run in runs]
        if not modes or len(set(modes)) != len(modes) or None in modes:
            raise InvalidValue(f"a run file needs one experiment for each mode, not {modes}")
        first = runs[0]
        known = ("krisis_version", "created_at", "backend")
        return {
            "run_metadata": {
                "schema_version": SCHEMA_VERSION,
                "run_id": first.run_id,
                "git_commit": first.git_commit,
                "krisis_version": __version__,
                **{name: first.provenance[name] for name in known if name in first.provenance},
            },
            "experiments": [_experiment(run) for run in runs],
        }

    @staticmethod
    def run_names(content: JsonMapping) -> list[str]:
        """Return the names of the runs that a run file was made from."""
        made_from = [one.get("provenance", {}) for one in content.get("experiments", [])]
        return [str(one["run"]) for one in made_from if one.get("run")]


def _mode(experiment: JsonValue, place: str) -> str:
    if not isinstance(experiment, dict):
        raise InvalidFile(f"{place} is not an object; was the file edited?")
    provenance, results = (_mapping(experiment, key, place) for key in ("provenance", "results"))
    named = [part["mode"] for part in (provenance, results) if part.get("mode") is not None]
    if not named or any(not isinstance(mode, str) for mode in named):
        raise InvalidFile(f"{place} names no mode; give provenance.mode a text such as few_shot")
    if len(set(named)) > 1:
        raise InvalidFile(
            f"{place} is {named[0]!r} in its provenance and {named[1]!r} in its results; "
            "the file mixes two experiments"
        )
    return str(named[0])


def _chosen(modes: Sequence[str], mode: str | None, place: str) -> int:
    known = ", ".join(modes)
    if mode is None:
        if len(modes) > 1:
            raise InvalidFile(
                f"{place} holds several experiments; name one by --mode: {known} (to a command "
                "without --mode, give the run of one)"
            )
        return 0
    matching = [index for index, name in enumerate(modes) if name == mode]
    if not matching:
        raise InvalidFile(f"{place} has no experiment of mode {mode!r}; it has: {known}")
    if len(matching) > 1:
        raise InvalidFile(
            f"{place} has {len(matching)} experiments of mode {mode!r}; keep one of them"
        )
    return matching[0]


def _scale(content: JsonMapping, place: str) -> OrdinalScale:
    given: JsonValue = content.get("scale")
    if given is None:
        return OrdinalScale()
    try:
        items, lowest, highest = (given[key] for key in ("items", "lowest", "highest"))
        named = bool(items) and all(isinstance(name, str) for name in items)
        whole = _is_whole(lowest) and _is_whole(highest)
        if named and whole and 0 < highest - lowest <= _MOST_LEVELS:
            return OrdinalScale(tuple(items), lowest, highest)
    except (TypeError, KeyError):
        pass
    raise InvalidFile(
        f'{place}: scale must look like {{"items": ["A", "B"], "lowest": 0, "highest": 3}}, '
        f"not {given!r}"
    )


def _participants(results: JsonValue, scale: OrdinalScale, place: str) -> list[PlainRow]:
    if not isinstance(results, list):
        raise InvalidFile(f"{place}: results.results must be a list of participants")
    rows: list[PlainRow] = []
    seen: set[Label] = set()
    for index, entry in enumerate(results):
        found = _participant(entry, scale, f"{place}: result {index}")
        name = found[0].cluster_id
        if name in seen:
            raise InvalidFile(f"{place}: participant {name} appears twice; keep one of them")
        seen.add(name)
        rows += found
    if len({type(name) for name in seen}) > 1:
        raise InvalidFile(f"{place}: participant_id is a number here and a text there; use one")
    return rows


def _participant(entry: JsonValue, scale: OrdinalScale, place: str) -> list[PlainRow]:
    if not isinstance(entry, dict):
        raise InvalidFile(f"{place} is not an object; was the file edited?")
    name = entry.get("participant_id")
    if isinstance(name, bool) or not isinstance(name, int | str) or name == "":
        raise InvalidFile(f"{place}: participant_id must be a number or a text, not {name!r}")
    where = f"{place} (participant {name})"
    success = entry.get("success")
    if not isinstance(success, bool):
        raise InvalidFile(f"{where}: success must be true or false, not {success!r}")
    without = _unscored(entry, scale, where)
    items = [key for key in scale.items if key not in without]
    if not success:
        reason = str(entry.get("error") or "the run of this participant failed")
        known = entry.get("ground_truth_items")
        truths = known if isinstance(known, dict) else {}
        return [PlainRow(name, k, truths.get(k), None, failed=reason) for k in items]
    truth, predicted = (
        _mapping(entry, key, where) for key in ("ground_truth_items", "predicted_items")
    )
    for key in items:
        _check_score(truth, key, scale, f"{where}, item {key}: ground truth")
        if predicted.get(key, ...) is not None:
            _check_score(predicted, key, scale, f"{where}, item {key}: prediction")
    signals = _signals(entry, where)
    unanswered = _unanswered(entry, predicted, where)
    return [
        PlainRow(
            name, key, truth[key], predicted[key], signals.get(key, {}), *unanswered.get(key, ())
        )
        for key in items
    ]


def _unanswered(
    entry: JsonMapping, predicted: JsonMapping, place: str
) -> Mapping[str, tuple[str, str]]:
    """Return the items that the model replied to without an answer: why, and in which class."""
    given = _mapping(entry, _UNANSWERED, place) if _UNANSWERED in entry else {}
    found = {}
    for key, said in given.items():
        failure_class, _, error = str(said).partition(": ")
        if predicted.get(key, ...) is not None or failure_class not in NO_ANSWER_CLASSES:
            raise InvalidFile(
                f"{place}, item {key}: items_without_answer must name an item whose prediction is "
                f"null and one of {', '.join(sorted(NO_ANSWER_CLASSES))}, not {said!r}"
            )
        found[key] = error, failure_class
    return found


def _unscored(entry: JsonMapping, scale: OrdinalScale, place: str) -> Sequence[str]:
    """Return the items that the corpus has no score for; they are not part of the run."""
    given = entry.get("items_without_score", [])
    if not isinstance(given, list) or not set(map(str, given)) < set(scale.items):
        raise InvalidFile(
            f"{place}: items_without_score must list some of the items, not {given!r}; was the "
            "file edited?"
        )
    return given


def _check_score(scores: JsonMapping, key: str, scale: OrdinalScale, place: str) -> None:
    if key not in scores:
        raise InvalidFile(f"{place} is missing; every item needs one (null for an abstention)")
    value = scores[key]
    if not _is_whole(value) or not scale.lowest <= value <= scale.highest:
        raise InvalidFile(
            f"{place} must be a whole number from {scale.lowest} to {scale.highest}, not {value!r}"
        )


def _signals(entry: JsonMapping, place: str) -> Mapping[str, JsonMapping]:
    signals = _mapping(entry, "item_signals", place) if "item_signals" in entry else {}
    for key, values in signals.items():
        if not isinstance(values, dict):
            raise InvalidFile(f"{place}, item {key}: item_signals must be an object of signals")
    return signals


def _mapping(parent: JsonMapping, key: str, place: str) -> JsonMapping:
    value = parent.get(key)
    if not isinstance(value, dict):
        found = "missing" if value is None else f"a {type(value).__name__}"
        raise InvalidFile(f"{place}: {key} must be an object and is {found}")
    return value


def _is_whole(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text_or_none(value: JsonValue) -> str | None:
    return None if value is None else str(value)


def _experiment(run: PlainRun) -> JsonObject:
    participants: dict[Label, list[PlainRow]] = {}
    items: dict[str, None] = {}
    for row in run.rows:
        if not row.item:
            raise InvalidValue(
                f"a row of {row.cluster_id!r} names no item; only runs of the phq8 suite make "
                "this run file"
            )
        participants.setdefault(row.cluster_id, []).append(row)
        items[row.item] = None
    suite = run.provenance.get("suite")
    without = suite.get("items_without_score", {}) if isinstance(suite, dict) else {}
    results = [
        _written(name, rows, list(items), without.get(str(name), []))
        for name, rows in participants.items()
    ]
    return {
        "provenance": {**run.provenance, "mode": run.mode},
        "results": {
            "mode": run.mode,
            "n_participants": len(results),
            "n_failed": sum(not result["success"] for result in results),
            "results": results,
        },
    }


def _written(
    name: Label, rows: Sequence[PlainRow], items: Sequence[str], without: Sequence[str]
) -> JsonObject:
    """Return one participant; a single item that was not evaluated fails the participant.

    Items ``without`` a score in the corpus were not to be asked.
    """
    by_item = {row.item: row for row in rows}
    errors = [
        f"{row.item}: {row.failure_class or 'failed'}: {row.failed}"
        for row in rows
        if row.failed is not None and not row.has_no_answer
    ]
    errors += [
        f"{item}: not asked, the run ended early"
        for item in items
        if item not in (*by_item, *without)
    ]
    ordered = [by_item[item] for item in items if item in by_item]
    unanswered = {
        row.item: f"{row.failure_class}: {_one_line([str(row.failed)])}"
        for row in ordered
        if row.has_no_answer
    }
    return {
        "participant_id": name,
        "success": not errors,
        "error": _one_line(errors) if errors else None,
        **({"items_without_score": list(without)} if without else {}),
        **({_UNANSWERED: unanswered} if unanswered else {}),
        "ground_truth_items": {row.item: row.truth for row in ordered},
        "predicted_items": {
            row.item: None if row.failed is not None else row.prediction for row in ordered
        },
        "item_signals": {
            row.item: {key: value for key, value in row.signals.items() if key not in _TEXTS}
            for row in ordered
            if row.failed is None
        },
    }


def _one_line(errors: Sequence[str]) -> str:
    more = f" (and {len(errors) - 1} more items)" if len(errors) > 1 else ""
    return re.sub(r"\s+", " ", errors[0])[:500] + more
