"""The reader survives every known blemish and refuses what is broken in one sentence."""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.cli.app import main
from krisis.data.base import SuiteConfig
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.schema import FEATURES
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import COLUMNS, read_uci, uci_text
from krisis.errors import InvalidFile

HEADER = ",".join(COLUMNS)
ROW = (
    "0,48,80,1.020,1,0,,normal,notpresent,notpresent,121,36,1.2,,,15.4,44,7800,5.2,"
    "yes,yes,no,good,no,no,ckd"
)
OTHER = (
    "1,40,80,1.025,0,0,normal,normal,notpresent,notpresent,140,10,1.2,135,5,15,48,10400,4.5,"
    "no,no,no,good,no,no,notckd"
)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_clean_row_is_read_by_column(tmp_path):
    file = read_uci(write(tmp_path / "a.csv", HEADER, ROW, OTHER))
    first = file.patients[0]
    assert first.has_ckd
    assert first.values["sg"] == 1.02
    assert first.values["rbc"] is None
    assert first.values["htn"] == 1
    assert first.values["appet"] == 0
    assert first.values["hemo"] == 15.4
    assert not file.anomalies


def test_every_known_blemish_is_put_right_and_counted(tmp_path):
    blemished = (
        "0,48,80,1.02,1,0,?,normal,notpresent,notpresent,\t?,36,1.2,NA,'NA',15.4,\t43,7800,5.2,"
        " yes,\tno,no,no,good,no,ckd\t,"
    )
    text = "\r\n".join([HEADER.replace("wbcc", "wc").replace("rbcc", "rc"), blemished, OTHER])
    path = tmp_path / "a.csv"
    path.write_bytes((text.replace(",class", ",classification") + "\r\n\r\n,,,\r\n").encode())
    file = read_uci(path)
    first = file.patients[0].values
    assert (first["sg"], first["pcv"], first["htn"], first["dm"]) == (1.02, 43, 1, 0)
    assert [first[name] for name in ("rbc", "bgr", "sod", "pot", "appet", "pe")] == [None] * 6
    assert file.patients[0].has_ckd
    assert file.anomalies["question marks for missing values"] == 2
    assert file.anomalies["trailing commas"] == 1
    assert file.anomalies["blank lines"] == 2
    assert file.anomalies["class: surplus spaces or tabs"] == 1
    assert file.anomalies["appet: words of another column, taken as missing"] == 1


def test_the_arff_form_gives_the_same_patients(tmp_path):
    names = COLUMNS[1:]
    attributes = "\n".join(f"@attribute '{name}' numeric" for name in names)
    body = "\n".join(line.split(",", 1)[1] for line in (ROW, OTHER))
    arff = tmp_path / "a.arff"
    arff.write_text(f"% a comment\n@relation ckd\n{attributes}\n\n@DATA\n{body},\n\n")
    by_arff = read_uci(arff).patients
    by_csv = read_uci(write(tmp_path / "a.csv", HEADER, ROW, OTHER)).patients
    assert by_arff == by_csv


def test_the_real_file_holds_what_is_known_of_it(real_ckd_file):
    file = read_uci(real_ckd_file)
    assert len(file.patients) == 400
    assert sum(patient.has_ckd for patient in file.patients) == 250
    assert file.n_missing.total() == 1012
    assert sum(None not in patient.values.values() for patient in file.patients) == 158
    flagged = [(name, value) for _, name, value in file.implausible]
    assert sorted(flagged) == [
        ("pot", 39.0), ("pot", 47.0), ("sc", 48.1), ("sc", 76.0), ("sod", 4.5),
    ]  # fmt: skip


def test_the_embedded_cohort_survives_the_way_through_a_file(tmp_path):
    cohort = draw_cohort(300, seed=6)
    path = tmp_path / "cohort.csv"
    path.write_text(uci_text(cohort, with_sex=True))
    read = read_uci(path, sex_column="Sex").patients
    assert [patient.values for patient in read] == [
        {name: patient.visible[name] for name in FEATURES} for patient in cohort
    ]
    assert [patient.female for patient in read] == [p.visible["sex"] for p in cohort]
    assert [patient.has_ckd for patient in read] == [p.truth.has_ckd for p in cohort]


