"""`krisis.forget`: remove a patient from runs, and from what krisis keeps elsewhere about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis.data.patient_record import case_hash
from krisis.errors import InvalidValue, KrisisError, UserError
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.pages.numbers import count
from krisis.runs.load import read_description
from krisis.runs.text_cache import remove_index
from krisis.runs.trust import names_own
from krisis.verbs.forget.removal import Removed, remove_patient


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What became of one run: what was ``removed``, or why nothing was (``problem``).

    Neither is given where the run has no such patient. ``n_replies`` left the reply cache.
    """

    run: Path
    removed: Removed | None = None
    n_replies: int = 0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        if self.removed is None:
            return f"{self.run}: no such patient, nothing was changed"
        return f"{self.run}: {'; '.join(self._parts(self.removed))}"

    def _parts(self, removed: Removed) -> list[str]:
        counts = (
            _count(removed.n_records, "record"),
            _count(removed.n_rows, "row"),
            _count(removed.n_notes, "review note"),
            _count(self.n_replies, "cached reply", "cached replies"),
        )
        found = [f"1 patient removed ({', '.join(counts)})"]
        if n := removed.n_rows_without_text:
            found.append(f"{_count(n, 'row')} of others lost a text shared with the patient")
        if n := removed.n_notes_without_text:
            found.append(f"{_count(n, 'review note')} of others lost a text that named the patient")
        if n := removed.n_stale:
            found.append(f"{_count(n, 'certificate')} made before {_are(n)} stale: certify again")
        if removed.had_not_taken:
            found.append("the list of rows that could not be imported was removed as well")
        if n := removed.n_mentions:
            found.append(f"{_count(n, 'line')} of other patients still {_name(n)} the patient")
        if removed.has_other_name:
            found.append("the old file has another name (a hard link); delete that as well")
        return found


def _count(n: int, one: str, several: str = "") -> str:
    return f"{count(n)} {one if n == 1 else several or f'{one}s'}"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _name(n: int) -> str:
    return "names" if n == 1 else "name"


def forget(
    runs: str | Path | Sequence[str | Path],
    *,
    patient: str,
    cache_path: str | Path | None = None,
) -> list[Forgotten]:
    """Remove a patient from runs, their review notes, the reply cache and the search index.

    Each run is rewritten as a whole, and its figures are those of a run that never had the patient;
    what it cost stays. Such a run cannot be resumed. Copies, exports, reports and certificates
    elsewhere cannot be found and must be deleted by hand.

    Arguments:
        runs: A run file, or several.
        patient: The id of the patient, as in the data.
        cache_path: The reply cache, where it is not the usual one.

    Returns:
        What became of each run; a run without the patient is not changed.

    >>> import tempfile, krisis
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = krisis.run("ckd", "guideline", limit=20, baselines=False, out=folder)
    ...     [found] = krisis.forget(result.provenance.run_file, patient="embedded-42-3")
    ...     found.removed.n_rows, krisis.load(found.run).attrition.n_sent
    (1, 19)
    """
    if not patient:
        raise InvalidValue("the patient is missing; give the id as it is in the data")
    paths = [runs] if isinstance(runs, str | Path) else runs
    found = [_forgotten(Path(run), patient, cache_path) for run in paths]
    if not any(one.removed for one in found):
        problems = [one.problem for one in found if one.problem]
        if problems:
            raise UserError(problems[0])
        named = str(found[0].run) if len(found) == 1 else f"none of the {len(found)} runs"
        has = "has no" if len(found) == 1 else "has a"
        raise InvalidValue(f"{named} {has} patient {patient!r}; nothing was changed")
    return found


def _forgotten(run: Path, patient: str, cache_path: str | Path | None) -> Forgotten:
    n_replies = 0

    def clear_copies(replies: Sequence[str]) -> None:
        nonlocal n_replies
        for cache in _caches(run, cache_path):
            n_replies += _remove_replies(cache, replies)
        remove_index(run)

    try:
        removed = remove_patient(run, patient, case_hash=case_hash, clear_copies=clear_copies)
    except KrisisError as error:
        return Forgotten(run=run, problem=str(error))
    return Forgotten(run=run, removed=removed, n_replies=n_replies)


def _caches(run: Path, given: str | Path | None) -> set[Path]:
    """Return the reply caches that exist; one that a run names only if one named it."""
    described = read_description(run)
    named = described.config.get("cache_path")
    found = {default_cache_path()} if given is None else {Path(given)}
    if isinstance(named, str) and named and names_own(described.run_id, described.config):
        found.add(Path(named))
    return {one for one in found if one.is_file()}


def _remove_replies(path: Path, replies: Sequence[str]) -> int:
    cache = ReplyCache(path)
    try:
        return cache.remove_texts(replies)
    finally:
        cache.close()
