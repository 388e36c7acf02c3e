"""The viewer answers this machine, this site, who has the token, and reads only."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from tests.invented_runs import invented_rows, result_of, write_run
from tests.viewer.conftest import Site, example, payload_run

from krisis.viewer import app
from krisis.viewer.security import Guard

PATHS = ["/", "/index.json", "/runs/run", "/runs/run/cases", "/static/viewer.js", "/nowhere"]


@pytest.fixture(scope="module")
def site(serve: Callable[[Path], Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run", result_of(invented_rows(20)))
    secret = tmp_path_factory.mktemp("elsewhere")
    write_run(secret / "secret", result_of(invented_rows(20), "secret/model"))
    (folder / "link.krisis").symlink_to(secret / "secret.krisis")
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

    def refuse(scope: Any, status: int, sentence: str) -> Any:
        return PlainTextResponse(sentence, status)

    scope = {
        "type": "http",
        "method": method,
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8000")],
    }
    asyncio.run(Guard(obliging, refuse)(scope, None, send))
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


class Tags(HTMLParser):
    """Every tag of a page with its attributes, read as a browser would."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def hostile(serve: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Serve runs that say hostile things, and runs that lead elsewhere by links."""
    folder, secret = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("elsewhere")
    run = payload_run(500)
    write_run(folder / "run-a", run)
    write_run(folder / "run-b", run)
    write_run(secret / "secret", result_of(invented_rows(20), "secret/model"))
    (folder / "link.krisis").symlink_to(secret / "secret.krisis")
    (folder / "folder.krisis").symlink_to(secret)
    write_run(folder / "inner", result_of(invented_rows(20)))
    (folder / "inner.krisis-wal").symlink_to(secret / "secret.krisis")
    (folder / "loop.krisis").symlink_to(folder / "loop.krisis")
    return serve(folder)


@pytest.mark.parametrize(
    "path", [*app.PAGES, "/?text=%3Cimg%20src=x%3E%22onfocus=1", "/runs/%3Cimg%20src=x%3E%22on=1"]
)
def test_no_page_hands_on_what_a_model_wrote_as_markup(hostile: Site, path: str) -> None:
    page = hostile.get(example(path, "run-a", "run-b"))
    assert page.status == (404 if "img" in path and "runs" in path else 200)
    seen = Tags()
    seen.feed(page.text)
    assert len(seen.found) > 20
    assert "\u202e" not in page.text
    for tag, attributes in seen.found:
        assert tag not in ("img", "iframe", "textarea", "style", "object", "embed")
        assert tag != "script" or attributes["src"].startswith("/static/")
        assert not any(name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").lower().startswith(("javascript", "//", "http"))


@pytest.mark.parametrize("path", [path for path in app.PAGES if "{run}" in path])
@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..%2fetc", "link", "folder", "inner", "loop", "%00"]
)
def test_no_name_of_a_run_leads_to_files_elsewhere(hostile: Site, path: str, name: str) -> None:
    answer = hostile.get(example(path, name, "run-b"))
    assert answer.status in (200, 400, 404)
    assert "secret/model" not in answer.text
    assert "case-0000" not in answer.text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/runs/%2e%2e/cases"],
)
def test_no_path_leads_out_of_the_run_folder(site: Site, path: str) -> None:
    assert site.get(path).status == 404


TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run", result_of(invented_rows(20), "model/x"))
    return serve(folder, TOKEN)


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("/static")])
@pytest.mark.parametrize("credentials", ["", f"?token={TOKEN[:-1]}", "?token=", "?token=%ff"])
def test_without_the_token_no_page_says_anything_of_a_run(
    guarded: Site, path: str, credentials: str
) -> None:
    answer = guarded.get(path + credentials)
    assert answer.status == 403
    assert "the terminal shows" in answer.text
    assert "model/x" not in answer.text
    assert "set-cookie" not in answer.headers


def test_the_first_visit_gets_a_cookie_and_an_address_without_the_token(guarded: Site) -> None:
    first = guarded.get(f"/runs/run/cases?outcome=answered&token={TOKEN}&page=1")
    assert first.status == 303
    assert first.headers["location"] == "/runs/run/cases?outcome=answered&page=1"
    cookie, *attributes = first.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"krisis-view-{guarded.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert TOKEN not in str(first.headers) + first.text
    page = guarded.get(first.headers["location"], Cookie=f"other=1; {cookie}")
    assert page.status == 200
    assert TOKEN not in page.text
    assert page.headers["referrer-policy"] == "same-origin"
    assert guarded.get("/", Cookie=cookie[:-1]).status == 403
    assert guarded.get("/", Cookie=cookie.replace(str(guarded.port), "1")).status == 403


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "token"])
def test_programs_show_the_token_in_a_header_or_in_the_address(guarded: Site, scheme: str) -> None:
    assert guarded.get("/index.json", Authorization=f"{scheme} {TOKEN}").status == 200
    assert guarded.get("/index.json", Authorization=f"{scheme} {TOKEN}x").status == 403
    assert guarded.get("/index.json", Authorization=f"Basic {TOKEN}").status == 403
    answer = guarded.get(f"/runs/run/cases.json?token={TOKEN}&outcome=answered")
    assert (answer.status, answer.json["filter"]["outcome"]) == (200, "answered")
    assert TOKEN not in answer.text


@pytest.mark.parametrize("path", ["//evil.example/x", "/%5Cevil.example", "/%2F%2Fevil.example"])
def test_the_way_on_never_leads_to_another_site(guarded: Site, path: str) -> None:
    place = guarded.get(f"{path}?token={TOKEN}").headers["location"]
    assert place.startswith("/")
    assert place[1] not in "/\\"
    assert 'href="//' not in guarded.get(path).text


def test_other_hosts_origins_and_methods_are_refused_with_the_token_too(guarded: Site) -> None:
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/", **allowed, Host="evil.example").status == 403
    assert guarded.get("/", **allowed, Origin="http://evil.example").status == 403
    assert guarded.get(f"/?token={TOKEN}", method="POST").status == 405


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/index.json", {}, 403),
        ("/", {"Accept": "application/json"}, 403),
        ("/runs/no.json", {"Authorization": f"Bearer {TOKEN}"}, 404),
        ("/nowhere", {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}, 404),
        ("/runs/run/cases.json?page=x", {"Authorization": f"Bearer {TOKEN}"}, 400),
        ("/index.json", {"Host": "evil.example"}, 403),
        ("/index.json", {"method": "POST"}, 405),
    ],
)
def test_errors_are_json_where_json_was_asked(
    guarded: Site, path: str, headers: dict[str, str], status: int
) -> None:
    answer = guarded.get(path, **headers)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["status"] == status
    assert answer.json["error"]
    assert answer.json["next"]


@pytest.mark.parametrize("path", ["/runs/run", "/runs/run.json"])
def test_a_fault_of_krisis_shows_no_traceback_and_stands_in_the_terminal(
    serve: Callable[..., Site],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("a secret of the machine")

    monkeypatch.setitem(app.PAGES, "/runs/{run}", broken)
    write_run(tmp_path / "run", result_of(invented_rows(5)))
    site = serve(tmp_path)
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    answer = site.get(path)
    assert answer.status == 500
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text
    assert "krisis doctor" in answer.text
    for _ in range(100):  # it is logged after the answer has gone out
        if "a secret of the machine" in caplog.text:
            break
        time.sleep(0.02)
    assert "a secret of the machine" in caplog.text
    assert site.get("/").status == 200
