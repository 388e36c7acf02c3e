"""One run costs the same in its scores, in decide and in the viewer, also at another price."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.invented_runs import write_run
from tests.viewer.conftest import Site

import krisis
from krisis.data.base import SuiteConfig
from krisis.registry import find
from krisis.verbs.decide.policies import Decision


def as_run(decision: object) -> float:
    """Return what a run costs as it is."""
    assert isinstance(decision, Decision)
    (found,) = [one.cost for one in decision.policies if one.kind == "as run"]
    return found


def test_decide_show_and_the_viewer_give_one_cost(
    serve: Callable[[Path], Site], tmp_path: Path
) -> None:
    suite = find("suites", "ckd")(SuiteConfig(n_synthetic=60, seed=3))
    path = write_run(tmp_path / "runs" / "r", krisis.run(suite, "guideline"))
    cost = krisis.score(path).metric_scores["Decision Cost"].value
    assert as_run(krisis.decide(path)) == pytest.approx(cost, abs=1e-12)
    site = serve(path.parent)
    shown = site.get("/runs/r/decide.json").json["costs"]["policies"]
    assert shown[0]["name"] == "as run"
    assert shown[0]["cost"] == pytest.approx(cost, abs=1e-12)
    report = krisis.report(path, tmp_path / "r.html", decide=True)
    tables = [part for part in report.document.sections if part.key == "costs"]
    assert len(tables) == 1
    cheaper = krisis.score(path, price=0.05).metric_scores["Decision Cost"].value
    assert cheaper != cost
    assert as_run(krisis.decide(path, price=0.05)) == pytest.approx(cheaper, abs=1e-12)
    shown = site.get("/runs/r/decide.json?price=0.05").json["costs"]["policies"]
    assert shown[0]["cost"] == pytest.approx(cheaper, abs=1e-12)
