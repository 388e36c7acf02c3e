"""A small clinic in a CSV file and its YAML, which tests change in one place at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from krisis import SuiteConfig
from krisis.data.table.suite import TableSuite

CSV = """visit,patient,part,age,sex,glucose,hba1c,dm,note,site
v01,007,train,45,F,92,5.2,0,Routine visit,A
v02,008,test,61,M,-9,6.6,1,Tired and thirsty,A
v03,009,test,38,F,88,5.1,0,Check-up,B
v04,010,test,70,M,180,8.1,1,Blurred vision,B
v05,011,train,52,F,130,6.3,0,Numb feet,A
v06,012,train,66,M,210,9.0,1,Weight loss,B
v07,013,test,29,M,1700,4.9,0,Sports certificate,A
v08,014,test,58,F,121,6.45,0,Follow-up,B
"""
CLINIC: dict[str, Any] = {
    "suite": "table",
    "name": "clinic",
    "source": "p.csv",
    "record_id": "visit",
    "cluster": "patient",
    "split": {"column": "part", "use": "test", "train": ["train"]},
    "tasks": {
        "screening": {
            "question": "Does this patient have diabetes?",
            "label": {"column": "dm"},
            "answers": {0: "no diabetes", 1: "diabetes"},
            "deferral": {"when": {"glucose_missing": "glucose is null"}},
            "uncertainty": {"value": "hba1c", "cv": 0.03, "limits": [6.5], "risk": 0.2},
            "features": ["age", "sex", "glucose", "hba1c", "note"],
        }
    },
    "features": {
        "glucose": {
            "label": "Plasma glucose",
            "unit": "mg/dL",
            "plausible": [20, 1500],
            "missing": [-9, ""],
        },
        "note": {"label": "Letter", "text": True},
    },
    "groups": ["sex", "site"],
    "baselines": {"logistic": True, "rule": {1: "glucose >= 126", "defer": "glucose is null"}},
    "provenance": {"source": "invented", "licence": "CC0"},
}
Change = Callable[[dict[str, Any]], object]


class Clinic:
    """Writes the files of a suite and makes the suite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(
        self, change: Change | None = None, data: str | bytes | None = CSV, name: str = "p.csv"
    ) -> Path:
        content = copy.deepcopy(CLINIC)
        if change is not None:
            change(content)
        if data is not None:
            raw = data if isinstance(data, bytes) else data.encode()
            (self.folder / name).write_bytes(raw)
        path = self.folder / "clinic.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def suite(
        self,
        change: Change | None = None,
        data: str | bytes | None = CSV,
        name: str = "p.csv",
        **config: Any,
    ) -> TableSuite:
        return TableSuite(self.write(change, data, name), SuiteConfig(**config))


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


def task_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return the one task of the file, to be changed."""
    task: dict[str, Any] = content["tasks"]["screening"]
    return task
