"""The reply cache: what goes in comes out, across processes and faults."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.commands import krisis

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.signals import TokenLogprob
from krisis.errors import InvalidFile
from krisis.execution.cache import ReplyCache

REQUEST = ChatRequest("openai", "m", "system", "user", {"a": 1}, {"t": 0}, "single", "x", 1)
REPLY = ChatReply(
    "é \ud800",
    finish_reason="stop",
    model="m-1",
    input_tokens=3,
    output_tokens=1,
    logprobs=(TokenLogprob("a", -0.5, (("b", -1.0), ("c", -math.inf))),),
    headers={"x-secret": "1"},
    latency_seconds=0.25,
)


def test_a_reply_comes_back_as_it_was_but_for_its_headers(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(REQUEST.key(), REQUEST, REPLY)
    assert cache.get(REQUEST.key()) == replace(REPLY, headers={})
    cache.close()
    again = ReplyCache(tmp_path / "replies.sqlite")
    assert again.get(REQUEST.key()) == replace(REPLY, headers={})
    assert b"x-secret" not in (tmp_path / "replies.sqlite").read_bytes()
    again.close()


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "grok"},
        {"base_url": "http://127.0.0.1/v1"},
        {"model": "n"},
        {"system": "other"},
        {"user": "other"},
        {"schema": {}},
        {"parameters": {"t": 1}},
        {"sample_index": 1},
        {"history": (("asked", "said"),)},
    ],
)
def test_whatever_can_change_an_answer_changes_the_key(change: dict[str, object]) -> None:
    assert replace(REQUEST, **change).key() != REQUEST.key()  # type: ignore[arg-type]


def test_two_caches_may_share_a_file(tmp_path: Path) -> None:
    first, second = (ReplyCache(tmp_path / "replies.sqlite") for _ in range(2))
    for number in range(200):
        cache = first if number % 2 else second
        cache.put(f"k{number}", REQUEST, REPLY)
    first.flush()
    second.flush()
    assert first.info().n_replies == second.info().n_replies == 200
    assert first.info().models == {"openai/m": 200}
    assert first.clear() == 200
    assert second.get("k1") is None
    first.close()
    second.close()


def test_a_file_of_another_kind_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_text("not a database, but long enough to be read as one")
    with pytest.raises(InvalidFile, match="--no-cache"):
        ReplyCache(tmp_path / "replies.sqlite")


def test_a_cache_that_breaks_is_turned_off_and_says_why(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache._connection.execute("DROP TABLE replies")
    cache.put("k", REQUEST, REPLY)
    cache.flush()
    assert "no such table" in cache.fault
    assert cache.get("k") is None
    cache.put("k", REQUEST, REPLY)
    assert cache.get("k") is None
    cache.close()


@pytest.mark.parametrize("text", ["{", "[]", '{"text": "a", "logprobs": [], "later": 1}'])
def test_an_entry_that_cannot_be_read_counts_as_absent(tmp_path: Path, text: str) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(REQUEST.key(), REQUEST, REPLY)
    cache.flush()
    cache._connection.execute("UPDATE replies SET reply = ?", (text,))
    assert cache.get(REQUEST.key()) is None
    cache.close()


def test_replies_of_an_age_are_cleared_and_leave_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    now = time.time()
    for days in (0, 29, 31, 400):
        monkeypatch.setattr("time.time", lambda days=days: now - days * 86_400)
        cache.put(f"{days}", REQUEST, replace(REPLY, text=f"said {days} days ago"))
    monkeypatch.undo()
    cache.close()
    path = str(tmp_path / "replies.sqlite")
    told = krisis("cache", "clear", "--older-than", "30d", "--cache-path", path, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (0, "removed 2 replies\n")
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert [f"said {days} days".encode() in held for days in (0, 29, 31, 400)] == [
        *(True, True),
        *(False, False),
    ]
    for age in ("700h", "1000m"):
        told = krisis("cache", "clear", "--older-than", age, "--cache-path", path, cwd=tmp_path)
    assert told.stdout == "removed 1 replies\n"
    told = krisis("cache", "clear", "--cache-path", path, cwd=tmp_path)
    assert told.stdout == "removed 1 replies\n"


@pytest.mark.parametrize("age", ["30", "d", "0d", "-1d", "1.5d", "30 d", "1w", "99999999d", "٣d"])
def test_an_age_that_is_none_removes_nothing(tmp_path: Path, age: str) -> None:
    path = tmp_path / "replies.sqlite"
    told = krisis("cache", "clear", f"--older-than={age}", "--cache-path", str(path), cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr == (
        f"krisis: --older-than takes days, hours or minutes such as 30d, not {age!r}\n"
    )
    assert not path.exists()
