"""The leak guard refuses, by file, row, column and value, what would give the label away."""

from __future__ import annotations

from typing import Any

import pytest
from tests.data.table.conftest import CSV, Change, Clinic, task_of

from krisis.data.table import cases
from krisis.data.table.leaks import findings
from krisis.data.table.suite import TableSuite
from krisis.errors import UserError

ROWS = [line.split(",") for line in CSV.splitlines()]


def with_column(name: str, value: Any) -> str:
    """Return the table with one more column, made from each row as a mapping."""
    rows = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    lines = [",".join([*ROWS[0], name])]
    lines += [
        ",".join([*row, str(value(cells))]) for row, cells in zip(ROWS[1:], rows, strict=True)
    ]
    return "\n".join(lines) + "\n"


def show(*names: str) -> Change:
    return lambda content: task_of(content)["features"].extend(names)


def refusal(clinic: Clinic, change: Change | None, data: str = CSV) -> str:
    with pytest.raises(UserError) as error:
        clinic.suite(change, data).records()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("column", "role"),
    [
        ("dm", "the label"),
        ("part", "the column of the split"),
        ("patient", "the cluster"),
        ("visit", "the record_id"),
    ],
)
def test_a_column_with_a_role_is_no_feature(clinic: Clinic, column: str, role: str) -> None:
    assert f"column {column}: it is {role} and among the features" in refusal(clinic, show(column))


def test_a_label_by_expression_and_a_deferral_label_are_no_features(clinic: Clinic) -> None:
    def bare(content: dict[str, Any]) -> None:
        task_of(content).update(label="dm")
        task_of(content)["features"].append("dm")

    assert "column dm: it is the label" in refusal(clinic, bare)

    def deferral(content: dict[str, Any]) -> None:
        task_of(content)["deferral"] = {"column": "late"}
        task_of(content)["features"].append("late")

    data = with_column("late", lambda row: int(row["glucose"] == "-9"))
    assert "column late: it is the deferral label" in refusal(clinic, deferral, data)


@pytest.mark.parametrize(
    ("codes", "label"),
    [
        ((0, 1), {"column": "dm"}),
        ((10, 20), "dm = 1"),
        ((1, 0), "case when dm = 1 then 1 else 0 end"),
        (("no", "Yes"), {"column": "dm"}),
        (("", "x"), {"column": "dm"}),
        (("false", "true"), {"column": "dm"}),
    ],
)
def test_a_copy_or_recoding_of_the_label_is_refused(
    clinic: Clinic, codes: tuple[Any, Any], label: Any
) -> None:
    def change(content: dict[str, Any]) -> None:
        task_of(content)["label"] = label
        task_of(content)["features"].append("hint")

    data = with_column("hint", lambda row: codes[int(row["dm"])])
    message = refusal(clinic, change, data)
    assert "p.csv row 1 (line 2), column hint: it gives the label away" in message
    if "" not in codes:  # one value of it that is missing hides nothing
        gap = with_column("hint", lambda row: row["visit"] != "v08" and codes[int(row["dm"])])
        assert "column hint: it gives the label away" in refusal(
            clinic, change, gap.replace(",False\n", ",\n")
        )


CODED = [  # visit, patient, code, number, dm: a third of the codes has the label 1
    (f"v{i}", f"p{i}", f"C{i % 12:02}", 10 * (i % 12), int(i % 3 == 0)) for i in range(60)
]


def coded(
    clinic: Clinic, shown: str = "code", label: object = None, rows: Any = CODED, **feature: Any
) -> list[str]:
    """Return what the guard says of a table of codes, of which one column is shown."""

    def change(content: dict[str, Any]) -> None:
        task = {"question": "?", "answers": {0: "no", 1: "yes"}, "features": [shown]}
        content.update(tasks={"screening": task | {"label": label or {"column": "dm"}}})
        content.update(features={shown: feature}, groups=[], baselines={})
        del content["split"]

    header = "visit,patient,code,number,dm\n"
    data = header + "".join(",".join(map(str, row)) + "\n" for row in rows)
    suite = clinic.suite(change, data)
    table = cases.TaskTable(suite.declaration, "screening", suite.source, suite.config)
    return [one for one in findings(table) if "gives the label away" in one]


