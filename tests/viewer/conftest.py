"""A real server on loopback over a folder of runs, a browser, and everything hostile."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.invented_runs import begin_run, invented_rows, result_of, write_run

from krisis.metrics.base import EvaluationResult, Rows
from krisis.verbs.compare.pairs import CompareOptions
from krisis.viewer.app import PAGES, create_app
from krisis.viewer.pages import compare

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
PAYLOADS = {
    "script": "<script>window.harmed = 'script'</script>",
    "textarea": "</textarea></pre></style><img src=x onerror=\"window.harmed = 'img'\">",
    "svg": "<svg><script>window.harmed='svg'</script><a href=javascript:harmed=1>x</a></svg>",
    "markdown": "[click](javascript:window.harmed=1) ![pixel](http://198.51.100.7/p.png) `code`",
    "template": "{{ 7*7 }} {% include 'x' %} ${window.harmed=1}",
    "rtl": "שלום \u202egnorw\u202c مرحبا",
    "zero-width": "in\u200bvis\u2060ible\u00ad \ufeff\x07",
    "attribute": '" onmouseover="window.harmed=1" x=" \' onfocus=\'window.harmed=1',
    "long": "megabyte " * 120_000,
}


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Site:
    """A running viewer."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read().decode(errors="replace"))
        finally:
            connection.close()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Site]]:
    """Return a function that serves a folder until the tests have ended."""
    patch = pytest.MonkeyPatch()
    patch.setattr(compare, "_WAIT_SECONDS", 100.0)  # on a busy machine pages of few rows wait too
    patch.setattr(compare, "options_for", lambda *_: CompareOptions(n_permutations=39))
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(folder: Path, token: str | None = None) -> Site:
        configuration = uvicorn.Config(
            create_app(folder, token=token),
            host="127.0.0.1",
            port=0,
            log_level="warning",
            lifespan="off",
        )
        socket = configuration.bind_socket()
        socket.listen()  # so that the first request waits instead of being refused
        server = uvicorn.Server(configuration)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return Site(socket.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
    patch.undo()


# What a page needs in its address beside the run; a page that needs nothing is not named here.
_QUERIES = dict.fromkeys(
    ("/compare", "/compare/cases", "/compare/cases/{position:int}"), "?run={run}&run={other}"
)


def example(path: str, run: str, other: str) -> str:
    """Return an address of one of the pages, with everything in it that the page asks for."""
    filled = path.replace("{run}", run).replace("{position:int}", "3")
    assert "{" not in filled, f"{path} needs an example: say here what stands for its parts"
    return filled + _QUERIES.get(path, "").format(run=run, other=other)


def examples(run: str, other: str) -> list[str]:
    """Return an address of every page that the viewer has."""
    return [example(path, run, other) for path in PAGES]


def payload_run(n_characters: int | None = None) -> Any:
    """Return a run in which everything that a model or a file can say is hostile.

    The first reply of each kind has ``n_characters``, or all that it has.
    """
    rows = Rows(
        EvaluationResult(
            payload[:200],
            1,
            confidence=0.9,
            raw_response=payload[: n_characters if i == 0 else 2_000],
            prompt=payload[:500],
            prompt_mode=payload[:50],
            record_id=f"{name}{i} {payload[:60]}",
            metadata={
                "should_abstain": True,
                "abstain_reasons": [payload[:80]],
                "sex": payload[:40],
                "ckd_stage": payload[:40],
            },
            signals={payload[:30]: payload[:80]},
        )
        for name, payload in PAYLOADS.items()
        for i in range(11)
    )
    error = PAYLOADS["script"] + PAYLOADS["svg"]
    lost = EvaluationResult(None, 1, record_id="failed", error=error)
    return result_of(Rows([*rows, lost]), PAYLOADS["script"])


@pytest.fixture(scope="session")
def shown_site(
    serve: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Return a viewer of three runs, two hostile ones and a broken one, which nobody changes."""
    folder = tmp_path_factory.mktemp("runs")
    shown = {"serum creatinine (mg/dL)": 1.9, "age (years)": 61}
    write_run(folder / "run-a", result_of(invented_rows(), "openai/model-a"), features=shown)
    write_run(folder / "run-b", result_of(invented_rows(skill=0.8), "local/model-b"))
    part = result_of(invented_rows(30), "local/model-c")
    going_on = begin_run(folder / "run-c", part, n_cases=160)
    hostile = payload_run()
    write_run(folder / "run-payload", hostile)
    for row in hostile.evaluation_results[::2]:
        row.prediction = 1
    write_run(folder / "run-payload-2", hostile)
    (folder / "broken.krisis").write_text("{", encoding="utf-8")
    yield serve(folder)
    going_on.close()


def chromium_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium on PATH; install the package `chromium` to run these tests")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = chromium_path()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def eventually(locator: Any) -> Any:
    """Return the assertions that wait; the policy of the pages forbids waiting by evaluation."""
    from playwright.sync_api import expect

    return expect(locator)


class Watched:
    """A page with everything that went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file://", "data:", "about:")):
            self.problems.append(f"request to {request.url[:80]}")

    def picture(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)


@pytest.fixture
def watched(chromium: Any) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = Watched(context.new_page())
    yield page
    context.close()
    assert page.problems == []
