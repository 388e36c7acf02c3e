from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.data.phq8.corpus import read_corpus
from krisis.data.phq8.items import ITEM_KEYS
from krisis.errors import InvalidFile

HEADER = "start_time\tstop_time\tspeaker\tvalue\n"
LINES = HEADER + (
    '1.5\t2.0\tEllie\thow_are_you (how are you today)\n2.1\t3.0\tParticipant\ti\'m fine "really"\n'
)
LABEL_HEADER = "Participant_ID,PHQ8_Binary," + ",".join(f"PHQ8_{key}" for key in ITEM_KEYS)


def directory(tmp_path: Path, content: bytes | str, labels: str = "") -> Path:
    folder = tmp_path / "300_P"
    folder.mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (folder / "300_TRANSCRIPT.csv").write_bytes(data)
    (tmp_path / "labels.csv").write_text(labels or f"{LABEL_HEADER}\n300,0,0,1,2,3,0,1,2,3\n")
    return tmp_path


def test_a_directory_of_the_daic_woz_layout_is_read(tmp_path: Path) -> None:
    (interview,) = read_corpus(directory(tmp_path, LINES)).usable()
    assert interview.scores == (0, 1, 2, 3, 0, 1, 2, 3)
    assert interview.transcript.participant_id == "300"
    assert interview.transcript.text() == (
        'Interviewer: how are you today\nParticipant: i\'m fine "really"'
    )


@pytest.mark.parametrize(
    "content",
    [
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        LINES + "\n\n",
        LINES.replace("\t", "\t "),
        LINES.replace("\t", ","),
        LINES.replace("\t", ";"),
        LINES + "4.0\t5.0\tEllie\n",
        LINES.replace("stop_time", "End Time"),
        LINES.replace("really", "really\ttruly"),
    ],
    ids=[
        "crlf",
        "mark",
        "blank last lines",
        "spaces",
        "commas",
        "semicolons",
        "no text",
        "spelling",
        "a tab",
    ],
)
def test_harmless_differences_do_not_matter(tmp_path: Path, content: str) -> None:
    (interview,) = read_corpus(directory(tmp_path, content)).usable()
    assert len(interview.transcript.turns) == 2


BROKEN = {
    "missing column": (
        "start_time\tstop_time\tvalue\n1\t2\thi\n",
        "line 1, column speaker: the column is missing",
    ),
    "no header": ("1\t2\tEllie\thi\n", "line 1, column start_time: the column is missing"),
    "short line": (
        LINES + "4.0\t5.0\n",
        "line 4, column speaker: the line ends before this column",
    ),
    "latin-1": (LINES.encode() + b"4\t5\tParticipant\tcaf\xe9\n", "line 4: byte 0xe9 is not UTF-8"),
    "utf-16": (LINES.encode("utf-16"), "line 1: the text is UTF-16"),
    "nul": (LINES + "4\t5\tParticipant\ta\x00b\n", "line 4: the text contains a NUL byte"),
    "empty": ("", "line 1: the file is empty"),
    "blank": ("\n \n", "line 1: the file is empty"),
    "header only": (HEADER, "line 1: the transcript of 300 ends without one word"),
    "interviewer only": (HEADER + "1\t2\tEllie\thi\n", "line 2: the transcript of 300"),
    "time": (LINES + "soon\t5\tParticipant\tyes\n", "line 4, column start_time: must be a number"),
    "speaker": (LINES + "4\t5\tBob\tyes\n", "line 4, column speaker: unknown speaker 'Bob'"),
    "5 MB": (LINES + "4\t5\tParticipant\tblah blah\n" * 200_000, "line 38460: the file is longer"),
    "5 MB line": (
        LINES + "4\t5\tParticipant\t" + "blah " * 1_000_000,
        "line 4: the file is longer",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_transcript_gets_one_sentence_naming_file_and_line(
    tmp_path: Path, name: str
) -> None:
    content, expected = BROKEN[name]
    with pytest.raises(InvalidFile) as caught:
        read_corpus(directory(tmp_path, content)).usable()
    message = str(caught.value)
    assert "300_TRANSCRIPT.csv" in message
    assert expected in message
    assert "\n" not in message
    assert len(message) < 800 + 5 * len(str(tmp_path))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("Participant_ID,PHQ8_Sleep\n300,1\n", "line 1, column PHQ8_NoInterest: the column is"),
        (f"{LABEL_HEADER}\n300,0,0,1,2,4,0,1,2,3\n", "line 2, column PHQ8_Tired: participant 300"),
        (f"{LABEL_HEADER}\n300,0,0,1,2\n", "line 2, column PHQ8_Tired: the line ends before"),
        (f"{LABEL_HEADER}\n301,0,0,1,2,3,0,1,2,3\n", "participants 300 have a transcript and are"),
        (f"{LABEL_HEADER}\n300,0,,,,,,,,\n", "participants 300 are in a labels file without item"),
        (f"{LABEL_HEADER}\n" + "300,0,0,1,2,3,0,1,2,3\n" * 2, "line 3, column Participant_ID"),
    ],
)
def test_broken_labels_are_named(tmp_path: Path, labels: str, expected: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read_corpus(directory(tmp_path, LINES, labels)).usable()
    assert expected in str(caught.value)


def test_a_split_column_is_taken_over(tmp_path: Path) -> None:
    labels = f"split,{LABEL_HEADER}\nTrain,300,0,0,1,2,3,0,1,2,3\n"
    (interview,) = read_corpus(directory(tmp_path, LINES, labels)).usable()
    assert (interview.scores, interview.split) == ((0, 1, 2, 3, 0, 1, 2, 3), "train")


def test_missing_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="does not exist; give a directory"):
        read_corpus(tmp_path / "nowhere").usable()
    (tmp_path / "300_TRANSCRIPT.csv").write_text(LINES)
    with pytest.raises(InvalidFile, match="is a single file; give a directory"):
        read_corpus(tmp_path / "300_TRANSCRIPT.csv").usable()
    (tmp_path / "300_TRANSCRIPT.csv").unlink()
    with pytest.raises(InvalidFile, match="contains no transcript"):
        read_corpus(tmp_path).usable()


def test_two_transcripts_of_one_participant_are_refused_and_stray_files_passed_over(
    tmp_path: Path,
) -> None:
    folder = directory(tmp_path, LINES)
    (folder / "300_P" / "._300_TRANSCRIPT.csv").write_bytes(b"\x00\x01")
    assert len(read_corpus(folder).usable()) == 1
    (folder / "300_P" / "301_TRANSCRIPT.csv").write_text(LINES)
    with pytest.raises(InvalidFile, match="the transcript of 301 is in the folder 300_P"):
        read_corpus(folder).usable()


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=300), start=st.integers(0, len(LINES)))
def test_whatever_the_bytes_the_answer_is_interviews_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, start: int
) -> None:
    data = LINES.encode()
    folder = tmp_path_factory.mktemp("fuzz")
    message = "TRANSCRIPT.csv line "
    try:
        assert read_corpus(directory(folder, data[:start] + content + data[start:])).usable()
    except InvalidFile as error:
        message = str(error)
    assert "\n" not in message
    assert "TRANSCRIPT.csv line " in message
