"""Stage 2: what a backend hands on (`BackendResponse`) and what it must offer (`BaseBackend`)."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

from krisis.backends.secrets import names_secret
from krisis.data.base import BaseDataSuite, Judgement, Label, PatientRecord
from krisis.display import cut
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject

# More than any context window holds: a larger count is a fault of whoever wrote it.
MOST_TOKENS = 10_000_000


@dataclass(slots=True)
class BackendResponse:
    """What came back for one record, parsed and checked.

    ``confidence`` is the probability, as the model states it, that its answer is correct.
    ``prompt`` is the template with every patient value redacted; ``prompt_mode`` is "single" or
    "batch", by default as the run called the backend. ``signals`` holds further
    figures such as token log-probabilities. Token counts are ``None`` where the provider does not
    report them; those of a batched call are shared out over its rows so that they add up. A
    confidence, count or latency that cannot be used is dropped and counted in
    ``n_dropped_fields``: the answer was paid for. A dropped confidence is named in
    ``unusable_confidence``, and ends the run before its next call.

    >>> response = BackendResponse(1, confidence=85)
    >>> response.confidence is None, response.unusable_confidence
    (True, '85')
    """

    prediction: Label | None
    abstained: bool = False
    confidence: float | None = None
    raw_response: str = ""
    prompt: str = ""
    prompt_mode: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    signals: JsonObject = field(default_factory=dict)
    latency_seconds: float | None = None
    finish_reason: str = ""
    model: str = ""
    n_dropped_fields: int = field(default=0, init=False, compare=False)
    unusable_confidence: str = field(default="", init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.abstained, bool):
            raise InvalidValue(f"abstained must be True or False, not {self.abstained!r}")
        checks: dict[str, Callable[[Any], object]] = {
            "confidence": usable_confidence,
            "latency_seconds": _usable_seconds,
            "input_tokens": _usable_count,
            "output_tokens": _usable_count,
            "total_tokens": _usable_count,
        }
        stated = self.confidence
        for name, usable in checks.items():
            given = getattr(self, name)
            if given is not None:
                setattr(self, name, usable(given))
                self.n_dropped_fields += getattr(self, name) is None
        if stated is not None and self.confidence is None:
            self.unusable_confidence = _brief(stated)
        # A row that cannot be read back from its file would cost the whole run.
        self.prediction = _checked_prediction(self.prediction)
        if not isinstance(self.raw_response, str) or not isinstance(self.prompt, str):
            raise InvalidValue("raw_response and prompt must be text; write other things as JSON")
        self.model, self.finish_reason = str(self.model or ""), str(self.finish_reason or "")

    @classmethod
    def of(cls, judged: Judgement) -> Self:
        """Return what a rule or a reader said as a response."""
        signals = dict(judged.signals)
        if judged.abstain:
            return cls(None, abstained=True, signals=signals)
        return cls(judged.answer, confidence=judged.confidence, signals=signals)


def _brief(value: object) -> str:
    """Name a value by itself where it is a number or a word, else by its kind."""
    is_short = isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 12)
    return cut(repr(value)) if is_short else f"a {type(value).__name__}"


def _checked_prediction(value: Any) -> Label | None:
    if value is None or type(value) is int or type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    try:
        if int(value) == value:  # True, 1.0 and the numbers of NumPy
            return int(value)
    except (TypeError, ValueError, OverflowError):
        pass
    if isinstance(value, Real):
        return str(value)  # no answer to a task of whole numbers, and kept as it is
    raise InvalidValue(f"prediction must be a whole number, text or None, not {value!r}")


def _usable_count(value: Any) -> int | None:
    try:
        return believable_count(operator.index(value))
    except TypeError:
        return None


def believable_count(n_tokens: int | None) -> int | None:
    """Return a number of tokens, None for one that no call can have taken."""
    return n_tokens if n_tokens is not None and 0 <= n_tokens <= MOST_TOKENS else None


def _usable_seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return float(value)


def usable_confidence(value: Any) -> float | None:
    """Return a confidence as a float, None for what is not a number between 0 and 1."""
    if isinstance(value, bool | str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0.0 <= number <= 1.0 else None


class BaseBackend(ABC):
    """Any model, rule or person that judges records.

    The smallest backend implements `evaluate` alone. `prepare` is called once before a run with
    the suite, so that a backend can take its question or be fitted on the training records. An
    exception that a moment's trouble explains (a lost connection, a time-out, a rate limit) is
    retried ``max_retries`` times, after pauses that grow from ``retry_base_seconds``.
    """

    name: str = "backend"
    third_party: str = ""  # who else is sent the records, where they leave this machine
    packages: ClassVar[tuple[str, ...]] = ()  # whose versions have a say in the answers
    extra: ClassVar[str] = ""  # that must be installed, and the module by which it is known
    sdk: ClassVar[str] = ""
    max_retries: int = 5
    retry_base_seconds: float = 0.5
    retry_max_seconds: float = 60.0

    # What it was made with, so that another process can make it again; never a key.
    made_with: tuple[tuple[object, ...], dict[str, object]] = ((), {})

    def __init_subclass__(cls) -> None:
        if cls.name == BaseBackend.name:
            cls.name = cls.__name__

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Make the backend, and remember with what."""
        made = super().__new__(cls)
        kept = {name: value for name, value in options.items() if not names_secret(name)}
        made.made_with = (arguments, kept)
        return made

    def __repr__(self) -> str:
        # Only the name: an argument may be a key, or an address that holds one.
        return f"{type(self).__name__}({cut(str(self.name))!r})"

    @property
    def asked_as(self) -> str:
        """Return the name that runs bear: that of the backend, with how it is asked."""
        return self.name

    def prepare(self, suite: BaseDataSuite) -> None:
        """Get ready for the records of a suite; the default needs nothing."""
        return

    def readable(
        self, suite: BaseDataSuite, records: Sequence[PatientRecord]
    ) -> Sequence[PatientRecord]:
        """Return the records that can be part of a run: all, but for people who read only some."""
        return records

    @abstractmethod
    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Judge one record."""

    def evaluate_sample(self, record: PatientRecord, sample_index: int) -> BackendResponse:
        """Judge one record for one of several repeats; the default gives each the same answer."""
        return self.evaluate(record)

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        """Judge several records in one go; the default judges them one by one."""
        return [self.evaluate(record) for record in records]

    async def aclose(self) -> None:
        """Release what was opened in the running event loop; called once after a run."""
        return

    def identity(self) -> JsonObject:
        """Return what must be equal for two runs to have asked the same model; never a key."""
        return {"backend": self.name}


MadeAgain = tuple[Callable[..., BaseBackend], tuple[object, ...]]


def recipe(backend: BaseBackend) -> MadeAgain:
    """Return how a pickle makes a backend again: from its arguments and its task."""
    kept = {name: getattr(backend, name, None) for name in ("task", "asking", "max_retries")}
    return _made_again, (type(backend), *backend.made_with, kept)


def _made_again(
    kind: type[BaseBackend],
    arguments: tuple[object, ...],
    options: dict[str, object],
    state: dict[str, object],
) -> BaseBackend:
    made = kind(*arguments, **options)
    vars(made).update(state)
    return made
