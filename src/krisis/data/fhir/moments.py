"""Dates of FHIR: of any precision, as the span of time that they leave open."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject

_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(T.+)?)?)?")
# When a resource came to be known; the first that it has counts, and a period at its end.
_ELEMENTS = (
    *("effectiveDateTime", "effectiveInstant", "effectivePeriod"),
    *("performedDateTime", "performedPeriod", "occurrenceDateTime", "occurrencePeriod"),
    *("recordedDate", "onsetDateTime", "onsetPeriod", "authoredOn", "issued"),
    *("period", "date", "dateAsserted", "recorded"),
)


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A point in time, or a span that a date without its time of day leaves open."""

    start: datetime
    end: datetime

    def is_before(self, other: Moment) -> bool:
        """Say whether this is certainly over when the other begins.

        >>> moment("2024-03-01").is_before(moment("2024-03-02T08:00:00Z"))
        True
        >>> moment("2024-03").is_before(moment("2024-03-02"))
        False
        """
        return self.end <= other.start and self.start < other.start


def moment(text: object) -> Moment:
    """Read a FHIR date, dateTime or instant; without a time zone it is taken as UTC."""
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    try:
        if match is None:
            raise ValueError
        year, month, day, clock = match.groups()
        if clock:
            found = datetime.fromisoformat(str(text))
            exact = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
            return Moment(exact, exact)
        first = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
        # 32 days from the first of a month end in the next one.
        days = 1 if day else 32 if month else 366
        after = first + timedelta(days=days)
        return Moment(first, after if day else after.replace(day=1))
    except (ValueError, OverflowError):
        raise InvalidValue(f"{text!r} is not a FHIR date") from None


def moment_of(resource: JsonObject) -> Moment | None:
    """Return when a resource came to be known, or None where it does not say."""
    for name in _ELEMENTS:
        value = resource.get(name)
        if isinstance(value, dict):
            value = value.get("end") or value.get("start")
        if value:
            return moment(value)
    return None


def age_in_years(birth: str, at: Moment) -> int:
    """Return completed years; a birth date without its day counts in the middle of its span.

    >>> age_in_years("1960-03-02", moment("2024-03-01")), age_in_years("1960", moment("2024-08"))
    (63, 64)
    """
    span = moment(birth)
    born = (span.start + (span.end - span.start) / 2).date()
    then: date = at.start.date()
    return then.year - born.year - ((then.month, then.day) < (born.month, born.day))
