"""Whether ids look like the numbers under which a hospital files its patients."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Six to ten digits, as hospitals number patients, also with letters such as MRN in front.
_NUMBER = re.compile(r"(?:MRN|PID|PAT|HN)?[-_ #:]?(\d{6,10})", re.IGNORECASE)
_FEWEST = 5
_SHARE = 0.9


def look_like_record_numbers(names: Iterable[object]) -> bool:
    """Say whether ids look like medical record numbers: long numbers that do not just count.

    Numbers that zeros make equally long are those of a register, even if they count.

    >>> look_like_record_numbers(["4471203", "0098127", "5510934", "7782310", "1200453"])
    True
    >>> look_like_record_numbers(str(100_000 + i) for i in range(50))  # a running number
    False
    >>> look_like_record_numbers(f"{i:07d}" for i in range(50))
    True
    >>> look_like_record_numbers(f"case-{i}" for i in range(50))
    False
    """
    listed = list({str(name).strip() for name in names})
    found = [match for name in listed if (match := _NUMBER.fullmatch(name))]
    if len(listed) < _FEWEST or len(found) < _SHARE * len(listed):
        return False
    digits = [match[1] for match in found]
    if len(set(map(len, digits))) == 1 and any(one.startswith("0") for one in digits):
        return True
    numbers = [int(one) for one in digits]
    return max(numbers) - min(numbers) >= 2 * len(numbers)
