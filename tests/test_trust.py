"""What a stranger sent is data: no name in it is executed, no address asked, no link followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.invented_runs import invented_rows, result_of

from krisis import registry
from krisis.errors import UnknownName
from krisis.metrics.scoring import metric_from_name, registered_metrics
from krisis.results.base import BenchmarkResult

PAYLOAD = """
from pathlib import Path
from krisis.metrics import Accuracy
Path({canary!r}).write_text("executed")
class X(Accuracy):
    key = {key!r}
"""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return the file that the stranger's code writes once it is executed."""
    return tmp_path / "canary"


@pytest.fixture
def payload(tmp_path: Path, canary: Path) -> str:
    """Write code of a stranger and return its place."""
    file = tmp_path / "payload_of_stranger.py"
    place = f"{file}:X"
    file.write_text(PAYLOAD.format(canary=str(canary), key=place))
    return place


def test_a_place_is_no_registered_name(payload: str, canary: Path) -> None:
    with pytest.raises(UnknownName):
        registry.find("metrics", payload)
    assert not canary.exists()
    assert metric_from_name(payload).key == payload  # the user typed it
    assert canary.exists()


@pytest.mark.parametrize("form", ["{}", "{} ", " {}", "{}[n=1]", "\t{}\n"])
def test_a_place_in_a_list_of_stored_names_is_left_out(
    form: str, payload: str, canary: Path
) -> None:
    assert registered_metrics([form.format(payload)]) == []
    assert not canary.exists()


def test_comparing_executes_no_code_that_a_result_names(
    payload: str, canary: Path, tmp_path: Path
) -> None:
    for name in ("evil", "good"):
        content = result_of(invented_rows(40), name).to_dict()
        content["metric_scores"]["Accuracy"]["key"] = payload
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    done = krisis("compare", "evil.json", "good.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "its class is not installed here" in " ".join(done.stdout.split())
    assert not canary.exists()
    assert BenchmarkResult.load(tmp_path / "evil.json").metric_scores["Accuracy"].key == payload
