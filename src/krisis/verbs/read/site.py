"""The pages of a reader: one case with its form, a pause, and the end.

They show what the desk hands out and know nothing else: no truth, no model, no id.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from krisis import __version__
from krisis.errors import InvalidValue, MissingExtra
from krisis.pages import shell as shared
from krisis.viewer.assets import asset
from krisis.viewer.security import LOCAL_NAMES, Guard, form_of

ABSTAIN = "abstain"
_WRITES = re.compile("/answer")
_MEDIA = {"viewer.css": "text/css", "theme.js": "text/javascript", "reading.js": "text/javascript"}


class Desk(Protocol):
    """Who hands out cases and takes answers; see `krisis.verbs.read.desk.ReadingDesk`."""

    reader: str

    @property
    def n_read(self) -> int:
        """Count the cases that are done."""

    def show(self) -> Any:
        """Return the case to be read now, a `ShownCase` of the desk; None when all are read."""

    def pause(self) -> None:
        """Stop the clock of the case that is shown."""

    def answer(
        self,
        position: int,
        step: int,
        *,
        answer: str | None,
        confidence: float | None,
        comment: str = "",
    ) -> bool:
        """Keep an answer; False where another case is shown by now."""


def create_reading_app(desk: Desk, *, token: str, host_names: tuple[str, ...] = LOCAL_NAMES) -> Any:
    """Return the guarded application of one reader."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import HTMLResponse, RedirectResponse
        from starlette.routing import Route
    except ImportError:
        raise MissingExtra.named("viewer", "the pages of a reader") from None
    turn = threading.Lock()  # one answer at a time: a page sent twice finds the next case

    def page(template: str, status: int = 200, **context: Any) -> Any:
        found = shared.environment("krisis.viewer").get_template(template)
        context = {"n_read": desk.n_read, "reader": desk.reader, "version": __version__, **context}
        return HTMLResponse(found.render(**context), status)

    def case_page(
        status: int = 200, error: str = "", given: Mapping[str, str] | None = None
    ) -> Any:
        with turn:
            shown = desk.show()
        if shown is None:
            return page("reading_end.html", title="All cases are read")
        title = f"Case {shown.number} of {shown.n_cases}"
        typed = {"answer": "", "confidence": "", "comment": "", **(given or {})}
        context = {"title": title, "case": shown, "error": error, "given": typed}
        return page("reading.html", status, **context)

    def case(request: Any) -> Any:
        return case_page()

    def pause(request: Any) -> Any:
        with turn:
            desk.pause()
        return page("reading_pause.html", title="Paused")

    def keep(fields: Mapping[str, str]) -> Any:
        try:
            place, reply = _place(fields), _reply(fields)
            with turn:
                desk.answer(*place, **reply)
        except InvalidValue as error:
            return case_page(422, str(error), fields)
        return RedirectResponse("/", 303)

    async def answer(request: Any) -> Any:
        return await run_in_threadpool(keep, await form_of(request))

    def static(request: Any) -> Any:
        from starlette.responses import Response

        name = request.path_params["name"]
        if name not in _MEDIA:
            return refused(request.scope, 404, "there is no page at this address")
        return Response(asset(name), media_type=_MEDIA[name])

    def refused(scope: Any, status: int, sentence: str) -> Any:
        # A stranger learns nothing, not even who reads.
        context = {"title": "Not possible", "sentence": sentence, "reader": ""}
        return page("reading_error.html", status, **context)

    app = Starlette(
        routes=[
            Route("/", case),
            Route("/pause", pause),
            Route("/answer", answer, methods=["POST"]),
            Route("/static/{name}", static),
        ],
        exception_handlers={
            404: lambda request, _: refused(request.scope, 404, "there is no page at this address")
        },
    )
    return Guard(app, refused, host_names=host_names, token=token, writes=_WRITES)


def _place(fields: Mapping[str, str]) -> tuple[int, int]:
    try:
        return int(fields["position"]), int(fields["step"])
    except (KeyError, ValueError):
        raise InvalidValue("the form does not say which case it is about; answer again") from None


def _reply(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the reply that a form states, or say what is missing."""
    answer = fields.get("answer", "")
    if not answer:
        raise InvalidValue("choose an answer, or abstain")
    confidence = fields.get("confidence", "").strip().replace(",", ".")
    if answer == ABSTAIN:  # a confidence that was typed before has no answer to belong to
        return {"answer": None, "confidence": None, "comment": fields.get("comment", "")}
    try:
        share = float(confidence.removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise InvalidValue("give a confidence between 0 and 100 %")
    # The value of an answer is marked, so that no answer can be taken for the abstention.
    chosen = answer.removeprefix("answer ")
    return {"answer": chosen, "confidence": share, "comment": fields.get("comment", "")}
