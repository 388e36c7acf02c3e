"""The web application: a table of pages, each in HTML and in JSON, behind the guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from krisis import __version__
from krisis.errors import KrisisError, MissingExtra, UnknownName
from krisis.json_values import JsonMapping, dumps
from krisis.reporting import pages as shared
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.page import Page
from krisis.viewer.pages import compare, decide, row, rows, run, runs
from krisis.viewer.security import LOCAL_NAMES, Guard

# Path → what makes the page from the catalogue, the path's parts and the query.
Maker = Callable[[Catalogue, JsonMapping, Mapping[str, str]], Page]
PAGES: dict[str, Maker] = {
    "/": lambda catalogue, parts, query: runs.page(catalogue),
    "/compare": lambda catalogue, parts, query: compare.page(catalogue, _all(query, "run")),
    "/runs/{run}/progress": lambda c, parts, query: runs.progress_page(c, parts["run"]),
    "/runs/{run}/rows/{position:int}": lambda c, parts, query: row.page(
        c, parts["run"], parts["position"], query
    ),
    "/runs/{run}/rows": lambda c, parts, query: rows.page(c, parts["run"], query),
    "/runs/{run}/decide": lambda c, parts, query: decide.page(c, parts["run"], query),
    "/runs/{run}": lambda c, parts, query: run.page(c, parts["run"]),
}
_MEDIA = {"viewer.css": "text/css", "viewer.js": "text/javascript"}


def _all(query: Any, name: str) -> list[str]:
    return list(query.getlist(name))


def create_app(folder: Path, *, host_names: tuple[str, ...] = LOCAL_NAMES) -> Any:
    """Return the guarded application over the runs of a folder."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise MissingExtra.named("viewer", "the viewer") from None
    catalogue = Catalogue(folder)
    routes = [Route("/static/{name}", _static)]
    for path, maker in PAGES.items():
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
