"""A table's YAML reads the files that it names below its own folder, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidFile

pytest.importorskip("duckdb")
YAML = """
suite: table
name: clinic
source: {source}
record_id: visit
tasks:
  sepsis:
    question: Is it sepsis?
    label: {{column: sepsis}}
    answers: {{0: no, 1: yes}}
    features: [lactate]
"""
ROWS = "visit,lactate,sepsis\n" + "".join(f"{{0}}{i},{i * 7 % 5},{i % 2}\n" for i in range(20))


def suite_of(folder: Path, source: str, data_path: Path | None = None) -> TableSuite:
    (folder / "clinic.yaml").write_text(YAML.format(source=source))
    return TableSuite(folder / "clinic.yaml", data_path=data_path)


def ids(suite: TableSuite) -> set[str]:
    return {str(record.record_id)[0] for record in suite.records()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a YAML file, with the table of somebody else beside it."""
    (tmp_path / "other.csv").write_text(ROWS.format("o"))
    (made := tmp_path / "clinic").mkdir()
    return made


@pytest.mark.parametrize("name", ["d[1]", "d*", "d?", "[d]1"])
def test_a_name_that_looks_like_a_pattern_is_one_file(name: str, folder: Path) -> None:
    for stem, letter in ((name, "a"), ("d1", "b"), ("d2", "c")):
        (folder / f"{stem}.csv").write_text(ROWS.format(letter))
    assert ids(suite_of(folder, f'"{name}.csv"')) == {"a"}


def test_a_missing_file_with_brackets_is_not_the_file_of_other_patients(folder: Path) -> None:
    (folder / "d1.csv").write_text(ROWS.format("b"))
    with pytest.raises(InvalidFile, match=r"there is no file .*d\[1\]\.csv"):
        suite_of(folder, '"d[1].csv"').records()


def test_a_pattern_is_read_in_a_folder_with_brackets(tmp_path: Path) -> None:
    (folder := tmp_path / "clinic [1]").mkdir()
    for name, letter in (("a1", "a"), ("a2", "b"), ("b1", "c")):
        (folder / f"{name}.csv").write_text(ROWS.format(letter))
    assert ids(suite_of(folder, '"a?.csv"')) == {"a", "b"}


def test_a_parquet_file_that_looks_like_a_pattern_is_one_file(folder: Path) -> None:
    import duckdb

    for name, letter in (("one", "a"), ("d1", "b")):
        (folder / f"{name}.csv").write_text(ROWS.format(letter))
        duckdb.read_csv(str(folder / f"{name}.csv")).write_parquet(str(folder / f"{name}.parquet"))
    (folder / "one.parquet").rename(folder / "d[1].parquet")
    assert ids(suite_of(folder, '"d[1].parquet"')) == {"a"}


@pytest.mark.parametrize(
    "source",
    ["../other.csv", "{folder}/../other.csv", "link.csv", "sub/../../other.csv", "'*.csv'"],
)
def test_a_file_outside_the_folder_is_refused(source: str, folder: Path) -> None:
    (folder / "link.csv").symlink_to(folder.parent / "other.csv")
    with pytest.raises(InvalidFile, match=r"outside .* --data-path"):
        suite_of(folder, source.format(folder=folder)).records()


def test_a_database_and_resources_outside_the_folder_are_refused(folder: Path) -> None:
    (folder.parent / "x.sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    for source in ("{database: ../x.sqlite, query: select 1}",):
        with pytest.raises(InvalidFile, match="is outside"):
            suite_of(folder, source).records()


def test_the_file_that_the_user_names_is_read_instead(folder: Path) -> None:
    (folder / "own.csv").write_text(ROWS.format("a"))
    other = folder.parent / "other.csv"
    assert ids(suite_of(folder, "own.csv")) == {"a"}
    assert ids(suite_of(folder, "../other.csv", other)) == {"o"}
    assert ids(suite_of(folder, "other.csv", folder.parent)) == {"o"}
