"""By what artifacts recognise patients: a salted slow hash, so that guessing ids costs.

A certificate must not be verified, and a calibrator not judged, on the patients that it was made
on. So it keeps something of their names. A plain hash of a hospital number is found by trying all
numbers, at millions a second; of a salted `scrypt` one try takes a millisecond, and nothing that
was tried for one artifact helps with another. Guessing is made expensive, not impossible: ten
million numbers take three hours of one core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

# N of scrypt, with r = 8 and p = 1: 1.1 ms and 512 kB a patient.
_COST = 2**9
# From here on the cost is halved whenever the patients double: no artifact takes longer than these.
_MOST_AT_FULL_COST = 10_000
_N_BYTES = 8


class PatientKeys(BaseModel):
    """The keys of some patients; ``cost`` and ``salt`` are what another key is made with."""

    model_config = ConfigDict(extra="forbid", strict=True)

    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    cost: Annotated[int, Field(ge=2, le=2**12)]  # a stranger's artifact must not take for ever
    keys: list[str]

    @field_validator("cost")
    @classmethod
    def _is_power_of_two(cls, cost: int) -> int:
        if cost & (cost - 1):
            raise ValueError("the cost must be a power of two")
        return cost

    @classmethod
    def of(cls, names: Collection[str], *, made_from: str) -> PatientKeys:
        """Return the keys of patients; the salt follows from what else the artifact holds.

        The same artifact has the same bytes again; a salt is no secret.

        >>> keys = PatientKeys.of(["anna", "ben"], made_from="this artifact")
        >>> keys.n_among(["ben", "carla"]), "ben" in str(keys)
        (1, False)
        """
        salt = hashlib.sha256(made_from.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        cost = _COST
        while cost > 2 and len(names) * cost > _MOST_AT_FULL_COST * _COST:
            cost //= 2
        return cls(salt=salt, cost=cost, keys=sorted(_key(name, salt, cost) for name in names))

    def n_among(self, names: Iterable[str]) -> int:
        """Count how many of these patients have a key here."""
        known = set(self.keys)
        return sum(_key(name, self.salt, self.cost) in known for name in names) if known else 0


@lru_cache(maxsize=2**17)
def _key(name: str, salt: str, cost: int) -> str:
    told = name.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(told, salt=bytes.fromhex(salt), n=cost, r=8, p=1, dklen=_N_BYTES).hex()
