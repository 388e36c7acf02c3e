"""When too many cases were not evaluated for anything to be decided on a run."""

from __future__ import annotations

from krisis.errors import InvalidValue

# The largest share of cases without a reply on which a run is still judged.
MOST_NOT_EVALUATED = 0.01


def check_limit(limit: float) -> float:
    """Return a share, or refuse what is none."""
    if isinstance(limit, bool) or not 0 <= limit <= 1:
        raise InvalidValue(f"max_not_evaluated must be a share from 0 to 1, not {limit!r}")
    return limit


def too_many_missing(n_missing: int, n_rows: int, limit: float) -> str:
    """Say that too many cases were not evaluated; nothing where they are few enough.

    >>> too_many_missing(340, 400, 0.01).partition(";")[0]
    '340 of 400 cases (85 %) were not evaluated, more than 1 %'
    >>> too_many_missing(1, 400, 0.01)
    ''
    """
    if not n_rows or n_missing <= limit * n_rows:
        return ""
    return (
        f"{n_missing:,} of {n_rows:,} cases ({100 * n_missing / n_rows:.3g} %) were not evaluated, "
        f"more than {100 * limit:.3g} %; resume the run, or allow them with --max-not-evaluated"
    )
