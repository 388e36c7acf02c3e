from __future__ import annotations

import pytest

from krisis.backends.baselines.rules import Lexicon as LexiconBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite, SuiteConfig
from krisis.data.phq8.lexicon import ItemScore, Lexicon, findings, judge
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.transcripts import Transcript
from krisis.errors import InvalidValue
from krisis.execution.options import Execution
from krisis.metrics.base import EvaluationResult


def read(item: str, text: str, references: list[int] | None = None) -> ItemScore:
    found = list(findings(item, Transcript.parse(text), lambda number: True))
    return judge(found, references or [])


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("I slept badly on nine of the last fourteen nights.", 2),
        ("I slept badly on 13 of the last 14 nights.", 3),
        ("I lie awake three or four days a week.", 1),
        ("I'm awake twice a week.", 1),
        ("Most nights I lie awake.", 2),
        ("I can't sleep, it's every single night.", 3),
        ("I sleep fine.", 0),
        ("Not every night, but I do lie awake.", None),
        ("My husband lies awake every night.", None),
        ("Years ago I couldn't sleep, every night was bad.", None),
        ("The weather was good.", None),
        ("How I've slept, I couldn't tell you.", None),
    ],
)
def test_sentences_are_read_as_expected(said: str, score: int | None) -> None:
    assert read("sleep", f"Participant: {said}").score == score


def test_the_question_makes_the_answer_about_the_item() -> None:
    text = "Interviewer: How is your appetite?\nParticipant: Terrible, nearly every day."
    assert read("appetite", text).score == 3
    assert read("sleep", text).score is None


def test_a_later_statement_holds_with_less_confidence_unless_it_takes_back() -> None:
    first = "Interviewer: Are you tired?\nParticipant: Not really, no.\n"
    later = read("fatigue", first + "Participant: I'm exhausted every single day.")
    corrected = read(
        "fatigue", first + "Participant: I wasn't straight with you. I'm tired every single day."
    )
    assert (later.score, later.verbalized_confidence) == (3, 2)
    assert (corrected.score, corrected.verbalized_confidence) == (3, 4)
    assert len(later.quotes) == 2


def test_references_decide_where_a_frequency_is_missing_and_they_agree() -> None:
    text = "Participant: I do get tired."
    assert read("fatigue", text).score is None
    assert read("fatigue", text, [2, 2]).score == 2
    assert read("fatigue", text, [2, 1]).score is None
    assert read("fatigue", "Participant: Hello.", [2, 2]).score is None


def rows(temperature: float = 0.0, repeats: int = 1, **options: str) -> list[EvaluationResult]:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=100), **options)
    backend = LexiconBackend(temperature=temperature)
    benchmark = Benchmark(suite, backend, execution=Execution(repeats=repeats))
    return list(benchmark.run().evaluation_results)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["zero_shot", "few_shot"])
def test_it_abstains_on_withheld_items_far_more_often_than_on_others(mode: str) -> None:
    results = rows(mode=mode, split="all")
    assert not any(row.error for row in results)

    def share(withheld: bool) -> float:
        chosen = [row for row in results if row.metadata["should_abstain"] is withheld]
        return sum(row.abstained for row in chosen) / len(chosen)

    assert share(True) > share(False) + 0.2


def test_every_quote_it_gives_is_in_the_transcript() -> None:
    results = rows()
    assert all(row.signals["n_quotes_not_found"] == 0 for row in results)
    assert all(row.signals["llm_evidence_count"] > 0 for row in results if not row.abstained)


def test_repeats_differ_only_at_a_temperature() -> None:
    def samples(temperature: float) -> list[list[object]]:
        results = rows(temperature, repeats=3)
        n = len(results) // 3
        return [[row.prediction for row in results[i * n : (i + 1) * n]] for i in range(3)]

    cold, warm = samples(0.0), samples(0.7)
    assert cold[0] == cold[1] == cold[2]
    assert warm[0] != warm[1]
    assert warm == samples(0.7)


def test_other_tasks_and_temperatures_are_refused_in_words() -> None:
    suite = RecordListSuite([PatientRecord({"sc": 1.0}, 0)])
    with pytest.raises(InvalidValue, match="the suite 'records' has no rule 'lexicon'"):
        Benchmark(suite, LexiconBackend()).run()
    with pytest.raises(InvalidValue, match="the lexicon reads PHQ-8 items only, not 'no item'"):
        Lexicon()({"sc": 1.0}, "")
    for wrong in (2, "warm"):
        with pytest.raises(InvalidValue, match="temperature must be between 0 and 1"):
            LexiconBackend(temperature=wrong).prepare(PHQ8Suite())
