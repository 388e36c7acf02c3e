"""The web application: a table of pages, each in HTML and in JSON, behind the guard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from krisis import __version__, registry
from krisis.errors import KrisisError, MissingExtra, UnknownName
from krisis.json_values import JsonMapping, dumps
from krisis.pages import shell as shared
from krisis.pages.tabs import Page, chart_file
from krisis.viewer.assets import asset
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.pages import case, cases, compare, pair, run, runs
from krisis.viewer.security import LOCAL_NAMES, Guard, form_of, wants_json

Maker = Callable[[Catalogue, JsonMapping, Mapping[str, str]], Page]


def _place_of_tab(name: str) -> str:
    return f"/runs/{{run}}/{name}"


def _tab(name: str) -> Maker:
    """Return what makes the page that a verb adds to every run; it is imported when asked for."""
    return lambda c, parts, query: registry.find("tabs", name)(c.load(parts["run"]), query)


# Path → what makes its page from the catalogue, the path's parts and the query.
PAGES: dict[str, Maker] = {
    "/": lambda catalogue, parts, query: runs.page(catalogue, query, _all(query, "metric")),
    "/compare/cases/{position:int}": lambda c, parts, query: pair.case_page(
        c, _all(query, "run"), parts["position"], query
    ),
    "/compare/cases": lambda c, parts, query: pair.page(c, _all(query, "run"), query),
    "/compare": lambda c, parts, query: compare.page(c, _all(query, "run"), query),
    "/runs/{run}/progress": lambda c, parts, query: runs.progress_page(c, parts["run"]),
    "/runs/{run}/cases/{position:int}": lambda c, parts, query: case.page(
        c, parts["run"], parts["position"], query
    ),
    "/runs/{run}/cases": lambda c, parts, query: cases.page(c, parts["run"], query),
    **{_place_of_tab(name): _tab(name) for name in registry.names("tabs")},
    "/runs/{run}": lambda c, parts, query: run.page(c, parts["run"]),
}
WITH_CHARTS = ("/", "/compare", *map(_place_of_tab, registry.names("tabs")), "/runs/{run}")
_WRITES = re.compile(r"/runs/[^/]+/cases/\d+/review")
_MEDIA = {"viewer.css": "text/css", "theme.js": "text/javascript", "viewer.js": "text/javascript"}
# Status → the heading of its page and what is nearest to do.
_ERRORS = {
    400: ("Not possible", "Change what you asked for, or begin again at the results."),
    403: (
        "No entry",
        "Open the address that the terminal shows. If a link on another page led here, try again.",
    ),
    404: ("Not found", "Look for it among the results."),
    405: ("Not possible here", "Open pages with GET; runs are made by krisis run."),
    500: (
        "This page could not be made",
        "The terminal of krisis view says why. If one run is the cause, krisis doctor RUN tells.",
    ),
}


SAVE = "save"  # in the query of a page: as one file, with its style and without scripts
_LINK_TO_PAGE = re.compile(r'<a\b[^>]*? href="[/?][^"]*"')


def _all(query: Any, name: str) -> list[str]:
    return list(query.getlist(name))


def create_app(
    folder: Path,
    *,
    host_names: tuple[str, ...] = LOCAL_NAMES,
    token: str | None = None,
    shown_again: case.ShownAgain | None = None,
) -> Any:
    """Return the guarded application over the runs of a folder; without a token all may read.

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
        Route("/runs/{run}/cases.csv", _endpoint(catalogue, cases.csv_of, _csv)),
        *(
            Route(f"{path.rstrip('/')}/charts/{{file}}", _endpoint(catalogue, _chart(path), _file))
            for path in WITH_CHARTS
        ),
        Route("/runs/{run}/left-for-people.csv", _endpoint(catalogue, cases.left_csv, _left_csv)),
        Route(
            "/runs/{run}/cases/{position:int}/review", _review_endpoint(catalogue), methods=["POST"]
        ),
    ]
    pages = PAGES | {
        "/runs/{run}/cases/{position:int}": lambda c, parts, query: case.page(
            c, parts["run"], parts["position"], query, shown_again
        )
    }
    for path, maker in pages.items():
        twin = "/index.json" if path == "/" else f"{path}.json"
        endpoint = _endpoint(catalogue, maker)
        routes += [Route(twin, endpoint), Route(path, endpoint)]
    app = Starlette(routes=routes, exception_handlers={404: _unknown_page, 500: _broken})
    app.state.may_write = token is not None
    return Guard(app, _error, host_names=host_names, token=token, writes=_WRITES)


def _review_endpoint(catalogue: Catalogue) -> Callable[[Any], Any]:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import RedirectResponse

    async def endpoint(request: Any) -> Any:
        fields, place = await form_of(request), request.path_params
        run, position = place["run"], place["position"]
        try:
            await run_in_threadpool(case.keep_review, catalogue, run, position, fields)
        except UnknownName as error:
            return _error(request.scope, 404, str(error))
        except KrisisError as error:
            return _error(request.scope, 400, str(error))
        queue = urlencode(parse_qsl(fields.get("queue", "")))
        there = f"/runs/{quote(run, safe='')}/cases/{position}"
        return RedirectResponse(f"{there}?{queue}" if queue else there, 303)

    return endpoint