@pytest.mark.parametrize("shown", ["code", "number"])
def test_codes_with_one_label_each_are_refused(clinic: Clinic, shown: str) -> None:
    [said] = coded(clinic, shown)
    values = ("'c00'", "'c01'") if shown == "code" else ("0", "10")
    assert said == (
        f"{clinic.folder}/p.csv row 1 (line 2), column {shown}: it gives the label away: each of "
        f"its 12 values has one label only, {values[0]} always 1, {values[1]} always 0 …; take it "
        "out of the features of tasks.screening, or write states_label: {accepted: the reason} "
        f"under features.{shown}"
    )


def test_codes_that_are_no_leak(clinic: Clinic) -> None:
    exception = [*CODED, ("v60", "p60", "C00", 0, 0)]
    assert not coded(clinic, rows=exception)
    assert not coded(clinic, states_label={"accepted": "the code is the question"})
    assert not coded(clinic, label="code in ('C00', 'C03', 'C06', 'C09')")
    assert not coded(clinic, "number", label="number >= 60")
    limits = [(*row[:4], int(row[3] >= 60)) for row in CODED]
    assert not coded(clinic, "number", rows=limits)
    # 30 of 45 have the label 0, and (30/45)^(45 − 12) is 1.5e-6; (30/46)^(46 − 12) is 4.9e-7.
    assert not coded(clinic, rows=CODED[:45])
    assert coded(clinic, rows=CODED[:46])
    of_patients = [(row[0], f"p{i % 12}", *row[2:]) for i, row in enumerate(CODED)]
    assert not coded(clinic, rows=of_patients)  # one patient for each code says nothing


def test_codes_of_one_label_and_none_for_the_other_are_refused(clinic: Clinic) -> None:
    rows = [(*row[:2], row[2] if row[4] else "", *row[3:]) for row in CODED]
    [said] = coded(clinic, rows=rows)
    assert "each of its 5 values has one label only" in said


def test_reading_a_guideline_is_no_leak(clinic: Clinic) -> None:
    suite = clinic.suite(lambda content: task_of(content).update(label="hba1c >= 6.5"))
    assert sorted(record.label for record in suite.records()) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Blurred vision", "Known diabetes since 2010", "'diabetes' (1 of 3 rows with it, 0 of 5"),
        ("Blurred vision", "Blurred vision; dm=1", "'dm: 1'"),
        ("Check-up", "There is no Diabetes here", "'no diabetes' (1 of 5 rows"),
        ("Numb feet", "Numb feet. Label: 0", "'dm: 0'"),
    ],
)
def test_the_label_in_a_free_text_is_refused(
    clinic: Clinic, old: str, new: str, words: str
) -> None:
    message = refusal(clinic, None, CSV.replace(old, new))
    assert "column note: the text states the label of its row" in message
    assert words in message


def test_words_of_the_topic_are_no_leak_and_a_stated_label_can_be_accepted(clinic: Clinic) -> None:
    everywhere = CSV.replace(",A\n", " - asked about diabetes,A\n").replace(
        ",B\n", " - asked about diabetes,B\n"
    )
    assert len(clinic.suite(None, everywhere).records()) == 5
    assert len(clinic.suite(None, CSV.replace("Check-up", "No fever; not 1 but 0")).records()) == 5
    stated = CSV.replace("Blurred vision", "Known diabetes")

    def accept(content: dict[str, Any]) -> None:
        content["features"]["note"]["states_label"] = {"accepted": "the letters are the task"}

    suite = clinic.suite(accept, stated)
    assert (
        "note may state the label (accepted: the letters are the task)"
        in suite.describe()["account"]
    )


def test_a_patient_in_both_parts_is_refused(clinic: Clinic) -> None:
    message = refusal(clinic, None, CSV.replace(",011,", ",009,"))
    assert "p.csv row 3 (line 4), column patient: '009' is evaluated here" in message
    assert "training data in row 5" in message


