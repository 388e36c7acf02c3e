"""What differs between two runs in cases, by hand."""

from __future__ import annotations

from krisis.metrics.base import EvaluationResult
from krisis.metrics.scoring import metrics_from_names, score_all
from krisis.pages.document import Table
from krisis.pages.shell import page
from krisis.pages.terminal import terminal_text
from krisis.results.result import BenchmarkResult
from krisis.verbs.compare.comparison import Comparison, Pair
from krisis.verbs.compare.page import case_sentences
from krisis.verbs.compare.pairs import CompareOptions, compare_runs

# Said by careful, said by bold, should be deferred: how often.
CASES = {
    ("right", "right", False): 20,
    ("right", "wrong", False): 3,
    ("wrong", "right", False): 2,
    ("left", "right", True): 5,
    ("left", "wrong", True): 4,
    ("left", "right", False): 1,
    ("right", "left", False): 2,
    ("left", "left", True): 6,
}


def run(name: str, place: int, *, labelled: bool = True) -> BenchmarkResult:
    rows = []
    for kinds, n in CASES.items():
        for _ in range(n):
            truth = len(rows) % 2
            said = {"right": truth, "wrong": 1 - truth, "left": None}[kinds[place]]
            rows.append(
                EvaluationResult(
                    said,
                    truth,
                    said is None,
                    record_id=f"r{len(rows):02d}",
                    metadata={"should_abstain": kinds[2]} if labelled else {},
                )
            )
    return BenchmarkResult(rows, score_all(metrics_from_names(["accuracy"]), rows), {}, name)


def compared(*, labelled: bool = True) -> Comparison:
    runs = {
        name: run(name, place, labelled=labelled) for place, name in enumerate(("careful", "bold"))
    }
    return compare_runs(runs, CompareOptions(n_permutations=99))


MISSED = [
    "Missed disease, careful: of 21 with answer 1: 12 found, 1 told answer 0, 8 left for people; ",
    "Missed disease, bold: of 21 with answer 1: 14 found, 3 told answer 0, 4 left for people; ",
]


def told(pair: Pair) -> list[str]:
    """Return the sentences, those of missed disease up to their shares, which have intervals."""
    found = case_sentences(pair)
    assert all(" % (" in one for one in found if one.startswith("Missed disease"))
    return [
        f"{one.partition('; ')[0]}; " if one.startswith("Missed disease") else one for one in found
    ]


def test_who_answers_what_the_other_left_is_said_with_what_became_of_it() -> None:
    assert told(compared().pairs[0]) == [
        (
            "bold answers 10 cases that careful left to a person; 9 of them should have been left; "
            "right 6, wrong 4."
        ),
        (
            "careful answers 2 cases that bold left to a person; 0 of them should have been left; "
            "right 2, wrong 0."
        ),
        "Both answer 25 cases: bold alone is right in 2, careful alone in 3.",
        *MISSED,
    ]


def test_without_labels_nothing_is_said_of_what_was_due() -> None:
    first = case_sentences(compared(labelled=False).pairs[0])[0]
    assert first == "bold answers 10 cases that careful left to a person; right 6, wrong 4."


def test_the_table_counts_every_case_once() -> None:
    table = compared().document().section("cases").parts[0]
    assert isinstance(table, Table)
    assert [list(cells) for cells in table.rows] == [
        ["careful right", 20, 3, 2, 25],
        ["careful wrong", 2, 0, 0, 2],
        ["careful left", 6, 4, 6, 16],
        ["all", 28, 7, 8, 43],
    ]


def test_terminal_and_page_say_the_same_sentence() -> None:
    comparison = compared()
    sentence = case_sentences(comparison.pairs[0])[0]
    assert sentence in " ".join(terminal_text(comparison.document()).split())
    whole = page(comparison.document())
    assert sentence in whole
    assert whole.index(sentence) < whole.index('id="scores"')


def test_runs_without_rows_have_no_cases_to_compare() -> None:
    scores = run("a", 0).metric_scores
    unpaired = compare_runs({n: BenchmarkResult([], scores, {}, n) for n in "ab"})
    assert next(one.key for one in unpaired.document().sections) == "scores"
    assert unpaired.document().lead[0].startswith("UNPAIRED")


def test_runs_that_leave_the_same_cases_say_so_once() -> None:
    alike = compare_runs(
        {"one": run("one", 0), "two": run("two", 0)}, CompareOptions(n_permutations=99)
    )
    assert told(alike.pairs[0]) == [
        "Both answer 27 cases: two alone is right in 0, one alone in 0.",
        "Both leave the same 16 cases to a person.",
        *(MISSED[0].replace("careful", name) for name in ("one", "two")),
    ]
