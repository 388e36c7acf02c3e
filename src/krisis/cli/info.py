"""`krisis info`: everything that can be named, or one suite, backend or metric in full."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import typer

from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.cli.info_facts import facts_of, listed_names
from krisis.cli.streams import echo_json
from krisis.display import TextOrJson
from krisis.errors import InvalidValue, install_command
from krisis.json_values import JsonMapping, JsonObject, dumps
from krisis.pages.document import Content, Document, Facts, Section, Sentences
from krisis.pages.numbers import count

app = new_app()
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
    output_format: TextOrJson = typer.Option(TextOrJson.TABLE, "--format"),
) -> None:
    """List suites, backends and metrics, or describe one of them and what to type first."""
    if name is None and task is not None:
        raise InvalidValue(f"--task {task} is of a suite; type: krisis info SUITE --task {task}")
    facts = listed_names() if name is None else facts_of(name, task)
    if task is not None and facts["of"] == "suite":
        facts["tasks"] = [one for one in facts["tasks"] if one["name"] == facts["loaded"]["task"]]
    elif task is not None:
        raise InvalidValue(f"--task is for suites, and {name} is a {facts['of']}; leave it out")
    if output_format is TextOrJson.JSON:
        echo_json(dumps(facts))
        return
    made = {"names": _names, "suite": _suite}.get(facts["of"], _other)
    print_document(made(facts), verbose=True)


Pairs = Iterator[tuple[str, str]]


def _section(
    title: str, about: Iterable[str] = (), pairs: Iterable[tuple[str, str]] = ()
) -> Section:
    """Return sentences and then facts under a title."""
    said, known = [one for one in about if one], list(pairs)
    parts: list[Content] = [
        *([Sentences(said)] if said else []),
        *([Facts(known)] if known else []),
    ]
    return Section(key=title, title=title, parts=parts)


def _names(facts: JsonObject) -> Document:
    sections = []
    for suite in facts["suites"]:
        tasks = [("tasks", ", ".join(suite["tasks"]))] if suite["tasks"] else []
        pairs = [*tasks, ("type", suite["first_command"])]
        sections.append(_section(f"Suite {suite['name']}", [suite["about"]], pairs))
    for kind in ("backends", "metrics", "bundles"):
        known = [(one["name"], one["about"]) for one in facts[kind]]
        sections.append(_section(kind.capitalize(), pairs=known))
    return Document(
        title="What can be named: suites, backends, metrics and bundles",
        sections=sections,
        commands=["To see one of them in full, type its name: krisis info ckd"],
    )


def _suite(facts: JsonObject) -> Document:
    tasks, loaded = facts["tasks"], facts["loaded"]
    terms = [("terms", facts["terms"])] if facts["terms"] else []
    rules = [("rules", ", ".join(facts["rules"]))] if facts["rules"] else []
    whole = f"To see a task whole, type: krisis info {facts['name']} --task {tasks[-1]['name']}"
    baselines = ", ".join(facts["baselines"]) or "none"
    return Document(
        title=facts["name"],
        sections=[
            _section("About", [facts["about"]]),
            *(_section(f"Task {one['name']}", pairs=_task(one, not tasks[1:])) for one in tasks),
            _section(
                f"Records of the task {loaded['task']}", pairs=[*_records(loaded, tasks), *terms]
            ),
            _section("Options", pairs=map(_option, facts["options"])),
            _section("Baselines and rules", pairs=[("baselines", baselines), *rules]),
        ],
        commands=[*([whole] if tasks[1:] else []), f"Type next: {facts['first_command']}"],
    )


def _task(task: JsonMapping, whole: bool) -> Pairs:
    """Return what a task asks; of several, each in short."""
    answers = [f"{a}: {words}" if words != a else a for a, words in task["answers"].items()]
    if not whole:
        yield "question", _sentences(task["question"], 1) or "not stated"
        is_long = sum(map(len, answers)) > _MOST_OF_ANSWERS
        yield "answers", ", ".join(task["answers"]) if is_long else "; ".join(answers)
        yield "abstain", _sentences(task["abstain_when"], 2)
    else:
        yield "question", task["question"] or "not stated"
        for position, answer in enumerate(answers):
            yield "" if position else "answers", answer
        yield "abstain", task["abstain_when"]
        yield "groups", ", ".join(task["groups"]) or "none"
    if task["headline"]:
        yield "headline", task["headline"]


def _sentences(text: str, n_sentences: int) -> str:
    return " ".join(re.split(r"(?<=[.?]) (?=[A-Z'])", text)[:n_sentences])


def _records(loaded: JsonMapping, tasks: Iterable[JsonMapping]) -> Pairs:
    if loaded["missing"]:
        yield "missing", loaded["missing"]
        return
    task = next(one for one in tasks if one["name"] == loaded["task"])
    counted = _counted(loaded["n_records"], task["unit"])
    if loaded["n_patients"] is not None:
        counted += f" of {_counted(loaded['n_patients'], task['person'])}"
    if loaded["n_to_defer"] is not None:
        counted += f", of which {count(loaded['n_to_defer'])} should be deferred"
    yield "size", counted
    for label, name in (("labels", "labels"), ("deferral", "deferral_reasons")):
        found = {one.replace("_", " "): n for one, n in (loaded[name] or {}).items()}
        if found:
            words = (f"{task['answers'].get(one, one)}: {count(n)}" for one, n in found.items())
            yield label, "; ".join(words)
    for name in ("source", "licence", "sha256", "account"):
        if loaded[name]:
            yield name, str(loaded[name])
    if not loaded["sha256"]:
        yield "sha256", f"{loaded['content_hash']} (of the records)"


def _counted(number: int, thing: str) -> str:
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def _option(option: JsonMapping) -> tuple[str, str]:
    default = option["default"]
    if isinstance(default, bool):
        default = "on" if default else "off"
    words = option["meaning"] or "not described"
    return option["typed"], words if default is None else f"{words}; default: {default}"


def _other(facts: JsonObject) -> Document:
    section = _section("About", facts["about"], _known(facts))
    return Document(
        title=f"{facts['name']} ({facts.get('label') or facts['of']})",
        sections=[section],
        commands=[f"Type next: {facts['first_command']}"],
    )


def _known(facts: JsonObject) -> Pairs:
    if facts["of"] == "metric":
        yield "better", facts["direction"]
    if "extra" in facts:
        missing = f"missing; type: {install_command(facts['extra'])}"
        yield "installed", "yes" if facts["is_installed"] else missing
    if "key_variables" in facts:
        for variable, is_set in facts["key_variables"].items():
            yield "key", f"{variable} is {'set' if is_set else 'not set'}"
        unstated = "that of --base-url" if facts["needs_address"] else "its SDK's, or --base-url"
        yield "address", facts["address"] or unstated
        yield "batches", "yes" if facts["has_provider_batches"] else "no"
