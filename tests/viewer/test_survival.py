"""The viewer outlives 200 requests for runs with hostile names, absurd sizes and damage."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.hostile_names import NASTY, hostile_run
from tests.invented_runs import (
    edit_run,
    forge_description,
    forge_run,
    invented_rows,
    result_of,
    write_run,
)

from krisis.viewer.app import PAGES, WITH_CHARTS
from krisis.viewer.entries import found_in

HUGE = 2**62


def hostile_folder(folder: Path) -> None:
    """Fill a folder with runs as strangers would edit them, sealed again unless said."""
    hostile_run(folder, "a-names")
    hostile_run(folder, "b-names", seed=1)
    hostile_run(folder, NASTY.replace("\x00", "").replace("/", ""))
    huge = hostile_run(folder, "c-sizes")
    forge_run(huge, "rows", "position % 4 = 0", confidence=1e308, input_tokens=HUGE)
    forge_run(huge, "rows", "position % 4 = 1", latency_seconds=1e300, total_tokens=-HUGE)
    forge_run(huge, "rows", "position % 4 = 2", prediction="x" * 100_000, model="y" * 100_000)
    forge_run(huge, "cases", "position % 5 = 0", record_id="z" * 100_000, metadata="[" * 5_000)
    many = write_run(folder / "d-many", result_of(invented_rows(40), "many"))
    forge_description(many, backend_name="m" * 100_000, created_at=NASTY)
    damaged = write_run(folder / "e-damaged", result_of(invented_rows(40), "damaged"))
    edit_run(damaged, "UPDATE rows SET confidence = 0.123 WHERE position % 3 = 0")  # not sealed
    cut = write_run(folder / "f-cut", result_of(invented_rows(40), "cut"))
    cut.write_bytes(cut.read_bytes()[:9_000])
    (folder / "g-empty.krisis").write_bytes(b"")
    (folder / "h-text.krisis").write_text(NASTY)


def addresses(names: list[str]) -> Iterator[str]:
    """Return every page of every run, its twin and its charts, then odd queries."""
    for name, path in product(names, PAGES):
        run, other = quote(name, safe=""), quote(names[(names.index(name) + 1) % len(names)])
        page = path.replace("{run}", run).replace("{position:int}", "3")
        query = f"?run={run}&run={other}" if page.startswith("/compare") else ""
        yield f"{page}{query}"
        yield f"{page.rstrip('/') or '/index'}.json{query}"
        if path in WITH_CHARTS:
            yield f"{page.rstrip('/')}/charts/reliability.png{query}"
    odd = ["%00", quote(NASTY), "9" * 400, "%FF%FE", "x" * 5_000, "-1", "NaN", "../../etc/passwd"]
    for value, key in product(odd, ("q", "sort", "page", "outcome", "threshold", "metric")):
        yield f"/runs/a-names/cases?{key}={value}"
    for value in odd:
        yield f"/runs/{quote(value, safe='%')}"
        yield f"/runs/a-names/cases/{quote(value, safe='%')}"
        yield f"/?metric={value}&save=1"


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Return `krisis view` over the folder, as a process of its own, and its port."""
    hostile_folder(tmp_path)
    words = ["view", str(tmp_path), "--port", "0", "--no-browser", "--no-token"]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "krisis", *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert port is not None
        yield process, int(port[1])
        process.terminate()
        process.communicate(timeout=60)


def test_the_viewer_survives_two_hundred_hostile_requests(
    viewer: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, port = viewer
    asked = list(dict.fromkeys(addresses(list(found_in(tmp_path)))))
    assert len(asked) >= 200
    failed: list[tuple[int, str]] = []
    for address in asked:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", address)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status >= 500 or (answer.status == 200 and not body):
            failed.append((answer.status, address[:120]))
        if "html" in (answer.getheader("content-type") or ""):
            assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", body), address
    assert failed == []
    assert process.poll() is None
    assert "\x1b" not in (tmp_path / "errors").read_text()
