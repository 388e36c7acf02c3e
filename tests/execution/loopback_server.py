"""A chat-completions server on loopback, run as a process of its own.

It answers the parity of every `serial marker` in the prompt, counts what it is asked, and
misbehaves in the shares that it is told.

Usage: loopback_server.py '{"latency": 0.05, "faults": {"rate_limit": 0.2}, "seed": 1}'. The first
line printed is the port. GET /counts returns what happened, by kind and by marker.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from typing import Any

from aiohttp import web

MARKER = re.compile(r"serial marker: (\d+)")
CASE = re.compile(r"^case_\d+:", re.MULTILINE)
RATE_LIMIT_HEADERS = {"x-ratelimit-remaining-requests": "100", "x-ratelimit-reset-requests": "1s"}


class Server:
    """Draws a fate for each request and keeps count."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.latency: float = options.get("latency", 0.0)
        self.faults: dict[str, float] = options.get("faults", {})
        self.retry_after: str = options.get("retry_after", "0.05")
        self.capacity: int | None = options.get("capacity")
        self.key: str | None = options.get("key")
        self.log: str | None = options.get("log")
        # Bills a token for every byte that it is sent and for all that it may write.
        self.is_dear: bool = options.get("is_dear", False)
        self.n_billed = 0
        self.draw = random.Random(options.get("seed", 0))
        self.kinds: Counter[str] = Counter()
        self.begun: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.arrivals: list[float] = []
        self.n_open = 0
        self.most_open = 0

    def fate(self) -> str:
        """Draw what becomes of a request."""
        at = self.draw.random()
        for kind, share in self.faults.items():
            at -= share
            if at < 0:
                return kind
        return "good"

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer one chat completion."""
        self.arrivals.append(time.monotonic())
        body = json.loads(await request.read())
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            self.kinds["auth"] += 1
            return _error(401, "Incorrect API key provided")
        user = body["messages"][-1]["content"]
        is_second = '"probability"' in body["messages"][0]["content"] + user
        # Records of another suite bear no marker; they are all answered as if it were 0.
        markers = [int(marker) for marker in MARKER.findall(user)] or [0] * max(
            1, len(CASE.findall(user))
        )
        self.begun.update(markers)
        full = self.capacity is not None and self.n_open >= self.capacity
        kind = "rate_limit" if full else self.fate()
        self.kinds[kind] += 1
        usage = self.bill(body, len(markers))
        self.n_open += 1
        self.most_open = max(self.most_open, self.n_open)
        try:
            if self.latency and not full:
                await asyncio.sleep(self.latency)
            if is_second and kind == "good":
                self.kinds["second"] += 1
                return await self.answer_second(usage, body)
            return await self.answer(kind, request, markers, usage, batch="case_0" in user)
        finally:
            self.n_open -= 1

    def bill(self, body: dict[str, Any], n_records: int) -> tuple[int, int]:
        """Return the tokens of a call, which are owed whether or not the reply is waited for."""
        usage = 100 * n_records, 10 * n_records
        if self.is_dear:
            texts = [message["content"].encode() for message in body["messages"]]
            usage = sum(map(len, texts)), body["max_completion_tokens"]
        self.n_billed += sum(usage)
        return usage

    async def answer(
        self,
        kind: str,
        request: web.Request,
        markers: list[int],
        usage: tuple[int, int],
        *,
        batch: bool,
    ) -> web.StreamResponse:
        """Return the good reply or the bad one that was drawn."""
        if kind == "rate_limit":
            return _error(429, "Rate limit reached", {"Retry-After": self.retry_after})
        if kind == "server_error":
            return _error(500, "The server had an error")
        if kind == "hang":
            await asyncio.sleep(3600)
        text = _text(markers, batch=batch)
        if kind == "malformed":
            text = text[: len(text) // 2]
        if kind == "wrong_ids":
            text = text.replace("case_", "patient_") if batch else "[]"
        if kind == "refusal":
            text = "I'm sorry, but I can't help with that request."
        payload = json.dumps(_completion(text, usage)).encode()
        if kind == "cut":
            return await _cut(request, payload)
        if kind == "good":
            self.answered.update(markers)
            if self.log is not None:
                with open(self.log, "a", encoding="ascii") as log:
                    log.write("".join(f"{marker}\n" for marker in markers))
        return web.Response(
            body=payload, content_type="application/json", headers=RATE_LIMIT_HEADERS
        )

    async def answer_second(self, usage: tuple[int, int], body: dict[str, Any]) -> web.Response:
        """Return a probability, or one for each case that the schema names."""
        one = {"probability": 0.75}
        names = re.findall(r'"case_\d+"', json.dumps(body.get("response_format")))
        rows = [{"id": name.strip('"'), **one} for name in dict.fromkeys(names)]
        payload = _completion(json.dumps({"results": rows} if rows else one), usage)
        return web.json_response(payload, headers=RATE_LIMIT_HEADERS)

    async def counts(self, request: web.Request) -> web.Response:
        """Say what happened so far."""
        return web.json_response(
            {
                "kinds": self.kinds,
                "begun": self.begun,
                "answered": self.answered,
                "most_open": self.most_open,
                "arrivals": self.arrivals,
                "n_billed": self.n_billed,
            }
        )


def _text(markers: list[int], *, batch: bool) -> str:
    answers = [
        {"abstained": False, "prediction": marker % 2, "confidence": 0.5 + marker % 50 / 100}
        for marker in markers
    ]
    if not batch:
        return json.dumps(answers[0])
    return json.dumps({"results": [{"id": f"case_{i}", **a} for i, a in enumerate(answers)]})


def _completion(text: str, usage: tuple[int, int]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "parity-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        },
    }


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": message, "type": "error", "code": str(status)}}
    return web.json_response(body, status=status, headers=headers)


async def _cut(request: web.Request, payload: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(len(payload))})
    response.content_type = "application/json"
    await response.prepare(request)
    await response.write(payload[: len(payload) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


async def main() -> None:
    """Serve until the process is ended."""
    server = Server(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/counts", server.counts)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
