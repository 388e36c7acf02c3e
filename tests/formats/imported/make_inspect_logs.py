"""Make small logs with the real inspect_ai, which must be installed where this is run.

    python make_inspect_logs.py FOLDER

The model is a scripted server on loopback. Events, tracebacks and places of this machine are taken
out with inspect_ai's own reader and writer; nothing else is changed.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

# Replies by number of the case; a list is one reply per epoch, None is refused with status 400.
TRIAGE = {
    1: "Confidence: 90%\nANSWER: A",
    2: "Confidence: 80%\nANSWER: B",
    3: ["Confidence: 60%\nANSWER: B", "Confidence: 55%\nANSWER: C"],
    4: "Confidence: 20%\nANSWER: D",
    5: "",
    6: "I would rather see the patient first.",
    7: None,
    8: ["Confidence: 70%\nANSWER: A", "Confidence: 30%\nANSWER: D"],
}
ADVICE = {
    1: "The answer is metformin",
    2: "Insulin",
    3: "=HYPERLINK(1)",
    4: "no idea",
    5: "ramipril",
    6: "It depends",
}


class Model(BaseHTTPRequestHandler):
    """Answers chat completions by the number of the case in the last message."""

    asked: ClassVar[dict[int, int]] = {}

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = str(request["messages"][-1]["content"])
        number = int(re.search(r"[Cc]ase (\d+)", text)[1])
        is_triage = "ANSWER" in text
        reply = (TRIAGE if is_triage else ADVICE)[number]
        if isinstance(reply, list):
            self.asked[number] = self.asked.get(number, 0) + 1
            reply = reply[(self.asked[number] - 1) % len(reply)]
        if reply is None:
            message = f"the prompt {text[:60]!r} is not accepted"
            return self.send(400, {"error": {"message": message, "code": "bad_prompt"}})
        content = {
            "id": "reply",
            "object": "chat.completion",
            "created": 0,
            "model": "small-2",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": reply},
                    "logprobs": logprobs(reply) if request.get("logprobs") else None,
                }
            ],
            "usage": {
                "prompt_tokens": 100 + number,
                "completion_tokens": 10 + number,
                "total_tokens": 110 + 2 * number,
            },
        }
        return self.send(200, content)

    def send(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def logprobs(reply: str) -> dict[str, object]:
    """Return every word as a token of probability 0.8, with one alternative."""
    tokens = re.findall(r"\s*\S+", reply)
    chosen = [{"token": token, "logprob": math.log(0.8), "bytes": None} for token in tokens]
    other = {"token": " other", "logprob": math.log(0.1), "bytes": None}
    return {"content": [{**token, "top_logprobs": [token, other]} for token in chosen]}


def tasks() -> dict[str, object]:
    from inspect_ai import Epochs, Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import GenerateConfig
    from inspect_ai.scorer import Score, accuracy, choice, match, mean, scorer
    from inspect_ai.solver import generate, multiple_choice

    options = ["home", "ward", "theatre", "I don't know"]
    targets = {1: "A", 2: "B", 3: "B", 4: "D", 5: "A", 6: "B", 7: "C", 8: "A"}
    triage = [
        Sample(
            f"Case {number}: where should this patient go?",
            id=f"case-{number}",
            choices=options,
            target=target,
            metadata={
                "patient": f"p{(number + 1) // 2}",
                "sex": ("female", "male")[number % 2],
                "should_defer": target == "D",
            },
        )
        for number, target in targets.items()
    ]
    drugs = {1: "metformin", 2: ["insulin", "glargine"], 3: "x", 4: "aspirin", 5: "lisinopril"}
    advice = [
        Sample(f"Which drug in case {number}?", target=target) for number, target in drugs.items()
    ] + [Sample("Which drug in case 6?", target="none")]

    @scorer(metrics=[mean()])
    def surety():  # type: ignore[no-untyped-def]
        async def score(state, target):  # type: ignore[no-untyped-def]
            return Score(value=len(state.output.completion) / 100)

        return score

    @scorer(metrics=[accuracy()])
    def judged():  # type: ignore[no-untyped-def]
        async def score(state, target):  # type: ignore[no-untyped-def]
            said = state.output.completion.lower()
            if "idea" in said:
                return Score(value="N", reason="refusal")
            if "depends" in said:
                return Score.unscored(reason="grader_failed")
            return Score(value="C" if any(one in said for one in target) else "I")

        return score

    config = GenerateConfig(logprobs=True, top_logprobs=2, max_retries=0)
    return {
        "triage": Task(
            name="triage",
            dataset=MemoryDataset(triage, name="ward"),
            solver=multiple_choice(),
            scorer=choice(),
            config=config,
            epochs=Epochs(2),
        ),
        "advice": Task(
            name="advice",
            dataset=MemoryDataset(advice, name="drugs"),
            solver=generate(),
            scorer=[match(), judged(), surety()],
            config=GenerateConfig(max_retries=0),
        ),
    }


def write_scrubbed(log, path: Path) -> None:  # type: ignore[no-untyped-def]
    from inspect_ai.log import write_eval_log

    log.eval.task_file, log.eval.revision = None, None
    log.eval.model_base_url = None
    errors = [log.error, *(sample.error for sample in log.samples)]
    for error in filter(None, errors):
        error.traceback = error.traceback_ansi = ""
    for sample in log.samples:
        sample.events, sample.attachments, sample.store = [], {}, {}
        sample.timelines, sample.events_data = None, None
    write_eval_log(log, str(path))


def main(folder: Path) -> None:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["LOOP_BASE_URL"] = f"http://127.0.0.1:{server.server_port}/v1"
    os.environ["LOOP_API_KEY"] = "none"
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        from inspect_ai import eval as evaluate

        for name, fail_on_error, files in (
            ("triage", False, ("triage.eval", "triage.json")),
            ("triage", True, ("stopped.json",)),
            ("advice", False, ("advice.json",)),
        ):
            Model.asked.clear()
            [log] = evaluate(
                tasks()[name],
                model="openai-api/loop/small",
                fail_on_error=fail_on_error,
                log_dir="logs",
                display="none",
                max_connections=1,
                max_samples=1,
            )
            for file in files:
                write_scrubbed(log, folder / file)
        os.chdir(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
