"""An audit finds the group that fares worse, and refuses what it cannot compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.audit import DOUBLED_WORLDS, NULL_WORLDS, simulate
from tests.documents import said
from tests.invented_runs import ANSWERS, TASK
from typer.testing import CliRunner

import krisis
from krisis.cli.app import app
from krisis.decisions.threshold_in_force import RiskBound
from krisis.errors import InvalidValue, UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import read_items
from krisis.verbs.audit.groups import Group, GroupAudit, GroupOptions, audit_groups
from krisis.verbs.audit.page import flag_line, group_table
from krisis.verbs.audit.result import Audit

Draw = np.random.Generator
# No threshold is certified at so low a risk: every answer counts.
ALL_ANSWERS = RiskBound(risk=1e-5)
QUICK = GroupOptions(n_draws=499, bound=ALL_ANSWERS)


def rows_of(
    n: int, change: Callable[[int, Draw], dict[str, Any]], size: int = 1
) -> list[EvaluationResult]:
    """Return rows that are right 9 times in 10, surer when they are; ``change`` edits each."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(n):
        wrong = i % 10 == 0
        edits = {
            "prediction": int(wrong),
            "ground_truth": 0,
            "confidence": round(
                float(rng.uniform(0.5, 0.8) if wrong else rng.uniform(0.6, 0.99)), 3
            ),
            "metadata": {"site": "abcdef"[i // 10 % 6]},
            "record_id": f"r{i}",
            "cluster_id": f"p{i // size}",
        }
        found.append(EvaluationResult(**(edits | change(i, rng))))
    return found


def saved(folder: Path, rows: Sequence[EvaluationResult], model: str = "m") -> Path:
    path = folder / f"{model}.json"
    facts = {"task_facts": {**TASK, "groups": {"site": "site"}}}
    about = {"suite": "clinic", "task": "triage"}
    BenchmarkResult(Rows(rows, ANSWERS), {}, about, model, facts).save(path)
    return path


def group_of(audit: GroupAudit, name: str) -> Group:
    return next(group for group in audit.groups if group.name == name)


def worse_in_a(i: int, rng: Draw) -> dict[str, Any]:
    return {"prediction": 1} if i // 10 % 6 == 0 and i % 2 else {}


def test_a_group_that_fares_worse_is_flagged_and_no_other(tmp_path: Path) -> None:
    run = read_items(saved(tmp_path, rows_of(400, worse_in_a)))
    audit = audit_groups(run, QUICK)
    flagged = {group.name: group.flags for group in audit.groups if group.flags}
    assert flagged == {"site_a": ["higher risk than the rest"]}
    found = group_of(audit, "site_a")
    assert (found.n_patients, found.n_rows) == (70, 70)
    risk = found.measures["risk"]
    assert risk.value == pytest.approx(0.6)
    assert risk.gap == pytest.approx(0.5)
    assert risk.gap_low < 0.5 < risk.gap_high
    assert risk.p == 2 / 500  # none of 499 exchanges reaches it
    assert audit.largest("risk") is found
    assert audit.n_tests == 12
    assert not audit.within_patients
    (flag,) = flag_line(audit).figures
    assert flag.estimate.value == risk.value
    assert str(flag).startswith("site: a: risk 60 % (")
    assert "higher than in the rest (+50 points; p " in str(flag)
    assert dumps(audit_groups(run, QUICK).to_json()) == dumps(audit.to_json())


def test_more_groups_widen_the_gaps_and_lower_the_power(tmp_path: Path) -> None:
    rows = rows_of(
        400, lambda i, rng: {"metadata": {"site": "ab"[i // 10 % 2], "day": "abcdef"[i // 10 % 6]}}
    )
    run = read_items(saved(tmp_path, rows))
    alone, among = (audit_groups(run, replace(QUICK, by=by)) for by in (["site"], ["site", "day"]))
    assert len(among.groups) > len(alone.groups)
    one, other = group_of(alone, "site_a"), group_of(among, "site_a")
    widths = [g.measures["risk"].gap_high - g.measures["risk"].gap_low for g in (one, other)]
    assert widths[0] < widths[1]
    assert one.power_doubled > other.power_doubled


def surer_when_wrong(i: int, rng: Draw) -> dict[str, Any]:
    at_a = i // 10 % 6 == 0
    return {"confidence": 1.0} if at_a and i % 10 == 0 else {}


def test_a_risk_that_rises_as_coverage_falls_is_flagged(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(600, surer_when_wrong))), QUICK)
    flagged = {group.name: group.flags for group in audit.groups if group.flags}
    assert flagged == {"site_a": ["risk rises as coverage falls"]}
    tests = group_of(audit, "site_a").tests
    assert tests.rise == pytest.approx(0.1 * 0.9 * 0.5)  # every wrong answer above every right one
    assert tests.risk_of_surest_half == pytest.approx(0.2)
    curve = [p["risk"] for p in audit.curve if p["group"] == "site_a"]
    assert curve[0] > curve[-1] == pytest.approx(0.1)


def half_abstained(i: int, rng: Draw) -> dict[str, Any]:
    due = i % 4 == 0
    site = {"site": "tiny" if i < 15 else "ab"[i % 2], "should_abstain": due}
    gone = {"abstained": True, "prediction": None} if due and i % 8 == 0 else {}
    return {"metadata": site} | gone


def test_small_groups_are_named_and_figures_are_those_of_the_rows(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(400, half_abstained))), QUICK)
    tiny = group_of(audit, "site_tiny")
    assert not tiny.measures
    assert not tiny.flags
    assert "fewer than 20 patients" in tiny.reason
    assert "site: tiny" not in [row[0] for row in group_table(audit).rows]
    words = said(Audit(audit).document())
    assert "site: tiny: fewer than 20 patients" in words
    assert not any(point["group"] == "site_tiny" for point in audit.curve)
    whole = audit.overall
    assert whole["coverage"].value == pytest.approx(350 / 400)
    assert whole["deferral_sensitivity"].value == pytest.approx(0.5)
    assert whole["deferral_specificity"].value == 1.0
    assert group_of(audit, "site_b").measures["deferral_sensitivity"].reason == (
        "no row is to be deferred"
    )
    # i % 10 == 0 is wrong and i % 8 == 0 abstained: multiples of 40 are gone.
    assert whole["risk"].value == pytest.approx(30 / 350)


def test_a_threshold_or_a_coverage_moves_every_figure(tmp_path: Path) -> None:
    run = read_items(saved(tmp_path, rows_of(400, lambda i, rng: {})))
    by_coverage = audit_groups(run, replace(QUICK, coverage=0.5))
    assert by_coverage.overall["coverage"].value == pytest.approx(0.5, abs=0.01)
    assert by_coverage.threshold is not None
    same = audit_groups(run, replace(QUICK, threshold=by_coverage.threshold))
    assert dumps(same.to_json()) == dumps(by_coverage.to_json())
    accepted = run.table.confidence >= by_coverage.threshold
    assert same.overall["risk"].value == pytest.approx(1 - run.table.correct[accepted].mean())


def eight_items(i: int, rng: Draw) -> dict[str, Any]:
    item = i % 8
    wrong = (item == 0 and i % 3 > 0) or i % 40 == 9
    return {"prediction": int(wrong), "metadata": {"site": f"i{item}"}}


def test_groups_within_patients_are_compared_within_them(tmp_path: Path) -> None:
    audit = audit_groups(read_items(saved(tmp_path, rows_of(480, eight_items, size=8))), QUICK)
    assert list(audit.within_patients) == ["site"]
    assert [group.name for group in audit.groups if group.flags] == ["site_i0"]
    assert group_of(audit, "site_i0").n_patients == 60


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i, rng: {"prediction": 0}, "no group is flagged"),
        (lambda i, rng: {"confidence": None}, "no curve"),
        (lambda i, rng: {"metadata": {}}, "all rows are in one group (unknown_site)"),
        (lambda i, rng: {"metadata": {"site": "x", "age": i}}, "the rows have: age, site"),
        (lambda i, rng: {"metadata": {"site": i}} if i < 3 else {}, "site: 1: fewer than 20"),
    ],
    ids=["all right", "no confidence", "no metadata", "one group", "one member"],
)
def test_odd_runs_are_audited(
    tmp_path: Path, change: Callable[[int, Draw], dict[str, Any]], said: str
) -> None:
    path = saved(tmp_path, rows_of(150, change))
    shown = CliRunner().invoke(app, ["audit", str(path)])
    assert shown.exit_code == 0, shown.output
    assert said in shown.output


