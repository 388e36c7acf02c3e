"""The batch APIs of OpenAI, Anthropic and Gemini on loopback, in one process of its own.

It answers the parity of every `serial marker`, in batches that end a moment after they were made,
and misbehaves as it is told. Usage: batch_server.py '{"seconds": 0.1, "fates": ["expired"]}'. The
first line printed is the port. POST /options begins anew, POST /change goes on; GET /counts tells.

Options: ``fates`` of the batches in the order of their making (good, expired, cancelled, failed,
limit, partial, empty); ``items`` maps a serial marker to what becomes of the requests that hold it,
in turn; ``faults`` maps an endpoint (upload, create, made, state, list, results) to statuses given
in turn, where ``made`` fails after the batch was made; ``lists`` is how often batches are listed
before any ends, or three seconds; ``order`` is reversed, ``twice`` repeats.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from loopback_server import CASE, MARKER, _text

GRPC = {400: 3, 429: 8, 500: 13, 503: 14}
ANTHROPIC = {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error"}
USAGE = (100, 10)


class Batch:
    """One provider batch and the results that it will have."""

    def __init__(self, number: int, entries: list[dict[str, Any]], fate: str, name: str) -> None:
        self.id, self.entries, self.fate, self.name = f"b{number}", entries, fate, name
        self.made = time.time()
        self.is_cancelled = False
        self.results: list[tuple[str, Any]] | None = None


class Server:
    """Keeps the batches of one account."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, bytes] = {}
        self.bought: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.bodies: dict[str, dict[str, Any]] = {"batch": {}, "live": {}}
        self.keys: set[str] = set()

    def fault(self, endpoint: str) -> web.Response | None:
        """Return the next fault of an endpoint, if there is one."""
        self.calls[endpoint] += 1
        waiting = self.options.get("faults", {}).get(endpoint) or []
        if not waiting:
            return None
        status = waiting.pop(0)
        told = {"message": f"trouble {status}", "type": "error", "code": status, "status": "X"}
        return web.json_response({"type": "error", "error": told}, status=status)

    def make(self, entries: list[dict[str, Any]], name: str) -> Batch:
        """Take a batch in; whatever is in it is bought."""
        fates = self.options.get("fates") or []
        batch = Batch(len(self.batches), entries, fates.pop(0) if fates else "good", name)
        self.batches[batch.id] = batch
        for entry in entries:
            self.note("batch", entry["user"], entry["body"])
        return batch

    def note(self, kind: str, user: str, body: dict[str, Any]) -> None:
        """Keep the body of a request under the serial markers in it."""
        self.bodies[kind][" ".join(MARKER.findall(user))] = body

    def has_ended(self, batch: Batch) -> bool:
        """Say whether its time is over, and then draw its results."""
        age_seconds = time.time() - batch.made
        over = age_seconds >= self.options.get("seconds", 0.1)
        over = over and (self.calls["list"] >= self.options.get("lists", 0) or age_seconds > 3)
        if (over or batch.is_cancelled) and batch.results is None:
            batch.results = self.draw(batch, cancelled=not over)
        return batch.results is not None

    def draw(self, batch: Batch, *, cancelled: bool) -> list[tuple[str, Any]]:
        """Return the results by name: the texts of answers, statuses, or "left" and why."""
        fate = "cancelled" if cancelled else batch.fate
        if fate in ("failed", "limit", "empty"):
            return []
        n_done = len(batch.entries) // 2 if fate in ("expired", "cancelled", "partial") else 10**9
        found = []
        for place, entry in enumerate(batch.entries):
            if place >= n_done:
                found += [] if fate == "partial" else [(entry["key"], ("left", fate))]
                continue
            result = self.answer(entry["user"])
            if result != "missing":
                found.append((entry["key"], result))
        if self.options.get("order") == "reversed":
            found.reverse()
        if self.options.get("twice"):
            found += [(key, 500) for key, _ in found] + found
        return found

    def answer(self, user: str, *, live: bool = False) -> Any:
        """Answer one request, or fail it as the items say."""
        markers = MARKER.findall(user)
        items = self.options.get("items", {})
        kinds = [items[marker].pop(0) for marker in markers if items.get(marker)]
        kind = kinds[0] if kinds else "good"
        if isinstance(kind, int) or kind == "missing":
            return kind
        (self.live if live else self.bought).update(markers)
        is_batch = bool(CASE.search(user))
        # Records of another suite bear no marker; they are all answered as if it were 0.
        numbers = [int(marker) for marker in markers] or [0] * max(1, len(CASE.findall(user)))
        text = _text(numbers, batch=is_batch)
        return text[: len(text) // 2] if kind == "malformed" else text

    def counts(self) -> dict[str, Any]:
        """Say what happened."""
        return {
            "bought": self.bought,
            "live": self.live,
            "n_batches": len(self.batches),
            "sizes": [len(batch.entries) for batch in self.batches.values()],
            "calls": self.calls,
            "bodies": self.bodies,
            "keys": sorted(self.keys),
            "files": {name: content.decode() for name, content in self.files.items()},
        }


class OpenAI:
    """Files and batches as OpenAI has them."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def upload(self, request: web.Request) -> web.Response:
        content, name = b"", ""
        async for part in await request.multipart():
            if part.name == "file":
                content, name = bytes(await part.read()), str(part.filename)
        if fault := self.server.fault("upload"):
            return fault
        file_id = f"file-{len(self.server.files)}"
        self.server.files[file_id] = content
        about = {"id": file_id, "object": "file", "bytes": len(content), "created_at": 1}
        return web.json_response({**about, "filename": name, "purpose": "batch", "status": "ok"})

    async def create(self, request: web.Request) -> web.Response:
        if fault := self.server.fault("create"):
            return fault
        body = await request.json()
        lines = map(json.loads, self.server.files[body["input_file_id"]].splitlines())
        entries = [
            {"key": e["custom_id"], "body": e["body"], "user": e["body"]["messages"][-1]["content"]}
            for e in lines
        ]
        batch = self.server.make(entries, body["metadata"]["krisis"])
        return self.server.fault("made") or web.json_response(self.about(batch))

    def about(self, batch: Batch) -> dict[str, Any]:
        ended = self.server.has_ended(batch)
        fate = "cancelled" if batch.is_cancelled else batch.fate
        words = {"good": "completed", "partial": "completed", "limit": "failed"}
        words["empty"] = "completed"
        code = "token_limit_exceeded" if fate == "limit" else "invalid_model"
        errors = {"data": [{"code": code, "message": "not this one"}]}
        has_failed = fate in ("failed", "limit")
        return {
            "id": batch.id,
            "object": "batch",
            "status": words.get(fate, fate) if ended else "in_progress",
            "created_at": int(batch.made),
            "completion_window": "24h",
            "endpoint": "/v1/chat/completions",
            "input_file_id": "file-0",
            "metadata": {"krisis": batch.name},
            "errors": errors if has_failed and ended else None,
            "output_file_id": f"out-{batch.id}" if ended and not has_failed else None,
            "error_file_id": f"err-{batch.id}" if ended and not has_failed else None,
        }

    async def state(self, request: web.Request) -> web.Response:
        batch = self.server.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        return self.server.fault("state") or web.json_response(self.about(batch))

    async def list(self, request: web.Request) -> web.Response:
        data = [self.about(batch) for batch in reversed(self.server.batches.values())]
        page = {"object": "list", "data": data, "has_more": False}
        return self.server.fault("list") or web.json_response(page)

    async def cancel(self, request: web.Request) -> web.Response:
        batch = self.server.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        batch.is_cancelled = True
        return web.json_response(self.about(batch))

    async def results(self, request: web.Request) -> web.Response:
        if fault := self.server.fault("results"):
            return fault
        kind, _, name = request.match_info["id"].partition("-")
        lines = []
        for key, result in self.server.batches[name].results or []:
            line = {"id": "r", "custom_id": key, "response": None, "error": None}
            if isinstance(result, str):
                line["response"] = {"status_code": 200, "body": completion(result)}
            elif isinstance(result, int):
                told = {"error": {"message": f"refused {result}", "type": "invalid"}}
                line["response"] = {"status_code": result, "body": told}
            else:
                line["error"] = {"code": f"batch_{result[1]}", "message": "ended before"}
            if (kind == "out") == isinstance(result, str):
                lines.append(json.dumps(line))
        return web.Response(body="\n".join(lines).encode(), content_type="application/jsonl")

    async def ask(self, request: web.Request) -> web.Response:
        body = await request.json()
        user = body["messages"][-1]["content"]
        self.server.note("live", user, body)
        return web.json_response(completion(self.server.answer(user, live=True)))


def completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "parity-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": 110},
    }


class Anthropic:
    """Message Batches as Anthropic has them: no metadata, results once ended."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def create(self, request: web.Request) -> web.Response:
        if fault := self.server.fault("create"):
            return fault
        body = await request.json()
        entries = [
            {
                "key": e["custom_id"],
                "body": e["params"],
                "user": e["params"]["messages"][0]["content"],
            }
            for e in body["requests"]
        ]
        batch = self.server.make(entries, "")
        return self.server.fault("made") or web.json_response(self.about(batch, request))

    def about(self, batch: Batch, request: web.Request) -> dict[str, Any]:
        ended = self.server.has_ended(batch)
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts["succeeded" if ended else "processing"] = len(batch.entries)
        made = datetime.fromtimestamp(batch.made, UTC).isoformat()
        url = f"http://{request.host}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": made,
            "expires_at": made,
            "ended_at": made if ended else None,
            "results_url": url if ended else None,
        }

    async def state(self, request: web.Request) -> web.Response:
        batch = self.server.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        return self.server.fault("state") or web.json_response(self.about(batch, request))

    async def list(self, request: web.Request) -> web.Response:
        data = [self.about(batch, request) for batch in reversed(self.server.batches.values())]
        page = {"data": data, "has_more": False, "first_id": None, "last_id": None}
        return self.server.fault("list") or web.json_response(page)

    async def cancel(self, request: web.Request) -> web.Response:
        batch = self.server.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        batch.is_cancelled = True
        return web.json_response(self.about(batch, request))

    async def results(self, request: web.Request) -> web.Response:
        if fault := self.server.fault("results"):
            return fault
        lines = []
        for key, result in self.server.batches[request.match_info["id"]].results or []:
            if isinstance(result, str):
                found: dict[str, Any] = {"type": "succeeded", "message": message(result)}
            elif isinstance(result, int):
                told = {"type": ANTHROPIC[result], "message": f"refused {result}"}
                found = {"type": "errored", "error": {"type": "error", "error": told}}
            else:
                found = {"type": {"cancelled": "canceled"}.get(result[1], result[1])}
            lines.append(json.dumps({"custom_id": key, "result": found}))
        return web.Response(body="\n".join(lines).encode(), content_type="application/x-jsonl")

    async def ask(self, request: web.Request) -> web.Response:
        body = await request.json()
        user = body["messages"][0]["content"]
        self.server.note("live", user, body)
        return web.json_response(message(self.server.answer(user, live=True)))


