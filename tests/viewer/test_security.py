"""The viewer answers this machine, this site, and reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import invented_rows, result_of, write_run
from tests.viewer.conftest import Site

from krisis.viewer.security import Guard

PATHS = ["/", "/index.json", "/runs/run", "/runs/run/cases", "/static/viewer.js", "/nowhere"]


@pytest.fixture(scope="module")
def site(serve: Callable[[Path], Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run", result_of(invented_rows(20)))
    secret = tmp_path_factory.mktemp("elsewhere")
    write_run(secret / "secret", result_of(invented_rows(20), "secret/model"))
    (folder / "link").symlink_to(secret / "secret")
    return serve(folder)


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_name_is_refused(site: Site, path: str) -> None:
    assert site.get(path, Host="evil.example").status == 403
    assert site.get(path, Host="127.0.0.1.evil.example:80").status == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_the_names_of_this_machine_are_served(site: Site, host: str) -> None:
    assert site.get("/", Host=f"{host}:{site.port}").status == 200


def test_a_foreign_origin_is_refused_and_the_own_one_served(site: Site) -> None:
    assert site.get("/index.json", Origin="http://evil.example").status == 403
    assert site.get("/index.json", Origin="null").status == 403
    assert site.get("/index.json", Origin="http://[").status == 403
    assert site.get("/index.json", Origin=f"http://127.0.0.1:{site.port + 1}").status == 403
    assert site.get("/index.json", Origin=site.address).status == 200
    assert (
        site.get("/index.json", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_possible(site: Site, method: str) -> None:
    assert site.get("/", method=method).status == 405


@pytest.mark.parametrize(("method", "expected"), [("GET", 200), ("HEAD", 200), ("POST", 405)])
def test_the_guard_lets_only_reading_through_whatever_the_pages_would_do(
    method: str, expected: int
) -> None:
    sent: list[dict[str, Any]] = []

    async def obliging(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "headers": [(b"host", b"127.0.0.1:8000")]}
    asyncio.run(Guard(obliging)(scope, None, send))
    assert sent[0]["status"] == expected


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_carries_the_policy(site: Site, path: str) -> None:
    headers = site.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_link_that_leaves_the_folder_is_not_followed(site: Site) -> None:
    assert site.get("/runs/link").status == 404
    assert "secret/model" not in site.get("/").text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/runs/%2e%2e/cases"],
)
def test_no_path_leads_out_of_the_run_folder(site: Site, path: str) -> None:
    assert site.get(path).status == 404