def test_numbers_are_divided_where_asked(tmp_path: Path) -> None:
    path = saved(tmp_path, rows_of(300, lambda i, rng: {"metadata": {"age": i / 3}}))
    audit = audit_groups(read_items(path), replace(QUICK, by=["age:40:60"]))
    assert [(g.name, g.n_rows) for g in audit.groups] == [
        ("age_<40", 120),
        ("age_40–<60", 60),
        ("age_≥60", 120),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "age"], "--by age:40:60"),
        (["--by", "sit"], "did you mean 'site'"),
        (["--by", "age:60:40"], "rising numbers, not '60:40'"),
        (["--by", "site:1"], "holds 'a', which is no number"),
        (["--by", "site,site"], "name every group once"),
        (["--by", "name"], "name a column with fewer"),
        (["--threshold", "0.7", "--coverage", "0.5"], "not both"),
        (["--threshold", "nan"], "must be a number"),
        (["--coverage", "1.5"], "between 0 and 1"),
        (["--confidence", "nothing"], "unknown confidence variant"),
        (["--loss", "square"], "unknown loss"),
    ],
)
def test_what_cannot_be_audited_is_said_in_one_sentence(
    tmp_path: Path, options: list[str], said: str
) -> None:
    def change(i: int, rng: Draw) -> dict[str, Any]:
        names = {"site": "ab"[i % 2], "age": i, "name": f"n{i}", "part": i / 7}
        return {"metadata": names}

    path = saved(tmp_path, rows_of(60, change))
    found = CliRunner().invoke(app, ["audit", str(path), *options])
    assert isinstance(found.exception, UserError), found.output
    assert said in str(found.exception)


