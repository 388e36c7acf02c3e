"""The blocks of a documentation page, and how they are typed in and compared with what it shows.

A comment on the line above a block says what is special about it:
``<!-- not run: REASON -->``, ``<!-- slow -->``, ``<!-- file: NAME -->`` for a block that is the
content of a file, which every other block of the page finds in its folder, or
``<!-- edit: NAME -->`` for a difference that the reader makes to a file.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pytest
from tests.commands import krisis

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?:<!-- (not run|slow|file|edit)(?:: (.+?))? -->\n)?```(\w*)\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)
# What differs from one run to the next: durations and the moments of the clock.
VARIES = re.compile(
    r"(elapsed_seconds|records_per_second|Seconds|Records per second) +[\d.,]+|^[\d.,]+ s$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block with the mark above it and the output shown below it."""

    page: Path
    line: int
    kind: str
    text: str
    mark: str = ""
    words: str = ""
    shown: str = ""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks_of(page: Path, text: str = "") -> list[Block]:
    """Return the blocks of a page, each with the output that follows it."""
    text = text or page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    blocks = []
    for one, following in zip(found, [*found[1:], None], strict=False):
        mark, words, kind, content = one.groups()
        shown = following[4] if following and following[3] == "output" else ""
        line = text.count("\n", 0, one.start(3)) + 1
        blocks.append(Block(page, line, kind, content, mark or "", words or "", shown))
    return blocks


def write_files(page: Path, folder: Path) -> None:
    """Put the files that a page shows where its commands find them."""
    for block in blocks_of(page):
        if block.mark == "file":
            (folder / block.words).write_text(block.text, encoding="utf-8")


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Split the lines of a shell block, with those that end in a backslash joined, into words."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [(line, shlex.split(line, comments=True)) for line in lines]
    return [(line, words) for line, words in split if words]


def typed(text: str, folder: Path) -> str:
    """Run the commands of a block in this process; return what they print and how they end."""
    printed = ""
    for line, words in commands(text):
        assert words[0] == "krisis", f"mark the block as not run, and why: {line}"
        may_fail = "||" in words
        given = words[1 : words.index("2>&1") if may_fail else None]
        globbed = [sorted(glob(w, root_dir=folder)) if "*" in w else [w] for w in given]
        done = krisis(*(word for some in globbed for word in some), cwd=folder)
        assert may_fail or done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        printed += f"{done.stdout}\n{done.stderr}\n"
        printed += f"exit {done.returncode}\n" if done.returncode else ""
    return printed


def executed(block: Block, names: dict[str, object]) -> str:
    """Run a program in a namespace; return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block.text, block.name, "exec"), names)
    return out.getvalue()


@contextlib.contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Let programs import the files of a folder, and forget them afterwards."""
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.syspath_prepend(str(folder))
        yield
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)


def follow(page: Path, folder: Path, text: str = "") -> list[tuple[str, str]]:
    """Type in a story from its top; return pairs of what it shows and what was printed."""
    write_files(page, folder)
    names: dict[str, object] = {"__name__": "page"}
    pairs = []
    with own_modules(folder):
        for block in blocks_of(page, text):
            printed = ""
            if block.kind == "bash" and block.mark != "not run":
                printed = typed(block.text, folder)
            elif block.kind == "python":
                printed = executed(block, names)
            elif block.mark == "edit":
                file = folder / block.words
                file.write_text(edited(file.read_text(encoding="utf-8"), block.text), "utf-8")
            if block.shown:
                pairs.append((block.shown, printed))
    return pairs


def edited(text: str, difference: str) -> str:
    """Replace runs of lines with a minus by the lines with a plus that follow them."""
    old: list[str] = []
    new: list[str] = []
    for line in [*difference.splitlines(), "-"]:
        if line.startswith("-") and new:
            assert text.count("\n".join(old)) == 1, f"not in the draft: {old}"
            text = text.replace("\n".join(old), "\n".join(new))
            old, new = [], []
        (old if line.startswith("-") else new).append(line[1:])
    return text


def assert_shown_in_order(shown: str, printed: str) -> None:
    """Check that every line shown was printed, in this order; … stands for any lines or words."""
    lines = iter(line.strip() for line in printed.splitlines())
    for wanted in shown.strip().splitlines():
        if wanted.strip() != "…":
            begin, cut = wanted.strip().removesuffix(" …"), wanted.strip().endswith(" …")
            found = (line.startswith(begin) if cut else line == begin for line in lines)
            assert any(found), f"not printed: {wanted}"
