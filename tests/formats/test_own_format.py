"""A format of one's own is a class in a file: predictions are imported, rows are written in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import krisis

from krisis import file_formats, registry
from krisis.runs.load import load_run

FORMAT = '''from krisis.formats import Reading, SourceRow

class Chat:
    """One line per case: ID > ANSWER (TRUTH)."""
    suffix, has_dictionary = ".chat", False

    def recognises(self, path, content):
        return path.suffix == ".chat"

    def read(self, path, options):
        lines = path.read_text().replace(" (", " > ").replace(")", "").splitlines()
        cells = [line.split(" > ") for line in lines]
        rows = [SourceRow(place=n, record_id=n, answer=a, truth=t) for n, a, t in cells]
        return Reading(rows, {"id": "first word"}, "a model", "triage", "chats")

    def write(self, table, result, path):
        lines = (f"{r.record_id} > {r.prediction} ({r.ground_truth})\\n" for r in result.rows)
        path.write_text("".join(lines))
        return "the confidence is not in it"
'''
CHAT = "a > yes (yes)\nb > no (yes)\nc > no (no)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("formats")
    (found / "my_chats.py").write_text(FORMAT)
    (found / "ward.chat").write_text(CHAT)
    return found


def test_a_format_of_twenty_lines_reads_and_writes(folder: Path) -> None:
    assert len(FORMAT.splitlines()) <= 20
    done = krisis("import", "ward.chat", "--as", "my_chats.py:Chat", cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / "runs").glob("*.krisis")
    assert load_run(run).metric_scores["accuracy"].value == pytest.approx(2 / 3)
    words = ("export", str(run), "--to", "my_chats.py:Chat", "-o", "again.chat", "--with-ids")
    done = krisis(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "the confidence is not in it" in done.stderr
    assert (folder / "again.chat").read_text() == CHAT
    assert not (folder / "again.dictionary.csv").exists()


def test_an_option_that_a_format_does_not_take_is_refused(folder: Path) -> None:
    words = ("--as", "my_chats.py:Chat", "--truth", "label")
    done = krisis("import", "ward.chat", *words, cwd=folder)
    assert done.returncode == 2
    assert "--truth does not go with --as my_chats.py:Chat; omit it" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("import", "ward.chat", "--as", "phq8-run"), "unknown format 'phq8-run'"),
        (("import", "ward.chat", "--as", "my_chats.py:Talk"), "Talk"),
        (("export", "ward.chat", "--to", "lm-eval"), "'lm-eval'"),
        (("import", "ward.chat", "--as", "my_chats.py:SourceRow"), "has no read()"),
    ],
)
def test_what_cannot_be_done_with_a_format_is_said(
    words: tuple[str, ...], said: str, folder: Path
) -> None:
    done = krisis(*words, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_installed_format_is_known_by_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    places = {**registry.BUILT_IN["formats"], "chat": "my_chats:Chat"}
    monkeypatch.setitem(registry.BUILT_IN, "formats", places)
    registry.table.cache_clear()
    try:
        assert file_formats.format_of(folder / "ward.chat", can="read") == "chat"
        assert file_formats.formats_that("load") == ["parquet", "phq8-run"]
    finally:
        registry.table.cache_clear()