def message(text: str) -> dict[str, Any]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "parity-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": USAGE[0], "output_tokens": USAGE[1]},
    }


class Gemini:
    """Batch mode as Gemini has it: inlined requests and responses, a name to find it by."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def post(self, request: web.Request) -> web.Response:
        verb = request.match_info["tail"].partition(":")[2]
        if verb == "batchGenerateContent":
            return await self.create(request)
        if verb == "cancel":
            name = request.match_info["tail"].partition(":")[0].partition("/")[2]
            if name not in self.server.batches:
                return web.json_response({"error": {"code": 404, "message": "no"}}, status=404)
            self.server.batches[name].is_cancelled = True
            return web.json_response({})
        body = await request.json()
        self.server.note("live", _user(body), body)
        return web.json_response(generation(self.server.answer(_user(body), live=True)))

    async def create(self, request: web.Request) -> web.Response:
        if fault := self.server.fault("create"):
            return fault
        content = (await request.json())["batch"]
        entries = [
            {"key": e["metadata"]["key"], "body": e["request"], "user": _user(e["request"])}
            for e in content["inputConfig"]["requests"]["requests"]
        ]
        batch = self.server.make(entries, content["displayName"])
        return self.server.fault("made") or web.json_response(self.about(batch))

    def about(self, batch: Batch) -> dict[str, Any]:
        ended = self.server.has_ended(batch)
        fate = "cancelled" if batch.is_cancelled else batch.fate
        words = {"good": "SUCCEEDED", "partial": "SUCCEEDED", "empty": "SUCCEEDED"}
        words["limit"] = "FAILED"
        state = words.get(fate, fate.upper()) if ended else "RUNNING"
        found: dict[str, Any] = {"displayName": batch.name, "state": f"BATCH_STATE_{state}"}
        if ended and batch.results:
            inlined = [self.result(key, result) for key, result in batch.results]
            # What was not reached has no response at all.
            kept = [one for one in inlined if one is not None]
            found["output"] = {"inlinedResponses": {"inlinedResponses": kept}}
        return {"name": f"batches/{batch.id}", "metadata": found, "done": ended}

    def result(self, key: str, result: Any) -> dict[str, Any] | None:
        about = {"metadata": {"key": key}}
        if isinstance(result, str):
            return {**about, "response": generation(result)}
        if isinstance(result, int):
            return {**about, "error": {"code": GRPC[result], "message": f"refused {result}"}}
        return None if result[1] == "expired" else {**about, "error": {"code": 1, "message": "no"}}

    async def get(self, request: web.Request) -> web.Response:
        tail = request.match_info["tail"]
        if tail == "batches":
            fault = self.server.fault("list")
            jobs = [self.about(batch) for batch in self.server.batches.values()]
            return fault or web.json_response({"operations": jobs})
        batch = self.server.batches.get(tail.partition("/")[2])
        if batch is None:
            return web.json_response({"error": {"code": 404, "message": "no"}}, status=404)
        endpoint = "results" if self.server.has_ended(batch) else "state"
        return self.server.fault(endpoint) or web.json_response(self.about(batch))


def _user(body: dict[str, Any]) -> str:
    return str(body["contents"][0]["parts"][0]["text"])


def generation(text: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1]},
        "modelVersion": "parity-1",
    }


def routes(app: web.Application, server: Server) -> None:
    """Put the three APIs side by side."""
    openai, anthropic, gemini = OpenAI(server), Anthropic(server), Gemini(server)
    add = app.router
    add.add_post("/v1/files", openai.upload)
    add.add_get("/v1/files/{id}/content", openai.results)
    add.add_post("/v1/batches", openai.create)
    add.add_get("/v1/batches", openai.list)
    add.add_get("/v1/batches/{id}", openai.state)
    add.add_post("/v1/batches/{id}/cancel", openai.cancel)
    add.add_post("/v1/chat/completions", openai.ask)
    add.add_post("/v1/messages/batches", anthropic.create)
    add.add_get("/v1/messages/batches", anthropic.list)
    add.add_get("/v1/messages/batches/{id}", anthropic.state)
    add.add_get("/v1/messages/batches/{id}/results", anthropic.results)
    add.add_post("/v1/messages/batches/{id}/cancel", anthropic.cancel)
    add.add_post("/v1/messages", anthropic.ask)
    add.add_post("/v1beta/{tail:.*}", gemini.post)
    add.add_get("/v1beta/{tail:.*}", gemini.get)


async def main() -> None:
    """Serve until the process is ended."""
    server = Server(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})

    @web.middleware
    async def note_key(request: web.Request, handler: Any) -> web.StreamResponse:
        names = ("Authorization", "x-api-key", "x-goog-api-key")
        server.keys |= {request.headers[name] for name in names if name in request.headers}
        return await handler(request)

    async def counts(request: web.Request) -> web.Response:
        return web.json_response(server.counts())

    async def options(request: web.Request) -> web.Response:
        server.__init__(await request.json())  # type: ignore[misc]
        return web.json_response({})

    async def change(request: web.Request) -> web.Response:
        server.options |= await request.json()
        return web.json_response({})

    app = web.Application(middlewares=[note_key], client_max_size=2**30)
    routes(app, server)
    app.router.add_get("/counts", counts)
    app.router.add_post("/options", options)
    app.router.add_post("/change", change)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[union-attr]
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
