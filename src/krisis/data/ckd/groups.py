"""The groups that results are broken down by: words instead of values, so that few are unique."""

from __future__ import annotations

from collections.abc import Mapping

from krisis.data.ckd.schema import Value

_AGE_BANDS = ((0, 18, "0–17"), (18, 40, "18–39"), (40, 60, "40–59"), (60, 75, "60–74"))


def group_fields(values: Mapping[str, Value]) -> dict[str, str | None]:
    """Return sex and age band as far as they are known; metadata, never shown to a model.

    >>> group_fields({"sex": 1, "age": 61})
    {'sex': 'female', 'age_band': '60–74'}
    """
    sex, age = values.get("sex"), values.get("age")
    return {
        "sex": None if sex is None else ("female" if sex else "male"),
        "age_band": None if age is None else _band(float(age)),
    }


def _band(age: float) -> str:
    return next((name for low, high, name in _AGE_BANDS if low <= age < high), "75+")
