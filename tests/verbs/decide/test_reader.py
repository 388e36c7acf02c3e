"""A model and a reader on the same cases: each alone, together, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import krisis
from tests.documents import said
from tests.invented_runs import result_of

from krisis.decisions.run_sample import ScoreOptions
from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems, Source
from krisis.results.run_items import items_of_result
from krisis.verbs.decide.reader import ReaderDecision, decide_with_reader


def items(answers: Any, truths: Any, confidence: Any, *, names: Any = None) -> RunItems:
    """Return a run; an answer of None is an abstention."""
    names = range(len(answers)) if names is None else names
    rows = Rows(
        EvaluationResult(
            None if said is None else int(said),
            int(truth),
            said is None,
            None if said is None else float(sure),
            record_id=f"r{name}",
            cluster_id=f"p{name}",
        )
        for said, truth, sure, name in zip(answers, truths, confidence, names, strict=True)
    )
    return items_of_result(result_of(rows), Source("run", model="m"))


def decided(model: RunItems, reader: RunItems, **options: Any) -> ReaderDecision:
    return decide_with_reader(model, reader, ScoreOptions(seed=1), **options)


def world(n: int = 600, seed: int = 0) -> tuple[RunItems, RunItems]:
    """Return a model that is right where it is sure, and a reader who is right in 80 %."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    sure = rng.uniform(0.5, 1.0, n)
    right = rng.random(n) < np.where(sure > 0.75, 0.98, 0.55)
    model = items(np.where(right, truth, 1 - truth), truth, sure)
    read = rng.random(n) < 0.8
    return model, items(np.where(read, truth, 1 - truth), truth, np.full(n, 0.8))


def test_a_threshold_that_is_given_counts_by_hand() -> None:
    truth = [1, 1, 0, 0, 1, 0]
    model = items([1, 0, 0, 1, None, 0], truth, [0.9, 0.9, 0.6, 0.6, 0, 0.9])
    reader = items([1, 1, 1, 0, 1, 1], truth, [0.7] * 6)
    found = decided(model, reader, answer_from=0.8)
    alone, read, team = found.ways
    per = 1000 / 6
    assert [alone.wrong.value, alone.no_answer.value] == pytest.approx([2 * per, per])
    assert read.wrong.value == pytest.approx(2 * per)
    # The model answers r0 (right), r1 (wrong) and r5 (right); the reader r2 (wrong), r3, r4.
    assert team.wrong.value == pytest.approx(2 * per)
    assert [team.read.value, team.no_answer.value] == pytest.approx([3 * per, 0])
    assert found.beyond_reader.value == pytest.approx(0)
    assert "the team has an answer where the model has none" in said(found.document())


def test_a_team_of_a_model_that_knows_when_it_is_right_beats_both() -> None:
    found = decided(*world())
    alone, reader, team = (way.wrong for way in found.ways)
    assert team.value < min(alone.value, reader.value)
    assert found.beyond_model.high < 0
    assert found.beyond_reader.high < 0
    assert found.threshold == pytest.approx(0.75, abs=0.05)
    assert found.beyond_reader.value == pytest.approx(team.value - reader.value)
    for way in found.ways:
        assert way.wrong.low <= way.wrong.value <= way.wrong.high
    assert found == decided(*world())


def test_a_confidence_that_says_nothing_earns_nothing_by_choosing_its_threshold() -> None:
    """Cross-fitted, a useless model does not seem to help the reader."""
    gains = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, 60)
        model = items(rng.integers(0, 2, 60), truth, rng.random(60))
        right = rng.random(60) < 0.75
        reader = items(np.where(right, truth, 1 - truth), truth, np.full(60, 0.7))
        gains.append(decided(model, reader).beyond_reader.value)
    assert np.mean(gains) >= 0


def test_pairs_use_the_common_cases_in_any_order() -> None:
    model, _ = world(200)
    rng = np.random.default_rng(3)
    truth = {row.record_id: row.ground_truth for row in model.table.rows}
    names = rng.permutation(200)[:80]
    answers = [truth[f"r{name}"] for name in names]
    reader = items(answers, answers, np.full(80, 0.9), names=names)
    found = decided(model, reader)
    assert (found.n_common, found.n_model, found.n_reader) == (80, 200, 80)
    assert found.ways[1].wrong.value == 0
    assert "read 80 of the 200 cases of the model" in said(found.document())


def test_runs_of_other_cases_or_other_truths_are_refused() -> None:
    model, reader = world(20)
    other = items([1] * 20, [1] * 20, [0.9] * 20, names=range(100, 120))
    with pytest.raises(InvalidValue, match="shares no record_id"):
        decided(model, other)
    truths = [1 - int(row.ground_truth) for row in reader.table.rows]
    names = [row.record_id[1:] for row in reader.table.rows]
    with pytest.raises(InvalidValue, match="another true answer"):
        decided(model, items([1] * 20, truths, [0.9] * 20, names=names))


@pytest.fixture
def two_runs(made_up_support2: None, tmp_path: Path) -> dict[str, str]:
    found = {}
    for model in ("reader/support-model", "physician"):
        words = (
            "run",
            "support2",
            "--model",
            model,
            "--no-baselines",
            "--output",
            f"runs-{model[:4]}",
        )
        assert krisis(*words, cwd=tmp_path).returncode == 0
        (run,) = (tmp_path / f"runs-{model[:4]}").iterdir()
        found[model] = str(run)
    return found


def test_the_command_prints_model_reader_and_team(two_runs: dict[str, str], tmp_path: Path) -> None:
    model, physician = two_runs.values()
    done = krisis("decide", model, "--reader", physician, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("model alone", "reader alone", "model with reader", "of the 48 cases"):
        assert words in done.stdout
    done = krisis("decide", model, "--reader", physician, "--format", "json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    assert [way["name"] for way in facts["ways"]] == [
        "model alone",
        "reader alone",
        "model with reader",
    ]
    assert facts["n_common"] < facts["n_model"] == 48


def test_options_that_do_not_apply_are_refused(two_runs: dict[str, str], tmp_path: Path) -> None:
    model, physician = two_runs.values()
    for words in (("--curve",), ("--prevalence", "0.2"), ("--reader-accuracy", "0.9")):
        done = krisis("decide", model, "--reader", physician, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{words[0]} does not apply to it" in done.stderr
