from __future__ import annotations

import json
from pathlib import Path

import pytest

from krisis.backends.prompt import build_prompt
from krisis.data.base import PatientRecord, SuiteConfig, Task, records_hash
from krisis.data.phq8.corpus import LabelledInterview, write_directory
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.retrieval import RetrievalOptions
from krisis.data.phq8.suite import PHQ8Suite, _synthetic_cases
from krisis.data.phq8.transcripts import SENTENCE_END, Transcript, Turn
from krisis.errors import InvalidFile, InvalidValue, UnknownName

SMALL = SuiteConfig(n_synthetic=40)


def own_folder(path: Path, splits: list[str], scores: list[int] | None = None) -> Path:
    def interview(number: int, split: str) -> LabelledInterview:
        asked = Turn("interviewer", "How do you sleep?")
        said = Turn("participant", f"Badly, night number {number}.")
        score = scores[number] if scores else number % 4
        transcript = Transcript(f"P{number}", (asked, said))
        return LabelledInterview(transcript, (score,) * len(ITEM_KEYS), split)

    write_directory(path, [interview(*one) for one in enumerate(splits)])
    return path


def test_one_record_is_one_item_and_a_participant_is_a_cluster_and_a_batch() -> None:
    records = PHQ8Suite(SMALL).load()
    assert len(records) == 8 * 8  # a fifth of forty participants
    first = records[:8]
    assert [record.metadata["item"] for record in first] == list(ITEM_KEYS)
    assert len({(r.cluster_id, r.group, r.context) for r in first}) == 1
    assert len({record.record_id for record in records}) == 64


@pytest.mark.parametrize("mode", ["zero_shot", "few_shot"])
def test_loading_twice_gives_identical_records(mode: str) -> None:
    first = records_hash(PHQ8Suite(SMALL, mode=mode).load())
    _synthetic_cases.cache_clear()  # write the interviews again
    assert first == records_hash(PHQ8Suite(SMALL, mode=mode).load())
    other = PHQ8Suite(SuiteConfig(n_synthetic=40, seed=1), mode=mode)
    assert first != records_hash(other.load())


def test_the_splits_share_no_participant_and_make_up_the_cohort() -> None:
    def ids(split: str) -> set[str]:
        return {record.cluster_id for record in PHQ8Suite(SMALL, split=split).load()}

    assert not ids("train") & ids("test")
    assert ids("train") | ids("test") == ids("all")
    assert len(ids("all")) == 40


@pytest.mark.parametrize("split", ["train", "test", "all"])
def test_no_reference_is_of_the_participant_under_test_or_of_the_held_out_split(
    split: str,
) -> None:
    held_out = {record.cluster_id for record in PHQ8Suite(SMALL, split="test").load()}
    transcripts = {r.cluster_id: r.context for r in PHQ8Suite(SMALL, split="all").load()}
    n_references = 0
    for record in PHQ8Suite(SMALL, mode="few_shot", split=split).load():
        for participant_id in record.metadata["reference_participants"]:
            n_references += 1
            assert participant_id != record.cluster_id
            assert participant_id not in held_out
        shown = record.features["references"].split("«")[1:]
        for passage in shown:
            # The passage really is one of a listed participant: nothing else slips in by text.
            sentences = SENTENCE_END.split(passage.split("»")[0])
            assert any(
                all(sentence in transcripts[one] for sentence in sentences)
                for one in record.metadata["reference_participants"]
            )
    assert n_references > 50


def test_an_item_without_evidence_is_never_a_reference() -> None:
    suite = PHQ8Suite(SMALL, mode="few_shot", split="all")
    withheld = {(r.cluster_id, r.metadata["item"]) for r in suite.load()
                if r.metadata["should_abstain"]}  # fmt: skip
    for record in suite.load():
        for participant_id in record.metadata["reference_participants"]:
            assert (participant_id, record.metadata["item"]) not in withheld


@pytest.mark.parametrize("mode", ["zero_shot", "few_shot"])
def test_no_label_of_the_held_out_participants_reaches_a_prompt(tmp_path: Path, mode: str) -> None:
    """The held-out scores are changed; every prompt stays the same to the letter."""

    def prompts(name: str, held_out_score: int) -> list[str]:
        file = own_folder(
            tmp_path / name, ["train", "train", "train", "test"], [0, 1, 2, held_out_score]
        )
        suite = PHQ8Suite(data=file, mode=mode)
        records = suite.load()
        assert {record.label for record in records} == {held_out_score}
        built = build_prompt(
            suite.task,
            [record.features for record in records],
            batch=True,
            context=records[0].context,
        )
        return [built.system, built.user, built.template]

    assert prompts("a", 0) == prompts("b", 3)


def test_the_transcript_is_shown_once_in_a_prompt() -> None:
    suite = PHQ8Suite(SMALL)
    records = suite.load()[:8]
    prompt = build_prompt(
        suite.task,
        [record.features for record in records],
        batch=True,
        context=records[0].context,
    )
    assert prompt.user.count(records[0].context) == 1
    assert records[0].context not in prompt.template


def reviewed(suite: PHQ8Suite, record: PatientRecord, **signals: object) -> dict[str, object]:
    return dict(suite.review(record, signals))


