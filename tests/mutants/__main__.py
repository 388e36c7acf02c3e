"""Make one clause wrong at a time and show which of these bugs no test notices.

    python -m tests.mutants [FOLDER ...] [--since REVISION] [--sample N] [--resume]

Exit 0 only if each bug is caught or has its reason in reasons.yaml.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from tests.mutants.clauses import Mutant
from tests.mutants.server import CAUGHT, Module, Record, Server

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "krisis"
# Of a verb what computes; what it shows is held by the approved pages.
COMPUTES = {
    "audit": ("groups", "result", "stability"),
    "check": ("gate",),
    "decide": ("curve", "policies", "population", "reader", "working_point"),
    "forget": ("removal",),
    "maintain": ("repair",),
    "monitor": ("evidence",),
    "plan": ("simulated_studies", "study"),
}
FOLDERS = (
    *("runs", "decisions", "metrics", "statistics", "pages/verdict.py"),
    *(
        f"verbs/{verb}/{module}.py"
        for verb, modules in COMPUTES.items()
        for module in modules
        if (SOURCE / "verbs" / verb).is_dir()
    ),
)
REASONS = Path(__file__).with_name("reasons.yaml")
_STATE = ROOT / ".mutants"
_QUICK = "not slow and not browser"
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def modules_in(folders: Sequence[str] = FOLDERS) -> list[Module]:
    """Return each module of these folders with its mutants."""
    return [
        Module(file, file.relative_to(SOURCE).as_posix())
        for place in (SOURCE / folder for folder in folders)
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]


def read_reasons(path: Path = REASONS) -> dict[tuple[str, str, str, int], str]:
    """Return why a mutant may live, by what names it."""
    return {
        (entry["function"], entry["clause"], entry["becomes"], entry.get("nth", 1)): entry["reason"]
        for entry in yaml.safe_load(path.read_text("utf-8")) or ()
    }


def changed_lines(revision: str) -> dict[str, set[int]]:
    """Return the lines of the source that are new since a revision, by path."""
    words = ["git", "diff", "--unified=0", "--no-color", revision, "--", str(SOURCE)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return lines_of_diff(done.stdout)


def lines_of_diff(diff: str) -> dict[str, set[int]]:
    """Return the lines that a diff adds, by path below ``src/krisis``."""
    lines: dict[str, set[int]] = {}
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/").removeprefix("src/krisis/")
        elif found := _HUNK.match(line):
            first, n_lines = int(found[1]), int(found[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + n_lines))
    return lines


def choose(
    modules: list[Module], changed: dict[str, set[int]] | None, n_sample: int | None, seed: int
) -> list[tuple[Module, Mutant]]:
    """Return the mutants to judge: of what changed, and of these a sample."""
    found = [(module, mutant) for module in modules for mutant in module.mutants]
    if changed is not None:
        found = [
            (module, mutant)
            for module, mutant in found
            if changed.get(mutant.path, set()) & set(range(mutant.first_line, mutant.last_line + 1))
        ]
    if n_sample is not None and n_sample < len(found):
        places = sorted(random.Random(seed).sample(range(len(found)), n_sample))
        found = [found[place] for place in places]
    return found


class Results:
    """What became of each mutant, printed and appended to a file, so that a run can go on."""

    def __init__(self, path: Path, *, keep: bool, reasons: Path = REASONS) -> None:
        self.counts: Counter[str] = Counter()
        self.left: list[str] = []
        self._reasons = read_reasons(reasons)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        if not keep:
            path.write_text("", "utf-8")
        lines = path.read_text("utf-8").splitlines()
        self.known = {tuple(entry["place"]): entry for entry in map(json.loads, lines)}
        self._path = path

    def lived(self, mutant: Mutant) -> bool:
        """Whether it was judged, and not caught."""
        return self.known.get(mutant.place, {"state": CAUGHT})["state"] != CAUGHT

    def add(self, mutant: Mutant, state: str, note: str, seconds: float) -> None:
        """Count, print and keep one result."""
        entry = {"place": mutant.place, "state": state, "note": note}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**entry, "seconds": round(seconds, 2)}) + "\n")
        self.count(mutant, state, note)

    def count(self, mutant: Mutant, state: str, note: str) -> None:
        """Count and print one result."""
        if state != CAUGHT and (reason := self._reasons.get(mutant.key)):
            state, note = "named", reason
        self.counts[state] += 1
        if state not in (CAUGHT, "named"):
            self.left.append(f"{state.upper():<12} {mutant}  [{note}]")
            print(self.left[-1])
        n_done = sum(self.counts.values())
        if n_done % 100 == 0:
            print(f"{n_done}: {dict(self.counts)}")
        sys.stdout.flush()


def main() -> int:
    """Judge the chosen mutants and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="below src/krisis; or a module")
    parser.add_argument("--since", metavar="REVISION", help="only lines changed since then")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many of them")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--resume", action="store_true", help="go on where a run was stopped")
    parser.add_argument("--survivors", action="store_true", help="only those that lived last time")
    parser.add_argument("--record", action="store_true", help="record all tests anew")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="the tests to choose from")
    parser.add_argument("-j", type=int, default=2, help="how many mutants at a time")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the forks are ended too
    modules = modules_in()
    wanted = {m.path: m for folder in words.folders for m in modules if m.path.startswith(folder)}
    changed = changed_lines(words.since) if words.since else None
    chosen = choose(list(wanted.values()), changed, words.sample, words.seed)
    results = Results(_STATE / "results.jsonl", keep=words.resume or words.survivors)
    if words.survivors:
        chosen = [one for one in chosen if results.lived(one[1])]
    left = []
    for module, mutant in chosen:
        known = results.known.get(mutant.place)
        if known and not words.survivors:
            results.count(mutant, known["state"], known["note"])
        else:
            left.append((module, mutant))
    path = _STATE / "record.json"
    record = Record() if words.record else Record.read(path)
    server = Server(modules, left, record, path, results.add, words.j)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", _QUICK]
    code = pytest.main([*options, "--ignore=tests/mutants", *words.tests], plugins=[server])
    if code:
        return int(code)
    print(*results.left, sep="\n")
    print(", ".join(f"{n} {state}" for state, n in results.counts.items()), f"of {len(chosen)}")
    return 1 if results.left else 0


if __name__ == "__main__":
    sys.exit(main())
