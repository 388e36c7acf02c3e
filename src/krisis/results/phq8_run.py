"""PHQ-8 run files: strict reading of the participants, items and signals of every experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from krisis.errors import InvalidFile
from krisis.json_values import read_object
from krisis.metrics.items import ItemTable, ParticipantId, Source

PHQ8_ITEMS = (
    "NoInterest",
    "Depressed",
    "Sleep",
    "Tired",
    "Appetite",
    "Failure",
    "Concentrating",
    "Moving",
)


@dataclass(frozen=True, slots=True)
class OrdinalScale:
    """The items of a questionnaire, in order, and the scores each can have."""

    items: tuple[str, ...] = PHQ8_ITEMS
    lowest: int = 0
    highest: int = 3


@dataclass(frozen=True, slots=True)
class ParticipantResult:
    """One participant: the true scores, the predicted ones (None where it abstained), signals."""

    participant_id: ParticipantId
    success: bool
    truth: Mapping[str, int]
    predicted: Mapping[str, int | None]
    signals: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """The results of one mode of a run file, in the order of the file."""

    source: Source
    scale: OrdinalScale
    results: Sequence[ParticipantResult]

    def items(self) -> ItemTable:
        """Return the items of the participants that succeeded, sorted by participant."""
        succeeded = sorted(
            (result for result in self.results if result.success), key=lambda r: r.participant_id
        )
        cells = [(code, r, k) for code, r in enumerate(succeeded) for k in self.scale.items]
        predicted = (r.predicted[k] for _, r, k in cells)
        failed = [result.participant_id for result in self.results if not result.success]
        return ItemTable(
            participants=[result.participant_id for result in succeeded],
            participant=np.array([code for code, _, _ in cells], dtype=np.int64),
            item_names=[k for _, _, k in cells],
            truth=np.array([r.truth[k] for _, r, k in cells], dtype=np.float64),
            prediction=np.array([np.nan if p is None else p for p in predicted], dtype=np.float64),
            signals=[r.signals.get(k, {}) for _, r, k in cells],
            scale=float(self.scale.highest - self.scale.lowest),
            source=self.source,
            failed=failed,
            n_failed_items=len(failed) * len(self.scale.items),
        )


def is_phq8_run(content: Mapping[str, Any]) -> bool:
    """Tell whether a JSON object looks like a PHQ-8 run file."""
    return "experiments" in content


def read_phq8_run(path: Path, mode: str | None = None) -> Experiment:
    """Read one experiment of a run file; ``mode`` is required where there are several."""
    return experiment_of(read_object(path, lenient=True), mode, place=str(path))


def experiment_of(content: Mapping[str, Any], mode: str | None, *, place: str) -> Experiment:
    """Check and return one experiment of the content of a run file."""
    metadata = _mapping(content, "run_metadata", place)
    experiments = content.get("experiments")
    if not isinstance(experiments, list) or not experiments:
        raise InvalidFile(f"{place}: experiments must be a list with at least one experiment")
    modes = [_mode(entry, f"{place}: experiment {i}") for i, entry in enumerate(experiments)]
    position = _chosen(modes, mode, place)
    where = f"{place}: mode {modes[position]}"
    results = _mapping(experiments[position], "results", where)
    source = Source(
        path=place,
        run_id=_text_or_none(metadata.get("run_id")),
        git_commit=_text_or_none(metadata.get("git_commit")),
        mode=modes[position],
    )
    scale = _scale(content, place)
    return Experiment(source, scale, _participants(results.get("results"), scale, where))


def _mode(experiment: Any, place: str) -> str:
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
            raise InvalidFile(f"{place} holds several experiments; name one by --mode: {known}")
        return 0
    matching = [index for index, name in enumerate(modes) if name == mode]
    if not matching:
        raise InvalidFile(f"{place} has no experiment of mode {mode!r}; it has: {known}")
    if len(matching) > 1:
        raise InvalidFile(
            f"{place} has {len(matching)} experiments of mode {mode!r}; keep one of them"
        )
    return matching[0]


def _scale(content: Mapping[str, Any], place: str) -> OrdinalScale:
    given: Any = content.get("scale")
    if given is None:
        return OrdinalScale()
    try:
        items, lowest, highest = (given[key] for key in ("items", "lowest", "highest"))
        named = bool(items) and all(isinstance(name, str) for name in items)
        if named and _is_whole(lowest) and _is_whole(highest) and lowest < highest:
            return OrdinalScale(tuple(items), lowest, highest)
    except (TypeError, KeyError):
        pass
    raise InvalidFile(
        f'{place}: scale must look like {{"items": ["A", "B"], "lowest": 0, "highest": 3}}, '
        f"not {given!r}"
    )


def _participants(results: Any, scale: OrdinalScale, place: str) -> list[ParticipantResult]:
    if not isinstance(results, list):
        raise InvalidFile(f"{place}: results.results must be a list of participants")
    read = [_participant(entry, scale, f"{place}: result {i}") for i, entry in enumerate(results)]
    seen: set[ParticipantId] = set()
    for result in read:
        if result.participant_id in seen:
            raise InvalidFile(f"{place}: participant {result.participant_id} stands there twice")
        seen.add(result.participant_id)
    if len({type(result.participant_id) for result in read}) > 1:
        raise InvalidFile(f"{place}: participant_id is a number here and a text there; use one")
    return read


def _participant(entry: Any, scale: OrdinalScale, place: str) -> ParticipantResult:
    if not isinstance(entry, dict):
        raise InvalidFile(f"{place} is not an object; was the file edited?")
    name = entry.get("participant_id")
    if isinstance(name, bool) or not isinstance(name, int | str) or name == "":
        raise InvalidFile(f"{place}: participant_id must be a number or a text, not {name!r}")
    where = f"{place} (participant {name})"
    success = entry.get("success")
    if not isinstance(success, bool):
        raise InvalidFile(f"{where}: success must be true or false, not {success!r}")
    if not success:
        return ParticipantResult(name, False, {}, {}, {})
    truth, predicted = (
        _mapping(entry, key, where) for key in ("ground_truth_items", "predicted_items")
    )
    for key in scale.items:
        _check_score(truth, key, scale, f"{where}, item {key}: ground truth")
        if predicted.get(key, ...) is not None:
            _check_score(predicted, key, scale, f"{where}, item {key}: prediction")
    return ParticipantResult(name, True, truth, predicted, _signals(entry, where))


def _check_score(scores: Mapping[str, Any], key: str, scale: OrdinalScale, place: str) -> None:
    if key not in scores:
        raise InvalidFile(f"{place} is missing; every item needs one (null for an abstention)")
    value = scores[key]
    if not _is_whole(value) or not scale.lowest <= value <= scale.highest:
        raise InvalidFile(
            f"{place} must be a whole number from {scale.lowest} to {scale.highest}, not {value!r}"
        )


def _signals(entry: Mapping[str, Any], place: str) -> Mapping[str, Mapping[str, Any]]:
    signals = _mapping(entry, "item_signals", place) if "item_signals" in entry else {}
    for key, values in signals.items():
        if not isinstance(values, dict):
            raise InvalidFile(f"{place}, item {key}: item_signals must be an object of signals")
    return signals


def _mapping(parent: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if not isinstance(value, dict):
        found = "missing" if value is None else f"a {type(value).__name__}"
        raise InvalidFile(f"{place}: {key} must be an object and is {found}")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
