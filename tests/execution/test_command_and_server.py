"""The command line against a real server, from the first call to the last token."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import krisis

from krisis.runs.load import list_runs, load_run


@pytest.fixture
def words(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that makes the words of a small run at an address."""

    def make(base_url: str, *more: str) -> list[str]:
        return [
            *("run", "ckd", "--model", "openai/parity-1", "--base-url", base_url),
            *("--limit", "24", "--batch-size", "4", "--display", "none", "--no-baselines"),
            *("--cache-path", str(tmp_path / "replies.sqlite"), *more),
        ]

    return make


def test_a_budget_stops_a_run_and_a_larger_one_finishes_it(
    tmp_path: Path, loopback: Any, words: Any, no_key_in: Callable[..., None]
) -> None:
    server = loopback()
    sixty = words(server.base_url, "--limit", "60")
    code, _, err = krisis(*sixty, "--max-tokens", "800", "--output", "other", cwd=tmp_path)
    assert code == 1  # nothing is known of its tokens yet, and it has more bytes than that
    assert re.search(r"the next call may take [\d,]+ tokens and could exceed the budget", err)
    code, out, err = krisis(*sixty, "--max-tokens", "5000", cwd=tmp_path)
    assert code == 0, err
    (run,) = list_runs(tmp_path / "runs")
    assert "60 loaded" in out
    assert f"krisis resume runs/{run.name}" in err
    n_first = len(load_run(run).evaluation_results)
    assert 20 <= n_first < 60
    code, again, errors = krisis("resume", str(run), "--max-tokens", "100000", cwd=tmp_path)
    assert (code, errors) == (0, "")
    result = load_run(run)
    assert len(result.evaluation_results) == 60
    assert result.extras["n_api_calls"] == 15 == sum(server.counts()["kinds"].values())
    no_key_in(tmp_path, out, err, again)


def test_the_same_run_again_pays_nothing(tmp_path: Path, loopback: Any, words: Any) -> None:
    server = loopback()
    for _ in range(2):
        assert krisis(*words(server.base_url), cwd=tmp_path)[0] == 0
    first, second = (load_run(run) for run in reversed(list_runs(tmp_path / "runs")))
    assert sum(server.counts()["kinds"].values()) == 6 == first.extras["n_api_calls"]
    assert (second.extras["n_api_calls"], second.extras["n_cache_hits"]) == (0, 6)
    assert first.evaluation_results == second.evaluation_results


def test_a_refused_key_is_one_sentence_with_its_remedy(
    tmp_path: Path, loopback: Any, words: Any, no_key_in: Callable[..., None]
) -> None:
    server = loopback(key="another")
    code, out, err = krisis(*words(server.base_url), cwd=tmp_path)
    assert code == 1
    assert err.count("\n") == 1
    assert "check the key" in err
    assert "Accuracy" not in out
    no_key_in(tmp_path, out, err)


def test_a_cost_bound_needs_a_price_and_the_estimate_shows_it(
    tmp_path: Path, loopback: Any, words: Any
) -> None:
    server = loopback(input_tokens=500)
    code, _, err = krisis(*words(server.base_url, "--max-cost", "1"), cwd=tmp_path)
    assert code == 2
    assert "--prices" in err
    (tmp_path / "prices.yaml").write_text("'openai/*': {input: 1000, output: 1000}\n")
    priced = words(server.base_url, "--limit", "60", "--prices", "prices.yaml")
    code, out, _ = krisis(*priced, "--dry-run", cwd=tmp_path)
    assert "cost           $" in out
    assert server.counts()["kinds"] == {}
    code, out, err = krisis(*priced, "--max-cost", "0.01", cwd=tmp_path)
    assert code == 1
    assert "60 records left" in err
    assert err.count("\n") == 1
    (run,) = list_runs(tmp_path / "runs")
    code, out, err = krisis("resume", str(run), "--max-cost", "5", cwd=tmp_path)
    assert code == 0, err
    assert "max_cost 5" in err
    result = load_run(run)
    assert 0 < len(result.evaluation_results) < 60
    assert 0 < result.extras["cost"] <= 5.0


def test_repeats_are_told_apart_by_the_cache_and_kept_together_by_cluster(
    tmp_path: Path, loopback: Any, words: Any
) -> None:
    server = loopback()
    code, _, err = krisis(*words(server.base_url, "--repeats", "3"), cwd=tmp_path)
    assert code == 0, err
    (run,) = list_runs(tmp_path / "runs")
    result = load_run(run)
    assert len(result.evaluation_results) == 72
    assert len({row.cluster_id for row in result.evaluation_results}) == 24
    assert result.extras["n_api_calls"] == 18
    assert result.extras["agreement"] == {
        "n_records": 24,
        "mean_agreement": 1.0,
        "n_unanimous": 24,
    }


def test_a_bad_label_of_the_last_of_a_hundred_records_costs_no_request(
    tmp_path: Path, loopback: Any, words: Any
) -> None:
    (tmp_path / "hundred_suite.py").write_text(
        "from krisis import BaseDataSuite, PatientRecord, Task\n"
        "class Hundred(BaseDataSuite):\n"
        "    tasks = {'odd': Task('odd', 'Is it odd?', {0: 'no', 1: 'yes'})}\n"
        "    def load(self):\n"
        "        due = [False] * 99 + ['yes']\n"
        "        return [PatientRecord({'serial marker': i}, i % 2, {'should_abstain': due[i]}, "
        "f'p{i}')\n"
        "                for i in range(100)]\n"
    )
    server = loopback()
    asked = words(server.base_url, "--limit", "100")
    asked[1] = "hundred_suite.py:Hundred"
    code, out, err = krisis(*asked, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err == (
        "krisis: record 'p99': metadata['should_abstain'] must be True or False, not 'yes'\n"
    )
    assert server.counts()["kinds"] == {}
    assert not (tmp_path / "runs").exists()
