"""`krisis info`: everything that can be named, or one suite, backend or metric in full."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator

import typer

from krisis.cli.help import command, in_two_columns, new_app
from krisis.cli.info_facts import facts_of, listed_names
from krisis.cli.streams import echo_json, echo_lines
from krisis.errors import InvalidValue, install_command
from krisis.json_values import JsonMapping, JsonObject, dumps

app = new_app()
_LABEL_COLUMN = 12
_WIDEST = 100
# Answers in more letters than this are shown without their meaning, unless one task is asked for.
_MOST_OF_ANSWERS = 200


@command(
    app,
    "krisis info",
    "krisis info ckd --task staging",
    "krisis info clinic.yaml",
    "krisis info openai",
    "krisis info accuracy",
)
def info(
    name: str | None = typer.Argument(
        None, help="A suite, its YAML file, a backend or a metric; without it, all are listed."
    ),
    task: str | None = typer.Option(None, "--task"),
    as_json: bool = typer.Option(False, "--json"),
) -> None:
    """List suites, backends and metrics, or describe one of them and what to type first."""
    if name is None and task is not None:
        raise InvalidValue(f"--task {task} is of a suite; type: krisis info SUITE --task {task}")
    facts = listed_names() if name is None else facts_of(name, task)
    if task is not None and facts["of"] == "suite":
        facts["tasks"] = [one for one in facts["tasks"] if one["name"] == facts["loaded"]["task"]]
    elif task is not None:
        raise InvalidValue(f"--task is for suites, and {name} is a {facts['of']}; leave it out")
    if as_json:
        echo_json(dumps(facts))
        return
    lines = {"names": _names, "suite": _suite}.get(facts["of"], _other)(facts)
    echo_lines([*lines, "", f"Type next: {facts['first_command']}"] if name else lines)


def _names(facts: JsonObject) -> Iterator[str]:
    for suite in facts["suites"]:
        yield f"Suite {suite['name']}"
        yield from _field("", suite["about"])
        if suite["tasks"]:
            yield from _field("tasks", ", ".join(suite["tasks"]))
        yield from _field("type", suite["first_command"])
        yield ""
    for kind in ("backends", "metrics", "bundles"):
        yield kind.capitalize()
        rows = [(one["name"], one["about"]) for one in facts[kind]]
        column = max(len(name) for name, _ in rows)
        yield from in_two_columns(rows, column, min(shutil.get_terminal_size().columns, _WIDEST))
        yield ""
    yield "To see one of them in full, type its name: krisis info ckd"


def _suite(facts: JsonObject) -> Iterator[str]:
    yield facts["name"]
    yield from _field("", facts["about"])
    for task in facts["tasks"]:
        yield ""
        yield f"Task {task['name']}"
        yield from _task(task, whole=len(facts["tasks"]) == 1)
    yield ""
    yield f"Records of the task {facts['loaded']['task']}"
    yield from _records(facts["loaded"], facts["tasks"])
    if facts["terms"]:
        yield from _field("terms", facts["terms"])
    yield ""
    yield "Options"
    for option in facts["options"]:
        yield from _option(option)
    yield ""
    yield from _field("baselines", ", ".join(facts["baselines"]) or "none", indent=0)
    if facts["rules"]:
        yield from _field("rules", ", ".join(facts["rules"]), indent=0)
    if len(facts["tasks"]) > 1:
        last = facts["tasks"][-1]["name"]
        yield from _field(
            "", f"To see a task whole, type: krisis info {facts['name']} --task {last}", indent=0
        )


def _task(task: JsonMapping, *, whole: bool) -> Iterator[str]:
    """Return what a task asks; of several, each in short."""
    answers = [f"{a}: {words}" if words != a else a for a, words in task["answers"].items()]
    if not whole:
        yield from _field("question", _sentences(task["question"], 1) or "not stated")
        is_long = sum(map(len, answers)) > _MOST_OF_ANSWERS
        yield from _field("answers", ", ".join(task["answers"]) if is_long else "; ".join(answers))
        yield from _field("abstain", _sentences(task["abstain_when"], 2))
    else:
        yield from _field("question", task["question"] or "not stated")
        for position, answer in enumerate(answers):
            yield from _field(" " if position else "answers", answer)
        yield from _field("abstain", task["abstain_when"])
        yield from _field("groups", ", ".join(task["groups"]) or "none")
    if task["headline"]:
        yield from _field("headline", task["headline"])


def _sentences(text: str, n_sentences: int) -> str:
    return " ".join(re.split(r"(?<=[.?]) (?=[A-Z'])", text)[:n_sentences])


def _records(loaded: JsonMapping, tasks: Iterable[JsonMapping]) -> Iterator[str]:
    if loaded["missing"]:
        yield from _field("missing", loaded["missing"])
        return
    task = next(one for one in tasks if one["name"] == loaded["task"])
    counted = _counted(loaded["n_records"], task["unit"])
    if loaded["n_patients"] is not None:
        counted += f" of {_counted(loaded['n_patients'], task['person'])}"
    if loaded["n_to_defer"] is not None:
        counted += f", of which {loaded['n_to_defer']:,} should be deferred"
    yield from _field("size", counted)
    for label, name in (("labels", "labels"), ("deferral", "deferral_reasons")):
        if loaded[name]:
            parts = (f"{reason} {n:,}" for reason, n in loaded[name].items())
            yield from _field(label, ", ".join(parts))
    for name in ("source", "licence", "sha256", "account"):
        if loaded[name]:
            yield from _field(name, str(loaded[name]))
    if not loaded["sha256"]:
        yield from _field("sha256", f"{loaded['content_hash']} (of the records)")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _option(option: JsonMapping) -> Iterator[str]:
    default = option["default"]
    if isinstance(default, bool):
        default = "on" if default else "off"
    words = option["meaning"] or "not described"
    yield f"  {option['typed']}"
    yield from _wrapped(words if default is None else f"{words}; default: {default}", 6)


def _other(facts: JsonObject) -> Iterator[str]:
    yield f"{facts['name']} ({facts.get('label') or facts['of']})"
    for paragraph in facts["about"]:
        yield from _field("", paragraph)
    if facts["of"] == "metric":
        yield from _field("better", facts["direction"])
    if "extra" in facts:
        missing = f"missing; type: {install_command(facts['extra'])}"
        yield from _field("installed", "yes" if facts["is_installed"] else missing)
    if "key_variables" in facts:
        for variable, is_set in facts["key_variables"].items():
            yield from _field("key", f"{variable} is {'set' if is_set else 'not set'}")
        unstated = "that of --base-url" if facts["needs_address"] else "its SDK's, or --base-url"
        yield from _field("address", facts["address"] or unstated)
        yield from _field("batches", "yes" if facts["has_provider_batches"] else "no")


def _field(label: str, words: str, *, indent: int = 2) -> Iterator[str]:
    """Return a line with a label, and the rest of the words below it."""
    if not label:
        yield from _wrapped(words, indent)
        return
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    start = f"{' ' * indent}{label:{_LABEL_COLUMN - 2}}  "
    yield from textwrap.wrap(words, width, initial_indent=start, subsequent_indent=" " * len(start))


def _wrapped(words: str, indent: int) -> list[str]:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    space = " " * indent
    return textwrap.wrap(words, width, initial_indent=space, subsequent_indent=space)
