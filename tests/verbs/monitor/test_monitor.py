"""A threshold in use: looked at as often as one likes, it is called broken only when it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.monitor import BOUND, WORLDS, first_alarms, one_look_size, verified_monthly
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import said
from typer.testing import CliRunner

import krisis
from krisis.cli.app import app
from krisis.decisions.certify import Certificate
from krisis.decisions.verify import Promise
from krisis.errors import InvalidValue
from krisis.json_values import dumps
from krisis.pages.html import html_fragment
from krisis.pages.style import Style
from krisis.pages.terminal import terminal_text
from krisis.results.base import BenchmarkResult
from krisis.statistics import sequential
from krisis.statistics.sequential import (
    LOG_DECISIVE,
    excess_beginning,
    excess_evidence,
    shortfall_evidence,
)
from krisis.verbs.monitor import chart as curves
from krisis.verbs.monitor.evidence import Monitoring, _Counts

COLUMNS: dict[str, Any] = {"truth": "y", "prediction": "p", "confidence": "c", "id": "id"}
COLUMNS |= {"patient": "who", "groups": ["sex", "day"], "answers": [0, 1], "model": "some-model"}


def run(
    name: str,
    wrong: list[int],
    *,
    size: int = 1,
    day: list[Any] | None = None,
    abstained: list[bool] | None = None,
    **settings: Any,
) -> BenchmarkResult:
    """Return a run with these errors, all at one confidence."""
    n = len(wrong)
    rows: dict[str, list[Any]] = {
        "y": [0] * n,
        "p": wrong,
        "c": [0.9] * n,
        "id": [f"{name} {i:05}" for i in range(n)],
        "who": [f"{name} patient {i // size:05}" for i in range(n)],
        "sex": ["f" if (i // size) % 2 else "m" for i in range(n)],
        "day": day or list(range(n)),
    }
    columns = COLUMNS | settings
    if abstained is not None:
        rows["left"] = abstained
        columns["abstained"] = "left"
    return krisis.score(rows, metrics=["accuracy"], **columns)


def every(n: int, step: int) -> list[int]:
    return [int(i % step == step - 1) for i in range(n)]


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    found = krisis.certify(run("old", every(400, 100)), risk=0.05)
    assert found.threshold == 0.9
    return found


# --- The evidence ----------------------------------------------------------------------------


def brute_force(surplus: list[float], limit: float) -> list[float]:
    """E as its formula says, by plain sums and products."""
    bets = [0.5 / (1 - limit)]
    while 2 * bets[-1] <= 0.99 / limit:
        bets.append(2 * bets[-1])
    bets = [min(bet, 0.99 / limit) for bet in bets]
    weights = [0.5] + [50 / ((99 + j) * (100 + j)) for j in range(1, len(surplus))]
    found = []
    for t in range(1, len(surplus) + 1):
        e = 1 - sum(weights[:t])
        for bet in bets:
            for k in range(t):
                e += weights[k] * math.prod(1 + bet * x for x in surplus[k:t]) / len(bets)
        found.append(e)
    return found


@given(
    limit=st.sampled_from([0.01, 0.05, 0.3, 0.6]),
    shares=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40),
)
@settings(max_examples=40, deadline=None)
def test_the_evidence_is_the_sum_of_its_formula(
    limit: float, shares: list[tuple[float, float]]
) -> None:
    surplus = [stake * (loss - limit) for stake, loss in shares]
    found = np.exp(excess_evidence(np.array(surplus), limit))
    assert found == pytest.approx(brute_force(surplus, limit), rel=1e-9)


@pytest.mark.parametrize("limit", [0.02, 0.05, 0.4])
def test_a_fair_game_keeps_its_expectation(limit: float) -> None:
    """Over all outcomes of six patients at the bound, the mean of E is exactly 1."""
    for evidence in (excess_evidence, shortfall_evidence):
        mean = 0.0
        for outcome in range(2**6):
            wrong = np.array([outcome >> i & 1 for i in range(6)])
            chance = float(np.prod(np.where(wrong, limit, 1 - limit)))
            mean += chance * math.exp(evidence(wrong - limit, limit)[-1])
        assert mean == pytest.approx(1.0, abs=1e-12)


def test_a_late_rise_costs_little_more_than_an_early_one_and_its_beginning_is_found() -> None:
    good = np.array(every(1000, 20)) - BOUND
    bad = np.array(every(600, 8)) - BOUND
    early = int(np.argmax(excess_evidence(bad, BOUND) >= LOG_DECISIVE))
    both = np.concatenate([good, bad])
    late = int(np.argmax(excess_evidence(both, BOUND) >= LOG_DECISIVE)) - 1000
    assert 0 < early < late < 2.5 * early
    begun = excess_beginning(both[: 1000 + late + 1], BOUND)
    assert abs(begun - 1000) < 30


# --- The verb --------------------------------------------------------------------------------


def test_a_certificate_that_holds_breaks_or_cannot_be_judged(certificate: Certificate) -> None:
    good = krisis.monitor(certificate, run("good", every(400, 200)))
    assert good.state == "holds"
    assert (good.parts[0].n_accepted, good.parts[0].loss_sum) == (400, 2)
    assert good.parts[0].risk == pytest.approx(2 / 400)
    bad = krisis.monitor(certificate, run("bad", every(400, 5)))
    assert bad.state == "broken"
    few = krisis.monitor(certificate, run("few", every(40, 20)))
    assert few.state == "cannot tell"
    assert few.parts[0].n_to_tell is None  # exactly at the bound
    assert few.parts[0].n_if_doubled == pytest.approx(300, abs=80)
    better = krisis.monitor(certificate, run("few", every(40, 40))).parts[0]
    assert better.n_to_tell is not None
    assert 150 < better.n_to_tell < 900


def test_broken_since_names_the_day(certificate: Certificate) -> None:
    days = [f"2026-{1 + i // 100:02}-01" for i in range(900)]
    wrong = every(500, 40) + every(400, 5)
    found = krisis.monitor(certificate, run("new", wrong, day=days), time="day")
    assert found.state == "broken"
    alarm = found.parts[0].alarm
    assert alarm is not None
    assert abs(alarm.since_patient - 501) < 25
    assert alarm.since in ("2026-05-01", "2026-06-01")
    assert alarm.seen == "2026-06-01"
    assert alarm.n_patients == 900 - alarm.since_patient + 1
    assert [look.when for look in found.parts[0].looks] == sorted(set(days))
    assert found.parts[0].looks[-1].loss_sum == sum(wrong)
    # An alarm stays, whatever comes later.
    later = run("later", every(2000, 400), day=["2027-01-01"] * 2000)
    assert krisis.monitor(certificate, [run("new", wrong, day=days), later], time="day").state == (
        "broken"
    )


def test_looking_earlier_would_have_shown_the_same(certificate: Certificate) -> None:
    """The evidence of the first months does not change when later months arrive."""
    runs = [run(f"m{m}", every(100, 15 - m), day=[f"2026-0{m}-15"] * 100) for m in range(1, 6)]
    whole = krisis.monitor(certificate, runs).parts[0]
    timed = krisis.monitor(certificate, runs[::-1], time="day").parts[0]
    for n in (1, 3):
        part = krisis.monitor(certificate, runs[:n]).parts[0]
        assert part.looks[-1].log_evidence_broken == whole.looks[n - 1].log_evidence_broken
        early = krisis.monitor(certificate, runs[:n], time="day").parts[0]
        assert early.looks[-1].log_evidence_broken == timed.looks[n - 1].log_evidence_broken


def test_a_patient_counts_once_at_the_first_arrival(certificate: Certificate) -> None:
    first, again = run("new", every(200, 10)), run("new", [1] * 200)
    once = krisis.monitor(certificate, first)
    twice = krisis.monitor(certificate, [first, again])
    assert twice.n_returning_rows == 200
    assert twice.parts == once.parts
    assert "200 rows of patients who had arrived before" in said(twice.document())


def test_abstentions_neither_help_nor_harm(certificate: Certificate) -> None:
    wrong = every(300, 12)
    plain = krisis.monitor(certificate, run("new", wrong)).parts[0]
    mixed = [one for w in wrong for one in (w, 1)]
    left = [one for _ in wrong for one in (False, True)]
    part = krisis.monitor(certificate, run("x", mixed, abstained=left)).parts[0]
    assert (part.n_accepted, part.loss_sum) == (plain.n_accepted, plain.loss_sum)
    assert part.n_patients == 600
    assert part.evidence_broken[1::2].max() == pytest.approx(plain.evidence_broken.max(), abs=0.2)


def test_rows_of_a_patient_are_one_bet(tmp_path: Path) -> None:
    old = krisis.certify(run("old", every(1600, 200), size=4), risk=0.05, rows_per_patient=4)
    assert old.threshold is not None
    # 40 patients whose four rows are all wrong: no more evidence than 40 wrong rows of 40 patients.
    wrong = [int(i // 4 % 10 == 9) for i in range(1600)]
    part = krisis.monitor(old, run("new", wrong, size=4)).parts[0]
    single = krisis.certify(run("one", every(400, 100)), risk=0.05)
    same = krisis.monitor(single, run("new", wrong[::4])).parts[0]
    assert (part.n_patients, part.n_rows) == (400, 1600)
    assert part.evidence_broken == pytest.approx(same.evidence_broken)


def test_groups_share_the_level() -> None:
    old = krisis.certify(run("old", every(1200, 150)), risk=0.05, by=["sex"])
    assert all(part.threshold is not None for part in old.parts)
    wrong = [int(i % 2 == 1 and i % 9 == 0) for i in range(1000)]
    found = krisis.monitor(old, run("new", wrong))
    assert {part.level for part in found.parts} == {0.025}
    assert {part.group: part.state for part in found.parts} == {"sex_f": "broken", "sex_m": "holds"}
    assert found.state == "broken"
    assert "sex f" in said(found.document())


def test_crc_counts_a_patient_as_a_whole_however_many_rows_it_has() -> None:
    counts = {"n_rows": 1, "n_accepted": 1, "lost": 1.0, "most_rows": 4}
    whole = _Counts.of(Promise(0.5, 0.1, whole=True), **counts)
    assert (whole.stake, whole.surplus) == (1.0, pytest.approx(1 - 0.1))
    each = _Counts.of(Promise(0.5, 0.1), **counts)
    assert (each.stake, each.surplus) == (0.25, pytest.approx(0.25 * (1 - 0.1)))


def test_crc_is_followed_on_the_means_of_patients() -> None:
    old = krisis.certify(run("old", every(400, 20), size=2), risk=0.1, method="crc")
    found = krisis.monitor(old, run("new", every(400, 4), size=2))
    assert found.state == "broken"
    assert found.parts[0].risk == pytest.approx(0.25)
    assert "one threshold cannot refute" in said(found.document())


@pytest.mark.parametrize(
    ("new", "options", "sentence"),
    [
        (lambda: run("new", [0] * 50, model="other"), {}, "of the model"),
        (lambda: run("new", [0] * 50, task="other"), {}, "of the task"),
        (lambda: run("old", every(400, 100)), {}, "are those that the certificate was made on"),
        (lambda: run("old", [1] * 20), {}, "20 of the 20 patients"),
        (list, {}, "no new patients are named"),
        (lambda: run("new", [0] * 50), {"time": "nothing"}, "has the time 'nothing'"),
        (
            lambda: run("new", [0] * 2, day=["31/01/2026", "1/2/2026"]),
            {"time": "day"},
            "such as 2026-01-31",
        ),
        (lambda: run("new", [0] * 2, day=["2026-01-31", None]), {"time": "day"}, "1 of 2 rows"),
        (
            lambda: [run("a", [0] * 2, day=[1, 2]), run("b", [0] * 2, day=["2026-01-31"] * 2)],
            {"time": "day"},
            "cannot be put in one order",
        ),
        (lambda: run("new", [0] * 8, size=2), {}, "has 2 rows and at most 1 were declared"),
    ],
)
def test_what_cannot_be_monitored_is_refused_in_a_sentence(
    new: Any, options: dict[str, Any], sentence: str, certificate: Certificate
) -> None:
    with pytest.raises(InvalidValue, match=sentence) as error:
        krisis.monitor(certificate, new(), **options)
    assert "\n" not in str(error.value)


def test_the_command_prints_the_answer_and_exits_1_when_it_is_broken(
    certificate: Certificate, tmp_path: Path
) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(dumps(certificate.to_json()), encoding="utf-8")
    good = run("good", every(400, 200)).save(tmp_path / "good.json")
    bad = run("bad", every(400, 4)).save(tmp_path / "bad.json")
    invoke = CliRunner().invoke
    found = invoke(app, ["monitor", str(path), "--new", str(good)])
    assert found.exit_code == 0
    assert "yes" in found.output
    assert "may stay in use" in found.output
    both = ["monitor", str(path), "--new", str(good), "--new", str(bad)]
    found = invoke(app, both)
    assert found.exit_code == 1
    assert "broken since" in found.output
    assert "certify again" in found.output
    content = json.loads(invoke(app, [*both, "--format", "json"]).output)
    assert content["state"] == "broken"
    assert set(content) == {
        *("kind", "schema_version", "state", "risk_bound", "method", "model", "time"),
        *("n_returning_rows", "groups_not_certified", "parts"),
    }
    assert set(content["parts"][0]) == {
        *("group", "threshold", "state", "level", "n_patients", "n_rows", "n_accepted"),
        *("loss_sum", "risk", "n_to_tell", "n_if_doubled", "alarm", "looks"),
    }
    assert [look["when"] for look in content["parts"][0]["looks"]] == ["good.json", "bad.json"]


def test_the_document_says_it_may_be_looked_at_often_and_draws_the_evidence(
    certificate: Certificate,
) -> None:
    found: Monitoring = krisis.monitor(certificate, run("bad", every(400, 5)))
    text = terminal_text(found.document())
    assert "You may look as often as you like" in text.replace("\n", " ")
    figure = curves.evidence(found, Style())
    assert len(figure.table) == 400
    assert "decisive from 20" in figure.reading
    assert "<svg" in html_fragment(found.document())


def test_verify_says_that_it_is_for_one_look(certificate: Certificate) -> None:
    text = said(krisis.verify(certificate, run("new", every(100, 50))).document())
    assert "This is for one look" in text
    assert "krisis monitor" in text


# --- Simulations -----------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_few_histories_at_the_bound_are_called_broken(world: str) -> None:
    n = 400
    false = float(np.isfinite(first_alarms(world, n=n, looks=600)).mean())
    assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_false_alarms_stay_below_5_percent_over_2000_looks(world: str) -> None:
    assert float(np.isfinite(first_alarms(world, n=4000)).mean()) <= 0.05


@pytest.mark.slow
def test_a_doubled_risk_is_found_within_three_times_the_patients_of_the_best_single_look() -> None:
    delay = first_alarms("independent", risk=2 * BOUND, n=2000, looks=4000)
    assert np.quantile(delay, 0.8) < 2.5 * one_look_size(2 * BOUND, 0.8)
    assert np.quantile(delay, 0.5) < 3 * one_look_size(2 * BOUND, 0.5)
    late = first_alarms("independent", risk=2 * BOUND, n=2000, looks=4000, change=1000)
    assert np.quantile(late[late > 0], 0.5) < 400


@pytest.mark.slow
def test_verify_looked_at_monthly_errs_as_often_as_its_page_says() -> None:
    assert verified_monthly(1) < 0.025
    assert 0.09 < verified_monthly(36) < 0.15


def test_the_module_names_what_a_decision_may_err() -> None:
    assert pytest.approx(20) == math.exp(sequential.LOG_DECISIVE)
