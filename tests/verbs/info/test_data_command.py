"""`krisis data` writes the cohort once, in a form that reads back."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from krisis.data.ckd.uci import COLUMNS, read_uci
from krisis.errors import InvalidFile, InvalidValue
from krisis.verbs.info.data_command import app

runner = CliRunner()


def invoke(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_cohort_is_written_in_the_26_columns_and_reads_back(tmp_path):
    path = tmp_path / "cohort.csv"
    assert invoke("ckd", "--output", path, "--n-patients", 60).exit_code == 0
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert len(COLUMNS) == 26
    found = read_uci(path)
    assert len(found.patients) == 60
    assert found.n_missing.total() > 0
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        invoke("ckd", "--output", tmp_path / name, "--n-patients", 20, "--seed", seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_an_existing_file_stays_unless_forced(tmp_path):
    path = tmp_path / "cohort.csv"
    path.write_text("mine")
    with pytest.raises(InvalidFile, match="exists"):
        invoke("ckd", "--output", path)
    assert path.read_text() == "mine"
    assert invoke("ckd", "--output", path, "--overwrite").exit_code == 0
    assert path.read_text() != "mine"


def test_bad_numbers_and_places_are_refused(tmp_path):
    with pytest.raises(InvalidValue, match="--n-patients"):
        invoke("ckd", "--output", tmp_path / "a.csv", "--n-patients", 1)
    with pytest.raises(InvalidValue, match="--seed"):
        invoke("ckd", "--output", tmp_path / "a.csv", "--seed", -1)
    with pytest.raises(InvalidFile, match="no directory"):
        invoke("ckd", "--output", tmp_path / "none" / "a.csv")
    with pytest.raises(InvalidFile, match="is a directory"):
        invoke("ckd", "--output", tmp_path)
