"""The index of words finds what reading every text finds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from krisis.viewer.stored_columns import found_texts
from krisis.viewer.words import END, Words, WordWriter, sought

from krisis.metrics.base import EvaluationResult
from krisis.viewer import stored_columns, words
from krisis.viewer.row_index import RowFilter, RowIndex

TEXTS = [
    "case-01\nno\nthe egfr is 43.2, near the threshold",
    "case-02\nyes\nalbumin not stated; egfr_new is 12",
    "case-03\nnone\nstraße naïve 血清 肌酐 \ud800 end",
    "",
    "case-10\nno\nthe the the threshold",
]


def written(folder: Path, texts: list[str]) -> np.ndarray:
    """Write an index of texts and the texts themselves; return where each ends."""
    encoded = [text.encode("utf-8", "surrogatepass") + END for text in texts]
    (folder / "texts").write_bytes(b"".join(encoded))
    with (folder / "pairs").open("wb") as pairs:
        writer = WordWriter(pairs)
        for text in texts:
            writer.add(text)
        writer.write(folder)
    return np.cumsum([len(text) for text in encoded])


def looked_for(texts: list[str], needle: str) -> list[int]:
    return [number for number, text in enumerate(texts) if needle in text]


@pytest.mark.parametrize(
    "needle",
    [
        *("the", "thr", "egfr", "43.2", "case-0", "is 12", "the the", "e", "0", "\n", "ß na", "清"),
        *("血清", "the threshold", "hold the", "nowhere", "stated; e", "\ud800", "1", ", near"),
    ],
)
@pytest.mark.parametrize("one_by_one", [1, 5_000])
def test_a_text_is_found_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needle: str, one_by_one: int
) -> None:
    monkeypatch.setattr(stored_columns, "_READ_ONE_BY_ONE", one_by_one)
    monkeypatch.setattr(words, "_WORDS_ONE_BY_ONE", one_by_one)
    monkeypatch.setattr(words, "_PAIRS_AT_ONCE", one_by_one)
    ends = written(tmp_path, TEXTS)
    assert found_texts(tmp_path, ends, needle).tolist() == looked_for(TEXTS, needle)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab1é血_ .-\n", max_size=12), min_size=1, max_size=12),
    st.text("ab1é血_ .-\n", min_size=1, max_size=4),
    st.integers(1, 7),
    st.integers(0, 3),
)
def test_any_text_is_found_by_its_words_as_by_reading(
    texts: list[str], needle: str, at_once: int, one_by_one: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_PAIRS_AT_ONCE", at_once)
        patch.setattr(words, "_WORDS_ONE_BY_ONE", one_by_one + 1)
        ends = written(Path(folder), texts)
        assert found_texts(Path(folder), ends, needle).tolist() == looked_for(texts, needle)


@pytest.mark.parametrize(
    ("needle", "found"), [("thresh", [0, 4]), ("3.2", [0]), ("case", [0, 1, 2, 4])]
)
def test_words_are_found_without_reading_a_text(
    tmp_path: Path, needle: str, found: list[int]
) -> None:
    ends = written(tmp_path, TEXTS)
    (tmp_path / "texts").write_bytes(b"")
    assert found_texts(tmp_path, ends, needle).tolist() == found


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("egfr 43.2", ["egfr", "43.2"]),
        (" case-07  case-07 ", ["case-07"]),
        (' "is not" ', ["is not"]),
        ('"is" "not"', ['is" "not']),
        ('""', ['""']),
        ("→", ["→"]),
    ],
)
def test_a_search_is_for_every_word_or_for_the_phrase_in_quotes(
    typed: str, parts: list[str]
) -> None:
    assert sought(typed) == parts


def test_every_word_is_looked_for_in_any_order() -> None:
    rows = [
        EvaluationResult(1, 1, raw_response=text, record_id=f"case-{number}")
        for number, text in enumerate(["Albumin is not stated", "is albumin stated", "albumin"])
    ]
    index = RowIndex(rows, {})
    found = {
        text: index.select(RowFilter(text=text)).tolist()
        for text in ("stated ALBUMIN", '"is not"', "albumin case-2")
    }
    assert found == {"stated ALBUMIN": [0, 1], '"is not"': [0], "albumin case-2": [2]}


@pytest.mark.parametrize("limit", ["_MOST_WORDS", "_MOST_CHARACTERS"])
def test_without_an_index_of_too_many_words_the_texts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(words, limit, 9)
    ends = written(tmp_path, TEXTS)
    assert not Words(tmp_path, len(TEXTS)).exists
    assert found_texts(tmp_path, ends, "egfr").tolist() == [0, 1]


def test_nothing_is_found_where_there_is_no_text(tmp_path: Path) -> None:
    assert found_texts(tmp_path, written(tmp_path, []).astype(np.int64), "egfr").tolist() == []
