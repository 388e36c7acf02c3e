"""Which texts of a long run have which words, so that a search need not read them all."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# In no text of UTF-8, so that nothing is found across two texts or two words.
END = b"\xff"
# A decimal number is one word.
_WORD = re.compile(r"\w+(?:\.\w+)*")
# With more different words, as in languages without spaces, the texts themselves are searched.
_MOST_WORDS = 3_000_000
_MOST_CHARACTERS = 48_000_000
_PAIRS_AT_ONCE = 2_000_000
_WORDS_ONE_BY_ONE = 200


def sought(text: str) -> list[str]:
    """Return what a text must contain to be found: every word, or what is in quotes as it is.

    >>> sought("albumin 3.5")
    ['albumin', '3.5']
    >>> sought('"albumin 3.5"')
    ['albumin 3.5']
    """
    quoted = text.strip()
    if len(quoted) > 2 and quoted[0] == quoted[-1] == '"':
        return [quoted[1:-1]]
    return list(dict.fromkeys(text.split()))


class WordWriter:
    """Notes the words of texts one after the other, and writes an index of them."""

    def __init__(self, pairs: BinaryIO) -> None:
        self._pairs = pairs  # the words of every text as numbers: too many for the memory
        self._known: dict[str, int] = {}
        self._n_characters = 0
        self._n_words = array("i")

    @property
    def is_given_up(self) -> bool:
        """Tell whether there are too many different words for an index."""
        return len(self._known) > _MOST_WORDS or self._n_characters > _MOST_CHARACTERS

    def add(self, text: str) -> None:
        """Take the next text."""
        if self.is_given_up:
            return
        known, numbers = self._known, array("i")
        for word in set(_WORD.findall(text)):
            number = known.get(word)
            if number is None:
                number = known[word] = len(known)
                self._n_characters += len(word)
            numbers.append(number)
        self._pairs.write(numbers.tobytes())
        self._n_words.append(len(numbers))

    def write(self, folder: Path) -> None:
        """Write the words, the most frequent first, and after each other the texts that have it."""
        self._pairs.flush()
        path = Path(self._pairs.name)
        if not self.is_given_up and self._known:
            n_words = np.frombuffer(self._n_words, np.int32)
            _write_index(folder, list(self._known), n_words, path)
        self._known = {}


def _write_index(folder: Path, names: list[str], n_words: NDArray[np.int32], path: Path) -> None:
    counts = np.zeros(len(names), dtype=np.int64)
    for _, words in _pairs(path, n_words):
        counts += np.bincount(words, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    ends = np.cumsum(counts[order])
    postings = np.memmap(folder / "postings", np.int32, "w+", shape=(int(ends[-1]),))
    free = ends - counts[order]  # where the next text of every word goes
    for texts, words in _pairs(path, n_words):
        by_word = np.argsort(rank[words], kind="stable")
        ranks = rank[words][by_word]
        first = np.flatnonzero(np.diff(ranks, prepend=-1))
        lengths = np.diff(first, append=ranks.size)
        postings[np.repeat(free[ranks[first]] - first, lengths) + np.arange(ranks.size)] = texts[
            by_word
        ]
        free[ranks[first]] += lengths
    postings.flush()
    np.save(folder / "posting_end.npy", ends)
    with (folder / "words").open("wb") as file:
        file.writelines(names[place].encode("utf-8", "surrogatepass") + END for place in order)


def _pairs(path: Path, n_words: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int32], ...]]:
    """Yield numbers of texts and of their words, some at a time."""
    ends = np.cumsum(n_words, dtype=np.int64)
    start, first = 0, 0
    with path.open("rb") as file:
        while first < ends.size:
            last = int(np.searchsorted(ends, start + _PAIRS_AT_ONCE, side="left")) + 1
            last = min(last, ends.size)
            texts = np.repeat(np.arange(first, last, dtype=np.int32), n_words[first:last])
            yield texts, np.fromfile(file, np.int32, texts.size)
            start, first = int(ends[last - 1]), last


class Words:
    """The index of the words of one run, read as far as a search needs it."""

    def __init__(self, folder: Path, n_texts: int) -> None:
        self._folder, self._n_texts = folder, n_texts

    @property
    def exists(self) -> bool:
        """Tell whether an index was written."""
        return (self._folder / "words").exists()

    @cached_property
    def _ends(self) -> IntArray:
        ends: IntArray = np.load(self._folder / "posting_end.npy", mmap_mode="r")
        return ends

    def candidates(self, needle: str) -> tuple[BoolArray, bool]:
        """Return the texts that have all words of a needle, and whether these all contain it.

        A needle that is one word, or a part of one, lies within one word of a text that contains
        it, and so no text has to be read. Of any other one the texts still have to be.
        """
        kept = np.ones(self._n_texts, dtype=np.bool_)
        parts = _WORD.findall(needle)
        for part in sorted(set(parts), key=len, reverse=True):
            if kept.any():
                kept &= self._texts_of(self._containing(part))
        return kept, parts == [needle]

    def _containing(self, part: str) -> IntArray:
        """Return the numbers of the words that contain a part of one."""
        text = np.fromfile(self._folder / "words", np.uint8)
        wanted = part.encode("utf-8", "surrogatepass")
        places = np.flatnonzero(text == wanted[0])
        for offset, value in enumerate(wanted[1:], start=1):
            places = places[places < text.size - offset]
            places = places[text[places + offset] == value]
        ends = np.flatnonzero(text == END[0])
        if places.size < ends.size:
            return np.unique(np.searchsorted(ends, places))
        return np.flatnonzero(np.diff(np.searchsorted(places, ends), prepend=0))

    def _texts_of(self, words: IntArray) -> BoolArray:
        """Return the texts that have any of some words, which are numbered by frequency."""
        kept = np.zeros(self._n_texts, dtype=np.bool_)
        with (self._folder / "postings").open("rb") as file:
            for word in words[:_WORDS_ONE_BY_ONE].tolist():
                start = int(self._ends[word - 1]) if word else 0
                kept[_read(file, start, int(self._ends[word]))] = True
                if kept.all():
                    return kept
            rest = words[_WORDS_ONE_BY_ONE:]
            while rest.size:  # the rare words that lie near each other at once
                start = int(self._ends[rest[0] - 1])
                last = int(np.searchsorted(self._ends, start + _PAIRS_AT_ONCE))
                near, rest = rest[rest <= last], rest[rest > last]
                wanted = np.zeros(near[-1] - near[0] + 1, dtype=np.bool_)
                wanted[near - near[0]] = True
                ends = self._ends[near[0] : near[-1] + 1]
                postings = _read(file, start, int(ends[-1]))
                kept[postings[np.repeat(wanted, np.diff(ends, prepend=start))]] = True
        return kept


def _read(file: BinaryIO, start: int, stop: int) -> NDArray[np.int32]:
    file.seek(4 * start)
    return np.frombuffer(file.read(4 * (stop - start)), np.int32)
