"""Readers in a table: what people said in columns of the file becomes a run of their own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.data.table.conftest import CSV, Clinic, task_of

from krisis.backends.catalogue import backend_from_name
from krisis.backends.prompt import build_prompt
from krisis.benchmark import Benchmark, ask_baselines
from krisis.errors import InvalidFile, InvalidValue
from krisis.results.base import BenchmarkResult

HEAD, *LINES = CSV.strip().split("\n")
SAID = ["0", "1", "", "1", "0", "", "0", "1"]
CHANCE = ["0.1", "0.9", "", "0.5", "0.2", "", "0.7", "0.3"]
READ = "\n".join(
    [f"{HEAD},dr_a,sure,chance"]
    + [
        f"{line},{a},{'0.9' if a else ''},{p}"
        for line, a, p in zip(LINES, SAID, CHANCE, strict=True)
    ]
)


def with_readers(**readers: Any):
    def change(content: dict[str, Any]) -> None:
        task_of(content)["readers"] = readers
        task_of(content)["positive"] = 1

    return change


def run(suite: Any, reader: str) -> BenchmarkResult:
    return Benchmark(suite, backend_from_name(f"reader/{reader}"), []).run()


def test_a_reader_answers_the_cases_that_they_read(clinic: Clinic) -> None:
    suite = clinic.suite(with_readers(dr_a="dr_a"), READ)
    result = run(suite, "dr_a")
    said = {line.split(",")[0]: a for line, a in zip(LINES, SAID, strict=True)}
    asked = {record.record_id for record in suite.load()}
    read = {name for name in asked if said[name]}
    found = {row.record_id: row.prediction for row in result.evaluation_results}
    assert found == {name: int(said[name]) for name in read}
    assert result.backend_name == "reader/dr_a"
    assert len(read) < len(asked)
    assert result.suite_description["read"] == f"{len(read)} of {len(asked)}"
    names = ask_baselines(suite, suite.records()).rows
    assert f"reader/dr_a (read {len(read)} of {len(asked)})" in names


def test_a_reader_may_state_a_confidence_or_a_probability(clinic: Clinic) -> None:
    both = {"answer": "dr_a", "confidence": "sure"}
    suite = clinic.suite(with_readers(dr_a=both, dr_b={"probability": "chance"}), READ)
    assert {one.confidence for one in suite.readers["dr_a"].values()} == {0.9}
    by_id = suite.readers["dr_b"]
    # 0.5 and 0.7 are wrong more often than a deferral costs.
    assert [by_id[f"v0{k}"].answer for k in (1, 2, 4, 7)] == [0, 1, None, None]
    assert [by_id[f"v0{k}"].abstain for k in (1, 2, 4, 7)] == [False, False, True, True]
    assert [by_id[f"v0{k}"].confidence for k in (1, 2)] == pytest.approx([0.9, 0.9])
    assert by_id["v07"].signals["own_probabilities"] == {"1": 0.7, "0": 0.3}


def test_what_readers_said_reaches_no_prompt_and_changes_no_record(clinic: Clinic) -> None:
    plain = clinic.suite(lambda content: task_of(content).update(positive=1), READ).load()
    suite = clinic.suite(with_readers(dr_a="dr_a"), READ)
    assert [(r.features, r.metadata) for r in suite.load()] == [
        (r.features, r.metadata) for r in plain
    ]
    assert "dr_a" not in build_prompt(suite.task, [suite.load()[0].features]).user


@pytest.mark.parametrize(
    ("readers", "words"),
    [
        ({"dr_a": "age"}, "readers.dr_a: the column 'age' is also in features"),
        ({"dr_a": "dm"}, "readers.dr_a: the column 'dm' is also in label"),
        ({"dr_a": {"confidence": "sure"}}, "give the column of the answers"),
        ({"dr_a": {"probability": "chance", "confidence": "sure"}}, "confidence belongs to answer"),
        ({"dr_a": "nobody"}, "readers.dr_a: .*'nobody'"),
        ({"dr_a": "patient"}, r"readers.dr_a: .* is none of the answers \(0, 1\)"),
        ({"dr_a": {"probability": "glucose"}}, "also in features"),
        ({"dr_a": {"answer": "dr_a", "confidence": "patient"}}, "no probability between 0 and 1"),
    ],
)
def test_readers_that_make_no_sense_are_refused(
    clinic: Clinic, readers: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidFile, match=words):
        clinic.suite(with_readers(**readers), READ).readers  # noqa: B018


def test_an_unknown_reader_is_refused_with_those_there_are(clinic: Clinic) -> None:
    suite = clinic.suite(with_readers(dr_a="dr_a"), READ)
    with pytest.raises(InvalidValue, match=r"'dr_b' read no cases .*\(its readers: dr_a\)"):
        run(suite, "dr_b")


def test_decimals_are_those_that_the_file_asks_for(clinic: Clinic) -> None:
    def change(content: dict[str, Any]) -> None:
        content["features"]["hba1c"] = {"unit": "%", "decimals": 2}
        content["features"]["age"] = {"decimals": 0}

    data = CSV.replace(",8.1,", ",8.0999023,")
    suite = clinic.suite(change, data)
    record = next(one for one in suite.load() if one.record_id == "v04")
    text = build_prompt(suite.task, [record.features]).user
    assert "- hba1c: 8.10 %\n" in text
    assert "- age: 70\n" in text
    assert record.features["hba1c"] == 8.1


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"text": True, "decimals": 1}, "decimals is for a number"),
        ({"decimals": -1}, "decimals"),
        ({"decimals": 1.5}, "decimals"),
    ],
)
def test_decimals_that_make_no_sense_are_refused(
    clinic: Clinic, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidFile, match=words):
        clinic.suite(lambda content: content["features"].update(note=spec)).load()
