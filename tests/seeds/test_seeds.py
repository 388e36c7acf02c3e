"""krisis does what the seeds define: vectors of another implementation, and live random inputs.

Every check is shown to fail where krisis is made to violate it (`violations.py`).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.seeds import checks, make, shapes
from tests.seeds import reference as ref
from tests.seeds.violations import VIOLATIONS, Violation

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("name", checks.CHECKS)
def test_krisis_agrees_with_the_reference_on(name: str, tmp_path: Path) -> None:
    checks.CHECKS[name](tmp_path)


@pytest.mark.parametrize(
    "violation", VIOLATIONS, ids=[f"{one.caught_by}: {one.words}" for one in VIOLATIONS]
)
def test_a_violation_is_caught(
    violation: Violation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    violation.plant(monkeypatch, tmp_path)
    with pytest.raises(AssertionError) as caught:
        checks.CHECKS[violation.caught_by](tmp_path)
    # It is the check that has seen it, not an assertion of krisis itself.
    assert caught.traceback[-1].path in (Path(checks.__file__), Path(shapes.__file__))


def test_every_check_has_a_violation_that_it_catches() -> None:
    assert {one.caught_by for one in VIOLATIONS} == set(checks.CHECKS)


def test_the_vectors_are_those_of_the_reference() -> None:
    for name, text in make.contents().items():
        assert (make.FOLDER / name).read_text(encoding="utf-8") == text, name


@given(SEEDS, st.integers(1, 40), st.sampled_from(list(make.LABELS)))
def test_the_eight_metrics_of_any_rows(seed: int, n: int, task: str) -> None:
    rng = random.Random(seed)
    rows = make.rows(rng, n, task)
    for row in rows:  # answers that no task allows
        if not row["abstained"] and rng.random() < 0.1:
            row["prediction"] = rng.choice([2, 1.5, "x", 0.0, True, "1.5", -1])
    checks.scores_agree(rows, ref.metric_scores(rows))


@given(SEEDS, st.integers(1, 6), st.sampled_from(["abs", "abs_norm"]))
def test_the_curves_of_any_items(seed: int, n: int, loss: str) -> None:
    items = make.items(random.Random(seed), n)
    checks.curves_agree(items, loss, ref.curve_figures(items, loss))


@given(st.floats(0.2, 20), st.integers(18, 100), st.booleans())
def test_the_equation_for_any_adult(creatinine: float, age: int, female: bool) -> None:
    found = float(checks.egfr.ckd_epi_2021(creatinine, age, female=female))
    checks.agree(found, ref.egfr(creatinine, age, female=female))


@given(SEEDS, st.sampled_from(ref.VARIANTS))
def test_the_confidence_of_any_item(
    tmp_path_factory: pytest.TempPathFactory, seed: int, variant: str
) -> None:
    signals = make.signals(random.Random(seed))
    found = checks.confidence_of(tmp_path_factory.mktemp("items"), signals, variant)
    checks.agree(found, ref.confidence(variant, signals), variant)
