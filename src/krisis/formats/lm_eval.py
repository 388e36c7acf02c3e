"""Sample files of the Language Model Evaluation Harness (`lm_eval`): `samples_TASK_TIME.jsonl`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue, MalformedReply, UnknownName
from krisis.formats.base import (
    OF_LOGS,
    CannotTake,
    ConfidencePlace,
    ImportOptions,
    NotTaken,
    Reading,
    SourceRow,
    as_number,
)
from krisis.json_values import JsonMapping, JsonObject, JsonValue, read_object

_FILE_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_NO_MATCH = "[invalid]"  # what its filters write where a pattern finds no answer
# How the likelihoods of options are made comparable, by the metric that does so.
_PER_LENGTH: Mapping[str, str] = {"acc": "", "acc_norm": "characters", "acc_bytes": "bytes"}


class LMEvalSamples:
    """Sample files; the results beside them name the model."""

    options = OF_LOGS | {"judged_by", "filter"}

    def read(self, path: Path, options: ImportOptions) -> Reading:
        """Read a file of samples."""
        return _read(path, options)


def _read(path: Path, options: ImportOptions) -> Reading:
    lines = _lines(path)
    samples = [sample for _, sample in lines if isinstance(sample, dict)]
    if not samples or not all("doc_id" in one and "filtered_resps" in one for one in samples):
        raise InvalidFile(
            f"{path} is not a sample file of lm_eval (doc_id and filtered_resps); check --as"
        )
    chosen = _chosen_filter(path, samples, options.filter)
    reader = _SampleReader(_metric(path, samples, options.judged_by), chosen, options)
    rows = [
        NotTaken(f"line {number}", "", found) if isinstance(found, str) else reader.asking(found)
        for number, found in lines
        if isinstance(found, str) or found.get("filter") == chosen
    ]
    named = _FILE_NAME.fullmatch(path.name)
    model = _model(path, named["time"] if named else "")
    task = named["task"] if named else path.stem
    return Reading(rows, reader.taken_for(samples[0]), model, task, "lm-eval", _notes(samples[0]))


def _notes(sample: JsonMapping) -> list[str]:
    responses = sample.get("resps")
    first = responses[0] if isinstance(responses, list) and responses else []
    n = len(first) if isinstance(first, list) else 1
    return [f"every question was asked {n} times; what the filter kept is taken"] if n > 1 else []


def _lines(path: Path) -> list[tuple[int, JsonObject | str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} cannot be read: {error}") from None
    found: list[tuple[int, JsonObject | str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                sample: JsonValue = json.loads(line)
            except (ValueError, RecursionError):
                sample = "it is not complete JSON"
            found.append((number, sample if isinstance(sample, dict | str) else "no JSON object"))
    return found


def _model(path: Path, time: str) -> str:
    results = path.parent / f"results_{time}.json"
    if not time or not results.is_file():
        return path.parent.name or "unnamed model"
    content = read_object(results, lenient=True)
    config = content.get("config")
    stated = config.get("model") if isinstance(config, dict) else ""
    return str(content.get("model_name") or stated or "unnamed model")


def _chosen_filter(path: Path, samples: Sequence[JsonMapping], wanted: str) -> str:
    known = list(dict.fromkeys(str(sample.get("filter")) for sample in samples))
    if wanted and wanted not in known:
        raise UnknownName.among(f"filter of {path.name}:", wanted, known)
    if not wanted and len(known) > 1:
        raise InvalidFile(
            f"{path} has several filters ({', '.join(known)}); choose the one whose answers are "
            "taken with --filter"
        )
    return wanted or known[0]


def _metric(path: Path, samples: Sequence[JsonMapping], wanted: str) -> str:
    named = samples[0].get("metrics")
    known = [str(name) for name in named] if isinstance(named, list) else []
    if wanted and wanted not in known:
        raise UnknownName.among(f"metric of {path.name}:", wanted, known)
    usual = [name for name in ("acc", "exact_match") if name in known] or known
    if not wanted and len(usual) != 1:
        raise InvalidFile(
            f"{path} has the metrics {', '.join(known) or 'none'}; choose the one that says "
            "whether an answer is right with --judged-by"
        )
    return wanted or usual[0]


@dataclass(frozen=True, slots=True)
class _SampleReader:
    """Reads samples of one file."""

    metric: str
    filter: str
    options: ImportOptions

    def taken_for(self, sample: JsonMapping) -> dict[str, str]:
        """Say where each field is read."""
        options, is_choice = self.options, bool(_likelihoods(sample))
        length = f" per {_PER_LENGTH[self.metric]}" if _PER_LENGTH.get(self.metric) else ""
        found = {
            "id": "doc_id",
            "right answer": "target" + (", as the number of the option from 0" * is_choice),
            "answer": f"option of the highest log-likelihood{length}"
            if is_choice
            else f"filtered_resps of the filter {self.filter}, judged by {self.metric}",
            "confidence": f"share of the likeliest option (softmax of log-likelihoods{length})"
            if is_choice
            else options.confidence,
            "patient": options.patient and f"doc {options.patient}",
            "deferral label": options.should_defer and f"doc {options.should_defer}",
            **{f"group {key}": f"doc {key}" for key in options.group},
        }
        return {name: place for name, place in found.items() if place}

    def asking(self, sample: JsonMapping) -> SourceRow | NotTaken:
        """Return one sample; of repeats the answer that the filter kept."""
        name = sample["doc_id"]
        doc = sample.get("doc")
        asking = SourceRow(
            place=f"doc {str(name)[:100]}",
            record_id=name,
            values=doc if isinstance(doc, dict) else {},
        )
        try:
            likelihoods = _likelihoods(sample)
            if likelihoods:
                self._choose(asking, sample, likelihoods)
            else:
                self._read_text(asking, sample)
        except CannotTake as why:
            return NotTaken(asking.place, str(name)[:100], str(why))
        return asking

    def _choose(self, asking: SourceRow, sample: JsonMapping, likelihoods: list[float]) -> None:
        if self.options.confidence:
            raise InvalidValue(
                "--confidence does not go with options that have log-likelihoods: their share is "
                "the confidence; omit it"
            )
        if self.metric not in _PER_LENGTH:
            raise CannotTake(
                f"the metric {self.metric} does not choose an option by its likelihood; use "
                f"--metric {' or '.join(_PER_LENGTH)}"
            )
        words = _options_shown(sample)
        if "acc_mutual_info" in sample:  # each option was asked again without the question
            half = len(likelihoods) // 2
            likelihoods, words = likelihoods[:half], words[:half]
        if len(words) != len(likelihoods):
            raise CannotTake(f"it has {len(words)} options and {len(likelihoods)} likelihoods")
        unit = _PER_LENGTH[self.metric]
        lengths = [len(w.encode() if unit == "bytes" else w) if unit else 1 for w in words]
        scores = [x / (n or 1) for x, n in zip(likelihoods, lengths, strict=True)]
        best = scores.index(max(scores))
        asking.choices = tuple(enumerate(words))
        asking.truth, asking.answer = _target(sample, words), best
        asking.confidence = 1 / sum(math.exp(score - scores[best]) for score in scores)
        stated = as_number(sample.get(self.metric))
        if stated is None or (best == asking.truth) != (stated == 1.0):
            raise CannotTake(
                f"its {self.metric} is {stated}, which its likelihoods and its target contradict"
            )

    def _read_text(self, asking: SourceRow, sample: JsonMapping) -> None:
        found = sample["filtered_resps"]
        answer = found[0] if isinstance(found, list) and len(found) == 1 else None
        if not isinstance(answer, str):
            raise CannotTake("its filter kept no answer or several; choose a filter that keeps one")
        stated = as_number(sample.get(self.metric))
        if stated not in (0.0, 1.0):
            raise CannotTake(f"its {self.metric} is {stated}, neither right (1) nor wrong (0)")
        responses = sample.get("resps")
        texts = responses[0] if isinstance(responses, list) and responses else []
        first = texts[0] if isinstance(texts, list) and texts else texts
        asking.raw_response = first if isinstance(first, str) else ""
        asking.truth, asking.answer, asking.is_right = sample.get("target"), answer, stated == 1.0
        place = ConfidencePlace(self.options.confidence, ("pattern",))
        asking.confidence = place.find(asking.raw_response, {}, {})
        if answer == _NO_MATCH and not asking.is_right:
            asking.answer = ""
            if self.options.empty is None:
                asking.error = f"the filter {self.filter} found no answer in the reply"
                asking.failure_class = MalformedReply.failure_class


def _likelihoods(sample: JsonMapping) -> list[float]:
    """Return one log-likelihood per option; nothing where the model wrote text."""
    found = sample["filtered_resps"]
    pairs = found if isinstance(found, list) else []
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return []
    numbers = [as_number(pair[0]) for pair in pairs]
    return [number for number in numbers if number is not None] if None not in numbers else []


def _options_shown(sample: JsonMapping) -> list[str]:
    """Return the options as the model was asked about them, without the space before them."""
    arguments = sample.get("arguments")
    asked = list(arguments.values()) if isinstance(arguments, dict) else []
    words = [str(one.get("arg_1")) for one in asked if isinstance(one, dict)]
    all_spaced = bool(words) and all(word.startswith(" ") for word in words)
    return [word.removeprefix(" ") for word in words] if all_spaced else words


def _target(sample: JsonMapping, words: Sequence[str]) -> int:
    """Return the place of the right option, which the target names by number or by its words."""
    target = str(sample.get("target"))
    by_words = [i for i, word in enumerate(words) if word.strip() == target.strip()]
    by_number = int(target) if target.isdigit() and int(target[:6]) < len(words) else None
    if by_number is not None and (not by_words or by_words == [by_number]):
        return by_number
    if len(by_words) == 1 and by_number is None:
        return by_words[0]
    raise CannotTake(f"its target {target[:40]!r} is not the number or the words of one option")
