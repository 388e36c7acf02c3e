"""`show --deferral seed`: the flags of the first version score a run without asking again."""

from __future__ import annotations

import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.ckd.suite import CKDSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import InvalidValue
from krisis.metrics import BootstrapOptions, default_benchmark_metrics
from krisis.results.report import format_report
from krisis.results.seed_deferral import SEED_FLAGS, scored_by_flags

METRICS, OPTIONS = default_benchmark_metrics(("right_decisions",)), BootstrapOptions()


@pytest.mark.parametrize("task", ["detection", "progression"])
def test_the_flags_become_the_label_and_the_run_stays_as_it_is(task: str) -> None:
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=60))
    run = Benchmark(suite, backend_from_name("guideline")).run()
    before = [dict(row.metadata) for row in run.evaluation_results]
    again = scored_by_flags(run, METRICS, OPTIONS)
    for row in again.evaluation_results:
        named = [flag for flag in SEED_FLAGS if row.metadata[flag]]
        assert row.metadata["should_abstain"] is bool(named)
        assert row.metadata["abstain_reasons"] == named
    due = [row.metadata["should_abstain"] for row in again.evaluation_results]
    assert 0 < sum(due) < 60
    assert due != [row["should_abstain"] for row in before]
    confusion = again.metric_scores["deferral_alignment"].details["confusion"]
    assert confusion["defer_when_needed"] + confusion["answer_when_should_defer"] == sum(due)
    assert [dict(row.metadata) for row in run.evaluation_results] == before
    text = format_report(again)
    assert "the flags of the first version" in " ".join(text.split())
    assert "Beside the baselines" not in text  # they were scored by another label


def test_a_run_without_the_flags_is_refused() -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=5))
    run = Benchmark(suite, backend_from_name("lexicon")).run()
    with pytest.raises(InvalidValue, match="has no flag near_threshold"):
        scored_by_flags(run, METRICS, OPTIONS)
