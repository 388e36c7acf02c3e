"""What the rest of krisis reads of a suite's description of itself, in typed fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from krisis.json_values import JsonMapping, JsonValue


@dataclass(frozen=True, slots=True)
class SuiteFacts:
    """A suite as it describes itself; what it says beyond these fields is shown and never read.

    ``read`` says how many of the records a reader read, where not all, ``account`` which patients
    of a file are used, ``deferral`` when a case should be deferred; each is empty where the suite
    does not say so.

    >>> SuiteFacts.of({"suite": "ckd", "deferral": {"risk": 0.2}}).deferral
    'A case should be deferred if the best answer is wrong with a probability of 0.2 or more.'
    """

    suite: str = ""
    task: str = ""
    features: str = ""
    mode: str = ""
    limit: int | None = None
    n_records: int | None = None
    content_hash: str = ""
    case_hash: str = ""
    read: str = ""
    account: str = ""
    synthetic: bool = False
    deferral: str = ""

    @classmethod
    def of(cls, description: JsonMapping) -> SuiteFacts:
        """Read a description, leniently: suites of one's own may say anything."""
        names = ("suite", "task", "features", "mode", "content_hash", "case_hash")
        limit, n_records = description.get("limit"), description.get("n_records")
        read, account = description.get("read"), description.get("account")
        return cls(
            **{name: str(description.get(name) or "") for name in names},
            limit=limit if isinstance(limit, int) else None,
            n_records=n_records if isinstance(n_records, int) else None,
            read=read if isinstance(read, str) else "",
            account=account if isinstance(account, str) else "",
            synthetic=description.get("synthetic") is True,
            deferral=_deferral_sentence(description.get("deferral")),
        )


def _deferral_sentence(stated: JsonValue) -> str:
    """Say when a case should be deferred: in the suite's words, or by its probability or margin."""
    if not isinstance(stated, Mapping):
        return ""
    if isinstance(words := stated.get("words"), str):
        return words
    risk, margin = (_digits(stated.get(name)) for name in ("risk", "margin_ml_min"))
    if risk:
        return (
            "A case should be deferred if the best answer is wrong with a probability of "
            f"{risk} or more."
        )
    if margin:
        unit = "mL/min/1.73 m²"
        return f"A case should be deferred within {margin} {unit} of a limit of the stages."
    return ""


def _digits(value: JsonValue) -> str:
    """Write a number with every digit that it has and no exponent; nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return f"{Decimal(str(value)).normalize():f}"