BROKEN = {
    "missing column": (
        [HEADER.replace(",sc,", ",creat,"), ROW, OTHER],
        r"row 1 lacks the column sc",
    ),
    "two missing": (
        [HEADER.replace(",sc,", ",x,").replace(",pot,", ",y,"), ROW],
        "columns sc, pot",
    ),
    "column twice": ([HEADER.replace(",sod,", ",sc,"), ROW], "column 'sc' twice"),
    "duplicate id": (
        [HEADER, ROW, OTHER.replace("1,", "0,", 1)],
        "row 3, column id: '0' is already in row 2",
    ),
    "text in a number": (
        [HEADER, ROW.replace(",15.4,", ",low,"), OTHER],
        "row 2, column hemo: 'low'",
    ),
    "infinite number": ([HEADER, ROW.replace(",15.4,", ",inf,"), OTHER], "column hemo: 'inf'"),
    "unknown word": (
        [HEADER, ROW.replace("good", "fine"), OTHER],
        "row 2, column appet: 'fine'",
    ),
    "unknown class": ([HEADER, ROW.replace(",ckd", ",maybe"), OTHER], "column class: 'maybe'"),
    "one patient only": ([HEADER, ROW], "holds one patient; give two or more"),
    "semicolons": (
        [HEADER.replace(",", ";"), ROW.replace(",", ";")],
        "separated by semicolons; save the file with commas",
    ),
    "tabs": ([HEADER.replace(",", "\t"), ROW.replace(",", "\t")], "separated by tabs"),
    "no patients": ([HEADER], "has a header but no patients"),
    "short row": ([HEADER, ROW, "2,3"], "row 3 has 2 fields where the header has 26"),
    "long word": ([HEADER, ROW.replace(",15.4,", "," + "x" * 500 + ","), OTHER], "column hemo: 'x"),
    "huge field": ([HEADER, ROW.replace(",15.4,", "," + "1" * 200_000 + ","), OTHER], "row 2"),
    "arff without data": (["@relation x", "@attribute a numeric"], "has no @data line"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_gets_one_sentence_with_column_and_row(kind, tmp_path):
    lines, expected = BROKEN[kind]
    with pytest.raises(InvalidFile, match=expected) as caught:
        read_uci(write(tmp_path / "broken.csv", *lines))
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400 + len(str(tmp_path))


def unreadable(kind, tmp_path):
    path = tmp_path / "broken.csv"
    if kind == "directory":
        path.mkdir()
    elif kind == "binary garbage":
        path.write_bytes(bytes(range(256)) * 40)
    elif kind == "100 MB":
        with path.open("wb") as file:
            file.truncate(100_000_000)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "blank":
        path.write_bytes(b"\n , \n")
    return path


UNREADABLE = {
    "directory": "is a directory",
    "binary garbage": "is not a text file",
    "100 MB": "has 100,000,000 bytes",
    "empty": "is empty",
    "blank": "is empty",
    "absent": "there is no file",
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_the_command_exits_2_with_one_sentence(kind, tmp_path, monkeypatch, capsys):
    path = str(unreadable(kind, tmp_path))
    words = ["krisis", "run", "ckd", "--model", "majority", "--data-path", path]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert UNREADABLE[kind] in printed.err
    assert printed.err.count("\n") == 1


def test_a_run_over_a_broken_file_exits_2_and_writes_nothing(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "broken.csv", *BROKEN["text in a number"][0])
    out = tmp_path / "runs"
    words = ["krisis", "run", "ckd", "--model", "majority", "--data-path", path, "--output", out]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "row 2, column hemo: 'low'" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("kind", BROKEN)
def test_the_suite_refuses_what_the_reader_refuses(kind, tmp_path):
    path = write(tmp_path / "broken.csv", *BROKEN[kind][0])
    with pytest.raises(InvalidFile):
        CKDSuite(SuiteConfig(), path).load()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_make_the_reader_crash(tmp_path_factory, data, after_header):
    path = tmp_path_factory.mktemp("fuzz") / "a.csv"
    path.write_bytes((f"{HEADER}\n{ROW}\n{OTHER}\n".encode() if after_header else b"") + data)
    with contextlib.suppress(InvalidFile):
        assert len(read_uci(path).patients) >= 2