def _endpoint(
    catalogue: Catalogue, maker: Callable[..., Any], answer: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any], Any]:
    def endpoint(request: Any) -> Any:
        query = request.query_params
        if SAVE in query:
            kept = [pair for pair in query.multi_items() if pair[0] != SAVE]
            query = type(query)(kept)
        try:
            made = maker(catalogue, request.path_params, query)
        except UnknownName as error:
            run = request.path_params.get("run", "")
            names = catalogue.paths() if run else ()
            if not run or run in names:
                return _error(request.scope, 404, str(error))
            near = get_close_matches(run, names, n=3, cutoff=0.5)
            return _error(request.scope, 404, f"there is no run {run!r} in this folder", near)
        except KrisisError as error:
            return _error(request.scope, 400, str(error))
        if answer is not None:
            return answer(request.scope, made)
        return _answer(request.scope, made, made.status)

    return endpoint


def _csv(scope: Any, lines: Iterator[str], what: str = "cases") -> Any:
    """Return lines as a file to be saved, sent as they are made."""
    from starlette.responses import StreamingResponse

    return StreamingResponse(lines, media_type="text/csv", headers=_saved(scope, f"{what}.csv"))


def _saved(scope: Any, ending: str) -> dict[str, str]:
    """Return the header by which a browser saves a file under the name of its run."""
    other = "comparison" if scope["path"].startswith("/compare") else "results"
    file = re.sub(r"[^A-Za-z0-9._-]", "_", scope["path_params"].get("run", other))
    return {"content-disposition": f'attachment; filename="{file}-{ending}"'}


def _chart(path: str) -> Callable[..., tuple[str, bytes]]:
    """Return what makes a chart of a page as a file of its own."""
    return lambda c, parts, query: chart_file(PAGES[path](c, parts, query), parts["file"])


def _file(scope: Any, made: tuple[str, bytes]) -> Any:
    from starlette.responses import Response

    media_type, content = made
    headers = _saved(scope, scope["path_params"]["file"])
    return Response(content, media_type=media_type, headers=headers)


def _left_csv(scope: Any, lines: Iterator[str]) -> Any:
    return _csv(scope, lines, what="left-for-people")


def _answer(scope: Any, page: Page, status: int = 200) -> Any:
    """Return a page as JSON where JSON was asked for, else as HTML."""
    from starlette.responses import HTMLResponse, Response

    if wants_json(scope):
        return Response(dumps(page.content), status, media_type="application/json")
    template = _templates().get_template(page.template)
    saved = status == 200 and SAVE in parse_qs(scope["query_string"].decode("latin-1"))
    text = template.render(
        **page.context,
        page=page,
        content=page.content,
        title=page.title,
        tabs=registry.names("tabs"),
        version=__version__,
        may_write=getattr(scope["app"].state, "may_write", False) if "app" in scope else False,
        style=asset("viewer.css") if saved else "",
        here_saved=_with_save(scope),
    )
    if not saved:
        return HTMLResponse(text, status)
    # A saved page is read where no viewer answers: what led to other pages is plain text.
    file = re.sub(r"[^A-Za-z0-9._-]+", "-", page.title).strip("-") or "page"
    return HTMLResponse(
        _LINK_TO_PAGE.sub("<a", text),
        headers={"content-disposition": f'attachment; filename="{file[:80]}.html"'},
    )


def _with_save(scope: Any) -> str:
    """Return the address of a page with the wish to save it."""
    query = scope["query_string"].decode("latin-1")
    return f"?{query}&{SAVE}=1" if query else f"?{SAVE}=1"


@cache
def _templates() -> Any:
    # The template of a tab lies in `templates` of its package.
    packages = [place.rpartition(".")[0] for place in registry.table("tabs").values()]
    return shared.environment("krisis.viewer", *packages)


def _error(scope: Any, status: int, sentence: str, near: Sequence[str] = ()) -> Any:
    heading, next_step = _ERRORS[status]
    content = {"error": sentence, "status": status, "next": next_step, "near": list(near)}
    return _answer(scope, Page("error.html", heading, content, {"path": scope["path"]}), status)


def _unknown_page(request: Any, _: Exception) -> Any:
    return _error(request.scope, 404, "there is no page at this address")


def _broken(request: Any, _: Exception) -> Any:
    # The server raises the exception again, and so it is in the terminal with its traceback.
    return _error(request.scope, 500, "something in krisis, or in a file, is not as expected")


def _static(request: Any) -> Any:
    from starlette.responses import Response

    name = request.path_params["name"]
    if name not in _MEDIA:
        return _unknown_page(request, KeyError(name))
    return Response(asset(name), media_type=_MEDIA[name])
