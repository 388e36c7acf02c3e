from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from krisis.data.base import SuiteConfig
from krisis.data.phq8.commands import summary, synthetic_interviews
from krisis.data.phq8.corpus import read_corpus, write_directory
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import InvalidFile
from krisis.verbs.info.data_command import app


def test_what_is_written_is_read_back_to_the_letter(tmp_path: Path) -> None:
    written = synthetic_interviews(12, seed=4, withheld_rate=0.3)
    write_directory(tmp_path / "new", written)
    read = read_corpus(tmp_path / "new").usable()
    assert [one.transcript.turns for one in read] == [one.transcript.turns for one in written]
    assert [one.scores for one in read] == [one.scores for one in written]
    assert [one.split for one in read] == [one.split for one in written]


def test_the_cohort_of_a_clinic_is_that_of_the_suite(tmp_path: Path) -> None:
    arguments = ["phq8", "--output", str(tmp_path / "new"), "--n-participants", "12", "--cohort"]
    assert CliRunner().invoke(app, [*arguments, "clinic"]).exit_code == 0
    read = {one.transcript.participant_id: one for one in read_corpus(tmp_path / "new").usable()}
    records = PHQ8Suite(SuiteConfig(n_synthetic=12), cohort="clinic", split="all").load()
    assert len(records) == 8 * len(read)
    for record in records:
        written = read[record.cluster_id]
        assert written.items[record.metadata["item"]] == record.label
        assert written.transcript.text() == record.context
    assert CliRunner().invoke(app, [*arguments, "hospital"]).exit_code == 2


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(InvalidFile, match="not empty"):
        write_directory(tmp_path, synthetic_interviews(1, seed=0, withheld_rate=0))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_the_summary_counts_and_quotes_nothing() -> None:
    interviews = synthetic_interviews(30, seed=4, withheld_rate=0.3)
    found = summary(interviews)
    assert found["n_participants"] == 30
    assert all(sum(counts) == 30 for counts in found["scores"].values())
    assert found["splits"] == {"train": 24, "test": 6}
    assert "sleep" not in str(found).lower().replace("'sleep':", "")