def test_only_quotes_that_were_said_count_as_evidence() -> None:
    suite = PHQ8Suite(SMALL, mode="few_shot")
    record = suite.load()[0]
    said = record.context.split("Participant: ")[1].split("\n")[0]
    signals = reviewed(
        suite, record, evidence_quotes=[said, "I never said this"], verbalized_confidence=4
    )
    assert signals["llm_evidence_count"] == 1
    assert signals["n_quotes_not_found"] == 1
    assert signals["quotes_not_found"] == ["I never said this"]
    assert signals["verbalized_confidence"] == 4
    assert signals["retrieval_reference_count"] == record.metadata["retrieval"][
        "retrieval_reference_count"
    ]  # fmt: skip


def test_a_second_review_changes_nothing() -> None:
    suite = PHQ8Suite(SMALL)
    record = suite.load()[0]
    said = record.context.split("Participant: ")[1].split("\n")[0]
    once = reviewed(suite, record, evidence_quotes=[said, "never said"])
    assert once["llm_evidence_count"] == 1
    assert reviewed(suite, record, **once) == once


def test_a_model_that_gives_no_quotes_gets_no_evidence_count() -> None:
    suite = PHQ8Suite(SMALL)
    assert "llm_evidence_count" not in reviewed(suite, suite.load()[0])


def test_of_a_users_interviews_only_figures_are_kept(tmp_path: Path) -> None:
    suite = PHQ8Suite(data=own_folder(tmp_path / "x", ["train", "test"]))
    (record, *_) = suite.load()
    signals = reviewed(suite, record, evidence_quotes=["Badly, night number 1.", "Badly, night 9"])
    assert (signals["llm_evidence_count"], signals["n_quotes_not_found"]) == (1, 1)
    assert "night" not in json.dumps(signals)
    assert "night" not in json.dumps([dict(r.metadata) for r in suite.load()])
    assert "night" not in json.dumps(suite.describe())
    assert not suite.stores_text
    assert "may be under a licence" in suite.notice
    assert "should_abstain" not in record.metadata


def test_splits_of_a_users_file_are_kept_or_drawn(tmp_path: Path) -> None:
    named = PHQ8Suite(data=own_folder(tmp_path / "a", ["train", "dev", "test", "train"]))
    assert {record.cluster_id for record in named.load()} == {"P1", "P2"}
    drawn = PHQ8Suite(data=own_folder(tmp_path / "b", [""] * 10))
    assert len({record.cluster_id for record in drawn.load()}) == 2
    with pytest.raises(InvalidFile, match="value must be train, dev or test, not 'training'"):
        PHQ8Suite(data=own_folder(tmp_path / "c", ["training", "test"])).load()


def test_training_records_are_never_those_that_are_evaluated() -> None:
    suite = PHQ8Suite(SMALL)
    trained = {record.record_id for record in suite.training_records()}
    assert len(trained) == 32 * 8
    assert not trained & {record.record_id for record in suite.load()}
    assert PHQ8Suite(SMALL, split="train").training_records() == []


def test_wrong_options_are_named() -> None:
    with pytest.raises(UnknownName, match="unknown mode 'one_shot'"):
        PHQ8Suite(mode="one_shot")
    with pytest.raises(UnknownName, match="unknown split"):
        PHQ8Suite(split="holdout")
    for name in (Task.STAGING, Task.DETECTION):
        with pytest.raises(UnknownName, match=f"'phq8': '{name}'. Known: phq8"):
            PHQ8Suite(SuiteConfig(task=name))
    with pytest.raises(InvalidValue, match="withheld_rate"):
        PHQ8Suite(withheld_rate=1.5)
    with pytest.raises(UnknownName, match=r"unknown cohort 'clinics'.*did you mean 'clinic'"):
        PHQ8Suite(cohort="clinics")
    with pytest.raises(InvalidValue, match="omit cohort= or data="):
        PHQ8Suite(cohort="clinic", data="interviews")
    with pytest.raises(InvalidValue, match="without data"):
        PHQ8Suite(labels="labels.csv")
    with pytest.raises(InvalidValue, match="n_references"):
        RetrievalOptions(n_references=0)
    with pytest.raises(InvalidValue, match="n_references"):
        PHQ8Suite(retrieval={"n_references": "many"})
    with pytest.raises(UnknownName, match="did you mean 'n_references'"):
        PHQ8Suite(retrieval={"n_reference": 3})
    with pytest.raises(InvalidValue, match="retrieval must be a mapping"):
        PHQ8Suite(retrieval=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="min_similarity"):
        RetrievalOptions(min_similarity=2)


def test_the_description_says_where_the_interviews_come_from() -> None:
    description = PHQ8Suite(SMALL, mode="few_shot").describe()
    assert description["n_participants"] == 8
    assert description["n_training_participants"] == 32
    assert description["n_references"] == 2
    assert "NHANES" in description["provenance"]
    assert "clinic" not in description["provenance"]
    assert "clinic" in PHQ8Suite(SMALL, cohort="clinic").describe()["provenance"]
    assert len(description["data_sha256"]) == 64


def test_modes_are_about_the_same_cases_and_splits_are_not() -> None:
    def hashed(**options: str) -> str:
        return str(PHQ8Suite(SMALL, **options).describe()["content_hash"])

    assert hashed(mode="zero_shot") == hashed(mode="few_shot")
    assert hashed(split="test") != hashed(split="train")