def test_copies_with_another_label_or_in_both_parts_are_refused(clinic: Clinic) -> None:
    other_label = CSV + "v09,015,test,70,M,180,8.1,0,Blurred vision,B\n"
    message = refusal(clinic, None, other_label)
    assert "row 9 (line 10): it equals row 4 in everything that is shown, with another" in message
    both_parts = CSV + "v09,015,train,70,M,180,8.1,1,Blurred vision,B\n"
    assert "it equals row 4 in everything that is shown, in both parts" in refusal(
        clinic, None, both_parts
    )
    twice = CSV + CSV.splitlines()[4] + "\n"
    anonymous: Change = lambda content: content.pop("record_id")  # noqa: E731
    assert "row 9 (line 10): it equals row 4 in every column" in refusal(clinic, anonymous, twice)


def test_a_letter_or_a_short_explanation_that_names_the_right_option_is_refused(
    clinic: Clinic,
) -> None:
    def options(content: dict[str, Any]) -> None:
        content["tasks"] = {
            "main": {
                "question": {"column": "ask"},
                "answers": {"columns": ["hba1c", "note"]},
                "label": "case when age > 50 then 1 else 2 end",
            }
        }
        content |= {"features": {}, "groups": [], "baselines": {}}

    asked = with_column("ask", lambda row: f"{row['visit'][1:]}? Answer: {'BA'[row['age'] > '50']}")
    assert "column ask: the text names the right option in 8 of 8" in refusal(
        clinic, options, asked
    )
    wrong = with_column("ask", lambda row: f"{row['visit'][1:]}? Answer: {'AB'[row['age'] > '50']}")
    assert clinic.suite(options, wrong).records()


def test_equal_rows_of_coarse_features_are_no_copies(clinic: Clinic) -> None:
    def coarse(content: dict[str, Any]) -> None:
        task_of(content).update(features=["sex", "site"], label={"column": "dm"})
        task_of(content).pop("deferral")
        task_of(content).pop("uncertainty")
        content.pop("baselines")

    data = CSV.splitlines()[0] + "\n"
    data += "".join(
        f"w{i},{i},{'test' if i % 2 else 'train'},40,{'FM'[i % 3 % 2]},90,5,{i % 5 % 2},n,"
        f"{'AB'[i % 7 % 2]}\n"
        for i in range(60)
    )
    assert clinic.suite(coarse, data).records()


def test_a_deferral_rule_by_an_unseen_column_needs_a_reason(clinic: Clinic) -> None:
    def hidden(content: dict[str, Any]) -> None:
        task_of(content)["deferral"]["when"] = {"remote": "site = 'B'"}

    message = refusal(clinic, hidden)
    assert "column site: tasks.screening.deferral.when.remote decides by it" in message

    def uncertain(content: dict[str, Any]) -> None:
        task_of(content)["features"].remove("hba1c")

    assert "column hba1c: tasks.screening.uncertainty decides by it" in refusal(clinic, uncertain)

    def accept(content: dict[str, Any]) -> None:
        hidden(content)
        task_of(content)["deferral"]["hidden"] = {"accepted": "the clinic cannot test there"}

    described = clinic.suite(accept).describe()
    sentence = "deferral reads site, which the model is not shown (accepted: the clinic cannot test"
    assert sentence in described["accepted"][0]
    assert sentence in described["account"]


def test_all_findings_are_listed_for_a_check(clinic: Clinic) -> None:
    suite = clinic.suite(show("dm", "part"), CSV.replace(",011,", ",009,"))
    table = cases.TaskTable(suite.declaration, "screening", suite.source, suite.config)
    found = list(findings(table))
    assert [
        sum(words in one for one in found) for words in ("column dm", "column part", "'009'")
    ] == [
        2,
        1,
        1,
    ]


def test_a_large_table_is_guarded_where_it_is_used(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a large table is spared concerns rows that are not used."""
    monkeypatch.setattr(cases, "LARGE", 4)
    assert len(clinic.suite().records()) == 5
    copied = CSV + "v09,015,train,70,M,180,8.1,0,Blurred vision,B\n"
    with pytest.raises(UserError, match="it equals row 4 in everything"):
        clinic.suite(None, copied).records()
    twice = CSV.replace("v05", "v04")
    with pytest.raises(UserError, match="'v04' is already in row 4"):
        clinic.suite(None, twice).records()
    hint = with_column("hint", lambda row: row["dm"])
    with pytest.raises(UserError, match="column hint: it gives the label away"):
        clinic.suite(show("hint"), hint).records()
    unused = TableSuite(clinic.write(None, CSV.replace("v06", "v05")))
    assert len(unused.first(1)) == 1
