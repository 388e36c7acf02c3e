"""The web application: a table of pages, each in HTML and in JSON, behind the guard."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from krisis import __version__
from krisis.errors import KrisisError, MissingExtra, UnknownName
from krisis.json_values import JsonMapping, dumps
from krisis.reporting import pages as shared
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.page import Page
from krisis.viewer.pages import case, cases, compare, coverage, run, runs
from krisis.viewer.security import LOCAL_NAMES, Guard

# Path → what makes the page from the catalogue, the path's parts and the query.
Maker = Callable[[Catalogue, JsonMapping, Mapping[str, str]], Page]
PAGES: dict[str, Maker] = {
    "/": lambda catalogue, parts, query: runs.page(catalogue),
    "/compare": lambda catalogue, parts, query: compare.page(catalogue, _all(query, "run")),
    "/runs/{run}/progress": lambda c, parts, query: runs.progress_page(c, parts["run"]),
    "/runs/{run}/cases": lambda c, parts, query: cases.page(c, parts["run"], query),
    "/runs/{run}/coverage": lambda c, parts, query: coverage.page(c, parts["run"], query),
    "/runs/{run}": lambda c, parts, query: run.page(c, parts["run"]),
}
_MEDIA = {"viewer.css": "text/css", "viewer.js": "text/javascript"}


def _all(query: Any, name: str) -> list[str]:
    return list(query.getlist(name))


def create_app(
    folder: Path,
    *,
    host_names: tuple[str, ...] = LOCAL_NAMES,
    shown_again: case.ShownAgain | None = None,
) -> Any:
    """Return the guarded application over the runs of a folder.

    ``shown_again`` puts stored features into the words of a prompt.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise MissingExtra.named("viewer", "the viewer") from None
    catalogue = Catalogue(folder)
    routes = [
        Route("/static/{name}", _static),
        Route("/runs/{run}/cases.csv", _download(catalogue)),
        Route("/runs/{run}/rows{rest:path}", _renamed),
    ]
    pages = PAGES | {
        "/runs/{run}/cases/{position:int}": lambda c, parts, query: case.page(
            c, parts["run"], parts["position"], query, shown_again
        )
    }
    for path, maker in pages.items():
        twin = "/index.json" if path == "/" else f"{path}.json"
        routes.append(Route(twin, _endpoint(catalogue, maker, _json)))
        routes.append(Route(path, _endpoint(catalogue, maker, _html)))
    handlers = {404: _unknown_page, 500: _broken}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), host_names=host_names)


Answer = Callable[[Page, int], Any]


def _endpoint(catalogue: Catalogue, maker: Maker, answer: Answer) -> Callable[[Any], Any]:
    def endpoint(request: Any) -> Any:
        try:
            page = maker(catalogue, request.path_params, request.query_params)
        except KrisisError as error:
            status = 404 if isinstance(error, UnknownName) else 400
            return answer(_error_page(str(error)), status)
        return answer(page, 200)

    return endpoint


def _download(catalogue: Catalogue) -> Callable[[Any], Any]:
    from starlette.responses import StreamingResponse

    def endpoint(request: Any) -> Any:
        name = request.path_params["run"]
        try:
            lines = cases.csv_of(catalogue, name, request.query_params)
        except KrisisError as error:
            return _html(_error_page(str(error)), 404 if isinstance(error, UnknownName) else 400)
        file = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        saved = {"content-disposition": f'attachment; filename="{file}-cases.csv"'}
        return StreamingResponse(lines, media_type="text/csv", headers=saved)

    return endpoint


def _renamed(request: Any) -> Any:
    """Lead from the address that cases had before to theirs."""
    from starlette.responses import RedirectResponse

    run, rest = quote(request.path_params["run"], safe=""), quote(request.path_params["rest"])
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/runs/{run}/cases{rest}{query}", status_code=308)


def _html(page: Page, status: int) -> Any:
    from starlette.responses import HTMLResponse

    template = shared.environment("krisis.viewer").get_template(page.template)
    text = template.render(
        **page.context, page=page, content=page.content, title=page.title, version=__version__
    )
    return HTMLResponse(text, status_code=status)


def _json(page: Page, status: int) -> Any:
    from starlette.responses import Response

    return Response(dumps(page.content), status_code=status, media_type="application/json")


def _error_page(sentence: str) -> Page:
    return Page("error.html", "Not possible", {"error": sentence})


def _unknown_page(request: Any, _: Exception) -> Any:
    answer = _json if request.url.path.endswith(".json") else _html
    return answer(_error_page("there is no such page; go back to the list of runs"), 404)


def _broken(request: Any, _: Exception) -> Any:
    return _html(_error_page("this page could not be made; the terminal says more"), 500)


@cache
def _asset(name: str) -> str:
    text = (files("krisis.viewer") / "static" / name).read_text(encoding="utf-8")
    return shared.style_sheet() + text if name.endswith(".css") else text


def _static(request: Any) -> Any:
    from starlette.responses import Response

    name = request.path_params["name"]
    if name not in _MEDIA:
        return _unknown_page(request, KeyError(name))
    return Response(_asset(name), media_type=_MEDIA[name])
