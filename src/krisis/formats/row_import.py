"""From the rows of a file to those of a run: each field checked, a reason for each left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from krisis.answers import AnswerSet, Label, canonical_label, kept_value
from krisis.errors import InvalidValue
from krisis.formats.base import (
    LONGEST_TEXT,
    CannotTake,
    ImportOptions,
    NotTaken,
    SourceRow,
    as_number,
    as_truth,
)
from krisis.json_values import JsonMapping, JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import NO_PREDICTION, NOT_ALLOWED

# A wrong answer of which no words are known: a scorer kept its verdict alone.
MARKED_WRONG = "(marked wrong)"
LONGEST_ANSWER, LONGEST_TRUTH, LONGEST_NAME = 200, 2_000, 500
# Of more right answers a file asks for free text, and nothing can be said of its words.
_MOST_ANSWERS, _MOST_SHOWN = 20, 6
_DECIMAL = re.compile(r"[+-]?\d*\.\d+", re.ASCII)
_WHOLE = re.compile(r"([+-]?\d{1,15})\.0+", re.ASCII)


@dataclass(slots=True)
class Taken:
    """The rows of a file, those that could not be taken, and what is to be known of them."""

    rows: list[EvaluationResult] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)
    answers: list[tuple[Label, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    n_unread: int = 0

    @property
    def reading_words(self) -> str:
        """Say how many cases a reader read: the others are no rows."""
        n = len(self.rows)
        return f"read {n:,} of {n + self.n_unread:,} cases; those that were not read are no rows"


def take_all(found: Iterable[SourceRow | NotTaken], options: ImportOptions) -> Taken:
    """Make a row of every asking that can be one, in the order of repeats."""
    taken, taker = Taken(), _Taker(options)
    of_choices: dict[tuple[tuple[Label, str], ...], None] = {}
    deferred: list[bool] = []
    empty: list[str] = []
    for asking in sorted(found, key=lambda one: getattr(one, "repeat", 0)):
        if isinstance(asking, NotTaken):
            taken.not_taken.append(asking)
            continue
        try:
            row = taker.row(asking)
        except Unread:
            taken.n_unread += 1
            continue
        except EmptyAnswer:
            empty.append(asking.place)
            continue
        except CannotTake as why:
            name = str(asking.record_id)[:LONGEST_NAME]
            taken.not_taken.append(NotTaken(asking.place, name, str(why)))
            continue
        taken.rows.append(row)
        deferred.append(taker.abstains(row.ground_truth, asking))
        of_choices[asking.choices] = None
    if empty:
        have = "row has" if len(empty) == 1 else "rows have"
        raise InvalidValue(
            f"{len(empty):,} {have} no answer ({empty[0]}{', …' if len(empty) > 1 else ''}); say "
            "what that means: --empty abstained, no_answer or unread"
        )
    taken.answers = options.answer_pairs() or _common_answers(list(of_choices))
    taker.refuse_foreign_answers()
    taken.notes = taker.notes(taken.rows)
    if taken.n_unread:
        taken.notes.append(taken.reading_words)
    if any(deferred) and not options.should_defer:
        for row, due in zip(taken.rows, deferred, strict=True):
            row.metadata = {**row.metadata, "should_abstain": due}
        taken.notes.append(
            f"deferral label: the right answer is {' or '.join(options.abstain_answer)!s} "
            f"({sum(deferred)} of {len(deferred)} rows)"
        )
    return taken


def _common_answers(found: Sequence[tuple[tuple[Label, str], ...]]) -> list[tuple[Label, str]]:
    """Return the labels of all choices, with words where these are the same in every row."""
    if len(found) == 1:
        return list(found[0])
    labels = dict.fromkeys(label for choices in found for label, _ in choices)
    return [(label, "") for label in labels] if all(found) else []


class Unread(Exception):
    """A case that a reader never read: it is no row."""


class EmptyAnswer(Exception):
    """A row without an answer, of which nobody has said what that means."""


class _Taker:
    """Checks rows one by one, remembering which records it has seen."""

    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self._answers = AnswerSet(tuple(answer for answer, _ in options.answer_pairs()))
        self._tokens = {canonical_label(token) for token in options.abstain_answer}
        self._said: Counter[Label] = Counter()  # answers that are compared with the right ones
        self._n_allowed = 0
        self._right: dict[Label, None] = {}
        self._seen: set[tuple[str, int]] = set()
        self._truths: dict[str, tuple[Label, str]] = {}
        self._n_by_verdict = self._n_without_words = 0

    def row(self, asking: SourceRow) -> EvaluationResult:
        """Return the row of an asking."""
        name = _name(asking.record_id, "id")
        truth = _label(asking.truth, "right answer", LONGEST_TRUTH)
        if not self._answers.allows(truth):
            raise CannotTake(f"the right answer {truth!r} is none of the answers")
        cluster = self._cluster(asking) or name
        self._refuse_repeated(name, asking.repeat, (truth, cluster))
        error, failure_class, prediction, abstained = self._outcome(asking, truth)
        if len(asking.raw_response) > LONGEST_TEXT:
            raise CannotTake(f"the reply has more than {LONGEST_TEXT:,} characters")
        row = EvaluationResult(
            prediction,
            truth,
            abstained,
            self._confidence(asking) if error is None else None,
            asking.raw_response,
            metadata=self._metadata(asking),
            record_id=name,
            cluster_id=cluster,
            signals=asking.signals,
            error=error,
            failure_class=failure_class,
            model=asking.model,
            finish_reason=asking.finish_reason,
            latency_seconds=asking.latency_seconds,
        )
        row.input_tokens, row.output_tokens, row.total_tokens = asking.tokens
        self._seen.add((name, asking.repeat))
        self._truths[name] = (truth, cluster)
        return row

    def notes(self, rows: Sequence[EvaluationResult]) -> list[str]:
        """Say how answers were taken where that is not plain."""
        answered = [row for row in rows if row.outcome == "answered"]
        n_without = sum(row.confidence is None for row in answered)
        found = {
            "answers that the scorer marks right, though not in the words of the right answer, "
            "taken as it": self._n_by_verdict,
            "answers that the scorer marks wrong without recording a short answer, taken as "
            f"{MARKED_WRONG!r}": self._n_without_words,
            "answered rows without a confidence": n_without if n_without < len(answered) else 0,
        }
        return [f"{words}: {n}" for words, n in found.items() if n]

    def _refuse_repeated(self, name: str, repeat: int, known: tuple[Label, str]) -> None:
        if (name, repeat) in self._seen:
            raise CannotTake(
                "its id has appeared before; give every row its own, or name the column that "
                "numbers the askings of a record"
            )
        if self._truths.get(name, known) != known:
            raise CannotTake("an earlier asking of the same id has another right answer or patient")

    def _outcome(
        self, asking: SourceRow, truth: Label
    ) -> tuple[str | None, str, Label | None, bool]:
        """Return error, failure class, prediction and whether the model abstained."""
        if asking.error is not None:
            if asking.abstained:
                raise CannotTake("it is marked as failed and as abstained")
            return asking.error, asking.failure_class, None, False
        answer = asking.answer
        is_empty = answer is None or _text(answer).casefold() in ("", "nan")
        if asking.abstained or (not is_empty and self.abstains(answer, asking)):
            return None, "", None if is_empty else _short(answer), True
        if is_empty and not (asking.is_right or (answer is None and asking.is_right is False)):
            if self._options.empty == "abstained":
                return None, "", None, True
            if self._options.empty == "no_answer":
                return "no answer", NO_PREDICTION, None, False
            if self._options.empty == "unread":
                raise Unread
            raise EmptyAnswer
        prediction = self._prediction(asking, truth)
        if not self._answers.allowed or prediction == MARKED_WRONG:
            return None, "", prediction, False
        if self._answers.match(prediction) is None:
            words = f"{prediction!r} is not one of the allowed answers ({self._answers.listed()})"
            return words, NOT_ALLOWED, kept_value(prediction), False
        self._n_allowed += 1
        return None, "", prediction, False

    def _prediction(self, asking: SourceRow, truth: Label) -> Label:
        if asking.is_right is None:
            answer = _label(asking.answer, "answer", LONGEST_ANSWER)
            if isinstance(canonical_label(truth), int) and _DECIMAL.fullmatch(str(answer)):
                raise CannotTake(
                    f"the answer {answer!r} is a fraction and the right answer a whole number; "
                    "is it a probability?"
                )
            self._said[answer] += 1
            self._right[truth] = None
            return answer
        said = None if asking.answer is None else _short(asking.answer)
        same = said is not None and canonical_label(said) == canonical_label(truth)
        if asking.is_right:
            self._n_by_verdict += not same
            return truth
        if same:
            raise CannotTake("the scorer marks it wrong though the answer is the right one")
        if said is None:
            self._n_without_words += 1
        return MARKED_WRONG if said is None else said

    def refuse_foreign_answers(self) -> None:
        """Refuse predictions of which not one is an allowed answer: they are in other words.

        Where the answers are not listed, those that are right are taken for them, if they are few.
        """
        truths = AnswerSet(tuple(self._right))
        known = self._answers if self._answers.allowed else truths
        if not self._said or len(known.allowed) > _MOST_ANSWERS or self._n_allowed:
            return
        if any(known.match(said) is not None for said in self._said):
            return
        shown = ", ".join(repr(said) for said, _ in self._said.most_common(_MOST_SHOWN))
        more = ", …" if len(self._said) > _MOST_SHOWN else ""
        raise InvalidValue(
            f"none of the {self._said.total():,} predictions is an allowed answer: they are "
            f"{shown}{more} and the answers are {known.listed()}; write both in the same words, or "
            "list the answers with --answers"
        )

    def abstains(self, answer: JsonValue, asking: SourceRow) -> bool:
        """Say whether an answer is one that stands for abstaining, by itself or by its words."""
        if not self._tokens or not isinstance(answer, str | int):
            return False
        said = canonical_label(answer)
        words = (words for label, words in asking.choices if canonical_label(label) == said)
        return bool(self._tokens & {said, *map(canonical_label, words)})

    def _confidence(self, asking: SourceRow) -> float | None:
        given, scale = asking.confidence, self._options.confidence_scale
        if given is None or (isinstance(given, str) and not given.strip()):
            return None
        is_percentage = _text(given).endswith("%")
        number = as_number(_text(given)[:-1] if is_percentage and scale in (None, 100) else given)
        if number is None:
            raise CannotTake(f"the confidence {str(given)[:40]!r} is not a number")
        if scale is None and (is_percentage or 1 < number <= 100):
            what = "is a percentage" if is_percentage else "lies above 1"
            raise InvalidValue(
                f"{asking.place}: the confidence {given!r} {what}; give "
                "--confidence-scale 100 if it is a percentage, else --confidence-scale 1, which "
                "lists such rows as not taken"
            )
        confidence = number / (scale or 1.0)
        if not 0.0 <= confidence <= 1.0:
            raise CannotTake(f"the confidence {str(given)[:40]} lies outside 0 to {scale or 1:g}")
        return confidence

    def _cluster(self, asking: SourceRow) -> str:
        key = self._options.patient
        return _name(_value(asking.values, key), key) if key else ""

    def _metadata(self, asking: SourceRow) -> JsonObject:
        options = self._options
        metadata: JsonObject = {key: _value(asking.values, key) for key in options.group}
        if options.should_defer:
            due = as_truth(_value(asking.values, options.should_defer))
            if due is None:
                raise CannotTake(f"{options.should_defer} is neither true nor false")
            metadata["should_abstain"] = due
        return {**metadata, "sample_index": asking.repeat} if asking.repeat else metadata


def _value(values: JsonMapping, key: str) -> JsonValue:
    if key not in values:
        raise CannotTake(f"it has no {key!r}")
    return values[key]


def _text(value: JsonValue) -> str:
    return str(value).strip()


def _name(value: JsonValue, what: str) -> str:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int | str) or not str(whole).strip():
        raise CannotTake(f"its {what} is empty, or no text or whole number")
    if len(str(whole)) > LONGEST_NAME:
        raise CannotTake(f"its {what} has more than {LONGEST_NAME} characters")
    return str(whole)


def _label(value: JsonValue, what: str, longest: int) -> Label:
    """Return a label: 1.0, as tables write whole numbers with gaps, is 1."""
    if isinstance(value, bool | int):
        return int(value)
    text = _text(value) if isinstance(value, str | float) else ""
    if not text or text.casefold() == "nan":
        raise CannotTake(f"it has no {what}")
    if len(text) > longest:
        raise CannotTake(f"its {what} has more than {longest} characters")
    whole = _WHOLE.fullmatch(text)
    return int(whole[1]) if whole else text


def _short(answer: JsonValue) -> Label | None:
    """Return an answer as a label, None where it is prose and no label."""
    try:
        return _label(answer, "answer", LONGEST_ANSWER)
    except CannotTake:
        return None
