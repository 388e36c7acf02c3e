"""A real language model on this machine scores the items of one participant."""

from __future__ import annotations

import pytest

from krisis.backends.local import find_model_file
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import UserError

pytestmark = pytest.mark.slow


def test_a_local_model_gives_every_item_its_own_token_signals() -> None:
    local = pytest.importorskip("krisis.backends.local")
    try:
        find_model_file("smollm2")
    except UserError as error:
        pytest.skip(str(error))
    suite = PHQ8Suite(SuiteConfig(n_synthetic=2))
    result = Benchmark(suite, local.LocalBackend("smollm2")).run(suite.load()[:8])
    rows = result.evaluation_results
    assert len(rows) == 8
    assert not any(row.error for row in rows)
    answered = [row for row in rows if not row.abstained]
    for row in answered:
        assert 0 < row.signals["token_msp"] <= 1
        assert row.signals["token_pe"] >= 0
        assert row.signals["llm_evidence_count"] + row.signals["n_quotes_not_found"] <= 2
    assert len({row.signals["token_msp"] for row in answered}) == len(answered)
