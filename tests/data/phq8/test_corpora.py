"""DAIC-WOZ and E-DAIC as downloaded, made up by the tests, and twenty of them broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import Benchmark
from krisis.cli.run_file import write_beside
from krisis.data.phq8.corpus import read_corpus
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.retrieval import passages
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.transcript_files import MAX_PASSAGE_WORDS
from krisis.errors import InvalidFile
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.results.run_items import read_items
from krisis.verbs.info.data_command import app

WOZ_ITEMS = ",".join(f"PHQ8_{key}" for key in ITEM_KEYS)
WOZ_HEADER = f"Participant_ID,PHQ8_Binary,PHQ8_Score,Gender,{WOZ_ITEMS}"
WOZ_SPLIT = "{}_split_Depression_AVEC2017.csv"
TRAIN, DEV, TEST = (WOZ_SPLIT.format(name) for name in ("train", "dev", "test"))
DETAILED = "labels/Detailed_PHQ8_Labels.csv"
SCORES = {
    "300": (0, 1, 0, 1, 0, 0, 0, 0),
    "301": (3, 2, 3, 2, 1, 1, 0, 0),
    "302": (0, 0, 1, 1, 0, 0, 0, 0),
    "310": (1, 1, 2, 2, 1, 1, 1, 1),
    "311": (0, 0, 0, 0, 0, 0, 0, 0),
}
SPLITS = {"train": ("300", "301", "302"), "dev": ("310", "311"), "test": ("320", "321")}


def woz_line(name: str, *, binary: int | None = None, total: object = None) -> str:
    known = sum(SCORES[name])
    return ",".join(
        map(
            str,
            [
                name,
                int(known >= 10) if binary is None else binary,
                known if total is None else total,
                1,
                *SCORES[name],
            ],
        )
    )


def woz_transcript(name: str) -> str:
    trained = "it's been hard i wake up at four and lie there"
    said = trained if name in SPLITS["train"] else "by four i am awake and that is my sleep"
    turns = [
        (10.0, 11.5, "Ellie", "how_doing (how are you doing today)"),
        (12.1, 14.0, "Participant", f"i'm okay i guess my number is {name}"),
        (14.6, 17.0, "Ellie", "easy_sleep (how easy is it for you to get a good night's sleep)"),
        (18.0, 22.0, "Participant", said),
        (22.5, 25.0, "Participant", "most nights <laughter> I don't know"),
    ]
    rows = ["\t".join(map(str, turn)) for turn in turns]
    return "\n".join(["start_time\tstop_time\tspeaker\tvalue", *rows]) + "\n"


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def daic_woz() -> dict[str, str | bytes]:
    """Return the files of a corpus as its owners hand it out."""
    everybody = [name for names in SPLITS.values() for name in names]
    files: dict[str, str | bytes] = {
        f"{name}_P/{name}_TRANSCRIPT.csv": woz_transcript(name) for name in everybody
    }
    for split in ("train", "dev"):
        lines = [WOZ_HEADER, *map(woz_line, SPLITS[split])]
        files[WOZ_SPLIT.format(split)] = "\r\n".join(lines) + "\r\n"
    files[TEST] = "participant_ID,Gender\n320,0\n321,1\n"
    files["full_test_split.csv"] = (
        "Participant_ID,PHQ_Binary,PHQ_Score,Gender\n320,0,2,0\n321,1,12,1\n"
    )
    files["300_P/300_COVAREP.csv"] = "0,0,0\n"
    files["documents/readme.txt"] = "terms"
    files["__MACOSX/300_P/._300_TRANSCRIPT.csv"] = b"\x00\x01"
    return files


def e_daic_transcript(name: str) -> str:
    trained = "I sleep badly and I wake up at four"
    said = trained if name in SPLITS["train"] else "by four I am awake and that is my sleep"
    lines = [
        "Start_Time,End_Time,Text,Confidence",
        "14.3,15.1,so I'm going to interview in Spanish,0.93",
        '20.3,21.2,"okay, I guess",0.87',
        f"21.9,25.0,{said},0.91",
        f"28.5,30.0,most nights my number is {name},0.88",
    ]
    return "\n".join(lines) + "\n"


def e_daic() -> dict[str, str | bytes]:
    everybody = [name for names in SPLITS.values() for name in names]
    files: dict[str, str | bytes] = {
        f"{name}_P/{name}_Transcript.csv": e_daic_transcript(name) for name in everybody
    }
    header = "Participant_ID,Gender,PHQ_Binary,PHQ_Score,PCL-C (PTSD),PTSD Severity"
    for split, names in SPLITS.items():
        totals = [sum(SCORES.get(name, (0,))) for name in names]
        rows = [f"{n},male,{int(t >= 10)},{t},0,20" for n, t in zip(names, totals, strict=True)]
        files[f"labels/{split}_split.csv"] = "\n".join([header, *rows]) + "\n"
    items = ",".join(f"PHQ_8{key}" for key in ITEM_KEYS)
    rows = [f"{n},{','.join(map(str, s))},{sum(s)}" for n, s in SCORES.items()]
    files[DETAILED] = "\n".join([f"Participant_ID,{items},PHQ_8Total", *rows]) + "\n"
    return files


LAYOUTS = {"DAIC-WOZ": daic_woz, "E-DAIC": e_daic}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_corpus_is_read_as_downloaded(tmp_path: Path, layout: str) -> None:
    corpus = read_corpus(write(tmp_path, LAYOUTS[layout]()))
    assert corpus.findings.of_kind("fault") == []
    read = {one.transcript.participant_id: (one.scores, one.split) for one in corpus.usable()}
    splits = {name: split for split, names in SPLITS.items() for name in names}
    assert read == {name: (scores, splits[name]) for name, scores in SCORES.items()}
    assert corpus.left_out == ["320", "321"]
    (unlabelled,) = corpus.findings.of_kind("left_out")
    assert unlabelled.participants == ("320", "321")
    assert "without item scores" in str(unlabelled)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_suite_takes_train_for_references_and_holds_dev_out(
    tmp_path: Path, layout: str
) -> None:
    suite = PHQ8Suite(data=write(tmp_path, LAYOUTS[layout]()), mode="few_shot")
    records = suite.load()
    assert [record.cluster_id for record in records] == ["310"] * 8 + ["311"] * 8
    shown = {name for record in records for name in record.metadata["reference_participants"]}
    assert shown
    assert shown <= {"300", "301", "302"}
    assert suite.describe()["participants_left_out"] == ["320", "321"]
    assert "participants left out: 2 (320, 321)" in suite.notice
    assert "check-interviews" in suite.notice
    assert "check-interviews" not in suite.describe()["licence"]


def test_the_other_detailed_file_of_e_daic_gives_items_and_splits_too(tmp_path: Path) -> None:
    files = e_daic()
    names = [*ITEM_KEYS[:6], "Concentration", "Psychomotor"]
    items = ",".join(f"PHQ8_{number}_{name}" for number, name in enumerate(names, start=1))
    rows = [f"{n}.0,dev,{','.join(f'{s}.0' for s in scores)},3,4" for n, scores in SCORES.items()]
    header = f"Participant,split,{items},PCL-C_9_NoInterest,Depression_severity"
    files = {name: text for name, text in files.items() if not name.startswith("labels/")}
    # The same scores as the detailed file, so both agree; empty lines at the end are common.
    files["labels/detailed_lables.csv"] = "\n".join([header, *rows, "," * 11, ",dev" + "," * 10])
    corpus = read_corpus(write(tmp_path, files))
    assert {one.transcript.participant_id: one.scores for one in corpus.usable()} == SCORES
    assert {one.split for one in corpus.interviews} == {"dev"}
    assert any("names no participant" in str(one) for one in corpus.findings.of_kind("left_out"))


def test_nested_folders_and_a_folder_of_labels_elsewhere_are_found(tmp_path: Path) -> None:
    files = {f"raw/300_P/{name}": text for name, text in e_daic().items() if name[:3] == "300"}
    data = write(tmp_path / "data", files)
    labels = {name: text for name, text in e_daic().items() if name.startswith("labels/")}
    elsewhere = write(tmp_path / "elsewhere", labels) / "labels"
    (one,) = read_corpus(data, elsewhere).usable()
    assert (one.scores, one.split) == (SCORES["300"], "train")


def test_an_empty_item_score_leaves_out_that_item_alone(tmp_path: Path) -> None:
    files = daic_woz()
    line = woz_line("310")
    files[DEV] = f"{WOZ_HEADER}\n{line[: -len(',2,1,1,1,1')]},,1,1,1,1\n{woz_line('311')}\n"
    folder = write(tmp_path, files)
    corpus = read_corpus(folder)
    assert corpus.findings.of_kind("fault") == []
    (hole,) = [one for one in corpus.findings if one.participants == ("310",)]
    assert (hole.kind, hole.line, hole.column, hole.value) == ("left_out", 2, "PHQ8_Tired", "")
    suite = PHQ8Suite(data=folder)
    asked = [(record.cluster_id, record.metadata["item"]) for record in suite.load()]
    assert len(asked) == 15
    assert ("310", "Tired") not in asked
    assert suite.describe()["items_without_score"] == {"310": ["Tired"]}
    assert "items left out for want of a score: 1" in suite.notice


def test_a_run_file_keeps_the_participant_and_passes_over_the_item(tmp_path: Path) -> None:
    files = daic_woz()
    files[DEV] = dev(woz("310", Tired="", Moving="NA"), woz("311"))
    recorder = Recorder(tmp_path / "runs")
    suite = PHQ8Suite(data=write(tmp_path / "data", files))
    backend = backend_from_name("rule/always-0")
    Benchmark(suite, backend, execution=Execution(recorder=recorder)).run()
    assert recorder.path is not None
    path = write_beside([recorder.path])
    results = json.loads(path.read_text())["experiments"][0]["results"]
    assert (results["n_participants"], results["n_failed"]) == (2, 0)
    first, second = results["results"]
    assert first["items_without_score"] == ["Tired", "Moving"]
    assert "items_without_score" not in second
    assert len(first["ground_truth_items"]) == 6
    items = read_items(path)
    assert (items.n_items, items.failed) == (14, [])
    content = json.loads(path.read_text())
    content["experiments"][0]["results"]["results"][0]["items_without_score"] = ["Mood"]
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidFile, match="items_without_score must list some of the items"):
        read_items(path)


@pytest.mark.parametrize(
    ("total", "kept"),
    [(10, True), (9, False), (11, False), ("", True), ("10.0", True)],
)
def test_a_total_that_contradicts_the_items_leaves_the_participant_out(
    tmp_path: Path, total: object, kept: bool
) -> None:
    files = daic_woz()
    files[DEV] = f"{WOZ_HEADER}\n{woz_line('310', total=total)}\n{woz_line('311')}\n"
    corpus = read_corpus(write(tmp_path, files))
    assert corpus.findings.of_kind("fault") == []
    assert ("310" in {one.transcript.participant_id for one in corpus.usable()}) is kept
    places = [(f.line, f.column, f.value) for f in corpus.findings if f.participants == ("310",)]
    assert places == ([] if kept else [(2, "PHQ8_Score", str(total))])


def test_with_a_hole_a_total_is_checked_against_its_bounds(tmp_path: Path) -> None:
    def left_out(total: int) -> bool:
        files = daic_woz()
        line = f"310,1,{total},1,1,1,2,,1,1,1,1"  # the rest adds up to 8, so 8 to 11
        files[DEV] = f"{WOZ_HEADER}\n{line}\n{woz_line('311')}\n"
        return "310" in read_corpus(write(tmp_path / str(total), files)).left_out

    assert [total for total in range(6, 14) if not left_out(total)] == [8, 9, 10, 11]


def test_scores_that_differ_between_two_files_leave_the_participant_out(tmp_path: Path) -> None:
    files = daic_woz()
    other = ",".join(["310", *map(str, SCORES["310"][:7]), "3"])
    files["more_labels.csv"] = f"Participant_ID,{WOZ_ITEMS}\n{other}\n"
    corpus = read_corpus(write(tmp_path, files))
    assert corpus.left_out == ["310", "320", "321"]
    assert len(corpus.usable()) == 4


def test_without_an_interviewer_pauses_part_the_passages(tmp_path: Path) -> None:
    files = daic_woz()
    said = [
        (0.0, 2.0, "fine thanks"),
        (4.9, 6.0, "and you"),  # 2.9 seconds later: the same passage
        (9.0, 12.0, "not well i wake up"),  # 3.0 seconds later: another one
        (12.5, 90.0, "word " * 300),
        (90.1, 91.0, "that's it"),
    ]
    rows = [f"{start}\t{stop}\tParticipant\t{text}" for start, stop, text in said]
    header = "start_time\tstop_time\tspeaker\tvalue"
    files["310_P/310_TRANSCRIPT.csv"] = "\n".join([header, *rows])
    corpus = read_corpus(write(tmp_path, files))
    assert any(
        one.participants == ("310",) and "no turn of an interviewer" in str(one)
        for one in corpus.findings
    )
    (alone,) = [one for one in corpus.usable() if one.transcript.participant_id == "310"]
    cut = [passage.text for passage in passages(alone.transcript)]
    assert cut[:2] == ["fine thanks and you", "not well i wake up"]
    assert [len(passage.split()) for passage in cut[2:]] == [120, 120, 62]
    assert max(len(passage.split()) for passage in cut) <= MAX_PASSAGE_WORDS
    whole = " ".join(text for _, _, text in said).split()
    assert " ".join(cut).split() == whole


def test_a_link_to_a_folder_above_and_people_without_anything_are_no_fault(tmp_path: Path) -> None:
    files = daic_woz()
    for name in ("320", "321"):
        del files[f"{name}_P/{name}_TRANSCRIPT.csv"]
    folder = write(tmp_path, files)
    (folder / "300_P" / "up").symlink_to(folder, target_is_directory=True)
    corpus = read_corpus(folder)
    assert len(corpus.usable()) == 5
    (nothing,) = corpus.findings.of_kind("left_out")
    assert nothing.participants == ("320", "321")
    assert "have neither item scores nor a transcript" in str(nothing)
    assert len(corpus.findings.of_kind("note")) == 4  # each label file once


def test_line_ends_of_another_kind_are_named_as_such(tmp_path: Path) -> None:
    files = daic_woz()
    files["310_P/310_TRANSCRIPT.csv"] = woz_transcript("310").replace("\n", "\r")
    (fault,) = read_corpus(write(tmp_path, files)).findings.of_kind("fault")
    assert "save it with usual line ends" in str(fault)


HEADER = "start_time\tstop_time\tspeaker\tvalue\n"
T300, T310 = "300_P/300_TRANSCRIPT.csv", "310_P/310_TRANSCRIPT.csv"
Fault = tuple[str, int | None, str, str | None]
Change = Callable[[dict[str, str | bytes]], None]


def put(**files: str | bytes) -> Change:
    """Return a change that replaces files, named by their short names."""
    names = {"train": TRAIN, "dev": DEV, "test": TEST, "t300": T300, "t310": T310}
    return lambda corpus: corpus.update({names[name]: text for name, text in files.items()})


def dev(*lines: str) -> str:
    return "\n".join([WOZ_HEADER, *lines]) + "\n"


def woz(name: str, **items: str) -> str:
    cells = woz_line(name).split(",")
    for key, value in items.items():
        cells[4 + ITEM_KEYS.index(key)] = value
    return ",".join(cells)


# What is wrong, and every fault by file, line, column and value.
BROKEN: dict[str, tuple[Change, list[Fault]]] = {
    "scores outside the scale": (
        put(dev=dev(woz("310", Sleep="4", Moving="x"), woz("311", Tired="-1"))),
        [
            (DEV, 2, "PHQ8_Sleep", "4"),
            (DEV, 2, "PHQ8_Moving", "x"),
            (DEV, 3, "PHQ8_Tired", "-1"),
        ],
    ),
    "totals outside their range": (
        put(dev=dev(woz_line("310", total=25), woz_line("311", total=-1))),
        [(DEV, 2, "PHQ8_Score", "25"), (DEV, 3, "PHQ8_Score", "-1")],
    ),
    "missing columns": (
        put(
            dev="Participant_ID,PHQ8_NoInterest,PHQ8_Depressed,PHQ8_Sleep,PHQ8_Tired,PHQ8_Appetite,"
            "PHQ8_Failure\n310,1,1,2,1,1,1\n"
        ),
        [(DEV, 1, "PHQ8_Concentrating", None), (DEV, 1, "PHQ8_Moving", None)],
    ),
    "no column of participants in two files": (
        put(dev=f"Person,{WOZ_ITEMS}\n310,1,1,2,1,1,1,1,1\n", test="who,Gender\n320,1\n"),
        [(DEV, 1, "Participant_ID", None), (TEST, 1, "Participant_ID", None)],
    ),
    "a column twice": (
        put(dev=f"Participant_ID,{WOZ_ITEMS},PHQ_8Sleep\n310,1,1,2,2,1,1,1,1,0\n"),
        [(DEV, 1, "PHQ_8Sleep", None)],
    ),
    "participants twice": (
        put(dev=dev(woz("310"), woz("310"), woz("311"), woz("311"))),
        [(DEV, 3, "Participant_ID", "310"), (DEV, 5, "Participant_ID", "311")],
    ),
    "one participant in two splits": (
        put(dev=dev(woz("310"), woz("300"), woz("301"))),
        [(TRAIN, 2, "Participant_ID", "300"), (TRAIN, 3, "Participant_ID", "301")],
    ),
    "short lines": (
        put(dev=dev("310,1,9,1,1,1", "311,0,0,1,0,0,0,0,0,0,0")),
        [(DEV, 2, "PHQ8_Sleep", None), (DEV, 3, "PHQ8_Moving", None)],
    ),
    "scores of nobody": (
        put(dev=dev(woz("310"), woz("311").replace("311", "", 1))),
        [(DEV, 3, "Participant_ID", "")],
    ),
    "an unknown split": (
        put(dev=f"Participant_ID,split,{WOZ_ITEMS}\n310,training,1,1,2,2,1,1,1,1\n"),
        [(DEV, 2, "split", "training")],
    ),
    "an empty label file and an empty transcript": (
        put(dev="", t300=" \n"),
        [(DEV, 1, "", None), (T300, 1, "", None)],
    ),
    "labels in another encoding": (
        put(dev=dev(woz("310")).encode() + b"31\xe9,1\n" + b"\xff\n", test="a".encode("utf-16")),
        [(DEV, 3, "", "0xe9"), (DEV, 4, "", "0xff"), (TEST, 1, "", None)],
    ),
    "no label files": (
        lambda corpus: [corpus.pop(name) for name in (TRAIN, DEV, TEST, "full_test_split.csv")],
        [(".", None, "", None)],
    ),
    "label files without items": (
        lambda corpus: [corpus.pop(name) for name in (TRAIN, DEV)],
        [("full_test_split.csv", 1, "", None)],
    ),
    "transcripts without columns": (
        put(t300="start_time\tspeaker\n1\tEllie\n", t310="1\t2\tEllie\thi\n"),
        [
            (T300, 1, "stop_time", None),
            (T300, 1, "value", None),
            *((T310, 1, name, None) for name in ("start_time", "stop_time", "speaker", "value")),
        ],
    ),
    "speakers and times": (
        put(t300=HEADER + "soon\tnan\tBob\thi\n1\t2\tParticipant\tyes\n3\t4\tEve\tno\n"),
        [
            (T300, 2, "start_time", "soon"),
            (T300, 2, "stop_time", "nan"),
            (T300, 2, "speaker", "Bob"),
            (T300, 4, "speaker", "Eve"),
        ],
    ),
    "lines cut in two transcripts": (
        put(t300=woz_transcript("300") + "30\t31\n", t310=woz_transcript("310") + "30\n"),
        [(T300, 7, "speaker", None), (T310, 7, "stop_time", None)],
    ),
    "bytes and silence": (
        put(
            t300=woz_transcript("300").encode() + b"30\t31\tParticipant\tcaf\xe9\n"
            b"32\t33\tParticipant\ta\x00b\n",
            t310=HEADER + "1\t2\tEllie\thi\n",
        ),
        [(T300, 7, "", "0xe9"), (T300, 8, "", "NUL"), (T310, 2, "", None)],
    ),
    "a quote mark that is never closed and text with bare commas": (
        put(
            t300='Start_Time,End_Time,Text,Confidence\n1,2,"hello,0.9\n2,3,yes,0.9\n',
            t310="Start_Time,End_Time,Text,Confidence\n1,2,well, you know, yes,0.9\n2,3,no,0.9\n",
        ),
        [(T300, 2, "", None), (T310, 2, "confidence", "6")],
    ),
    "transcripts in the wrong places": (
        lambda corpus: corpus.update(
            {
                "300_P/301_TRANSCRIPT.csv": woz_transcript("301"),
                "copy/310_P/310_TRANSCRIPT.csv": woz_transcript("310"),
            }
        ),
        [
            ("300_P/301_TRANSCRIPT.csv", None, "", None),
            ("copy/310_P/310_TRANSCRIPT.csv", None, "", None),
        ],
    ),
    "archives that were not unpacked": (
        lambda corpus: (
            [corpus.pop(name) for name in [*corpus] if "_TRANSCRIPT" in name],
            corpus.update({"300_P.zip": b"PK"}),
        ),
        [(".", None, "", None)],
    ),
    "a fault in every kind of file": (
        put(
            dev=dev(woz("310", Sleep="9")),
            test="participant_ID,Gender\n320,1\n320,0\n",
            t300=HEADER + "1\t2\tBob\thi\n2\t3\tParticipant\tyes\n",
            t310=HEADER + "later\t2\tParticipant\thi\n",
        ),
        [
            (DEV, 2, "PHQ8_Sleep", "9"),
            (TEST, 3, "participant_ID", "320"),
            (T300, 2, "speaker", "Bob"),
            (T310, 2, "start_time", "later"),
        ],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_corpus_gets_one_report_with_every_fault(tmp_path: Path, name: str) -> None:
    change, expected = BROKEN[name]
    files = daic_woz()
    change(files)
    folder = write(tmp_path, files)
    result = CliRunner().invoke(app, ["check-interviews", str(folder), "--format", "json"])
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    faults = [one for one in report["findings"] if one["kind"] == "fault"]
    found = [
        (str(Path(one["file"]).relative_to(folder)), one["line"], one["column"], one["value"])
        for one in faults
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert report["n_faults"] == len(expected)
    text = CliRunner().invoke(app, ["check-interviews", str(folder)])
    assert text.exit_code == 2
    for one in faults:
        assert one["problem"] in text.stdout
    with pytest.raises(InvalidFile) as refused:
        PHQ8Suite(data=folder).load()
    assert "\n" not in str(refused.value)
    if len(expected) > 1:
        assert f"{len(expected)} faults must be corrected" in str(refused.value)
        assert "krisis data check-interviews" in str(refused.value)


def test_no_word_that_was_said_is_in_the_report(tmp_path: Path) -> None:
    files = daic_woz()
    files[T310] = woz_transcript("310") + "30\t31\n"
    folder = write(tmp_path, files)
    for arguments in ([], ["--format", "json"]):
        told = CliRunner().invoke(app, ["check-interviews", str(folder), *arguments]).output
        for word in ("sleep it", "okay i guess", "laughter", "wake up"):
            assert word not in told
