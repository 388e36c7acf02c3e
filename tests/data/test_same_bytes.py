"""Same seed, same bytes: every suite × task gives the records and prompts that it gave before.

A change that means to alter what is asked writes the hashes anew:
``KRISIS_WRITE_HASHES=1 pytest tests/data/test_same_bytes.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.data.base import BaseDataSuite, SuiteConfig, content_hash, records_hash
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import uci_text
from krisis.data.instructions import Instructions
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.support2.suite import OUTCOMES, Support2Suite

KNOWN = Path(__file__).with_suffix(".json")
FILE = "FILE"  # stands for a file in UCI columns

CASES: list[tuple[type[BaseDataSuite], dict[str, Any], dict[str, Any]]] = [
    *((CKDSuite, {"task": task}, {}) for task in CKDSuite.tasks),
    (CKDSuite, {"task": "detection", "features": "full"}, {"impute": "median"}),
    (CKDSuite, {"task": "staging"}, {"split_stage_3": True, "measured_gfr": True}),
    *(
        (CKDSuite, {"task": task, "n_synthetic": n}, {"data_path": FILE, **options})
        for task in ("detection", "staging")
        for n, options in ((20, {}), (20, {"preset": "v0.1"}), (0, {"sex": "engineered"}))
    ),
    *((PHQ8Suite, {}, {"mode": mode}) for mode in ("zero_shot", "few_shot")),
    (PHQ8Suite, {}, {"cohort": "clinic"}),
    (DiabetesSuite, {}, {}),
    *((Support2Suite, {"task": task}, {}) for task in OUTCOMES),
]


def name_of(kind: type[BaseDataSuite], choices: dict[str, Any], options: dict[str, Any]) -> str:
    return " ".join([kind.name, *(f"{n}={v}" for n, v in {**choices, **options}.items())])


def hashes(suite: BaseDataSuite) -> dict[str, str]:
    """Return the hashes of 200 records, the prompts of the first 20, and 200 to fit on."""
    records, task = suite.load()[:200], suite.task
    prompts = [
        build_prompt(task, [record.features], context=record.context, asking=Asking(instructions=i))
        for record in records[:20]
        for i in Instructions
    ]
    return {
        "records": records_hash(records),
        "prompts": content_hash([[one.system, one.user] for one in prompts]),
        "training": records_hash(suite.training_records()[:200]),
    }


@pytest.mark.usefixtures("made_up_support2")
@pytest.mark.parametrize(
    ("kind", "choices", "options"), CASES, ids=[name_of(*case) for case in CASES]
)
def test_records_and_prompts_are_those_of_the_version_before(
    kind: Any, choices: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    name = name_of(kind, choices, options)
    if options.get("data_path") == FILE:
        path = tmp_path / "uci.csv"
        path.write_text(uci_text(draw_cohort(300, seed=8)))
        options = {**options, "data_path": path}
    found = hashes(kind(SuiteConfig(**choices), **options))
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    if os.environ.get("KRISIS_WRITE_HASHES"):
        KNOWN.write_text(json.dumps({**known, name: found}, indent=1) + "\n", encoding="utf-8")
    else:
        assert found == known[name]