def test_names_forge_no_line(tmp_path: Path) -> None:
    rows = rows_of(120, lambda i, rng: {"metadata": {"site": ["a", "b\nFLAG b: worse"][i % 2]}})
    found = CliRunner().invoke(app, ["audit", str(saved(tmp_path, rows))])
    assert found.exit_code == 0, found.output
    assert not [line for line in found.output.splitlines() if line.startswith("FLAG")]
    assert "b FLAG b: worse" in found.output


def test_another_run_of_the_same_model_is_held_against_it(tmp_path: Path) -> None:
    rows = rows_of(60, lambda i, rng: {})
    path = saved(tmp_path, rows)
    other = saved(tmp_path, rows, "n")
    with pytest.raises(InvalidValue, match=r"n\.json is a run of n, not of m"):
        krisis.audit(path, against=[other])
    (tmp_path / "later").mkdir()
    again = saved(tmp_path / "later", rows)
    stability = krisis.audit(path, against=[again]).stability
    assert stability is not None
    assert [one.n_cases for one in stability.against] == [60]


def test_a_run_without_answers_is_refused(tmp_path: Path) -> None:
    gone = {"abstained": True, "prediction": None}
    run = read_items(saved(tmp_path, rows_of(30, lambda i, rng: gone)))
    with pytest.raises(InvalidValue, match="none of the 30 scored rows"):
        audit_groups(run)


@pytest.mark.slow
@pytest.mark.parametrize("world", NULL_WORLDS, ids=lambda world: world.name)
def test_hardly_any_run_without_a_difference_is_flagged(world: Any) -> None:
    n_runs = 300
    found = simulate(world, n_runs, 999)
    assert found["flagged"] <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_runs)


@pytest.mark.slow
@pytest.mark.parametrize("world", DOUBLED_WORLDS, ids=lambda world: world.name)
def test_a_doubled_risk_is_flagged_with_the_power_stated(world: Any) -> None:
    found = simulate(world, 300, 1999)
    assert abs(found["first_group"] - found["stated_power"]) < 3 * max(
        found["standard_error"], 0.02
    )
