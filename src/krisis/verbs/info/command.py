"""`krisis info`: everything that can be named, or one suite, backend or metric in full."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping

import typer

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.backends.provider import ProviderBackend, is_installed
from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.cli.run_options import flag_of
from krisis.cli.streams import echo_json
from krisis.data.base import BaseDataSuite, Task
from krisis.data.instructions import abstention_text
from krisis.display import TextOrJson
from krisis.errors import (
    InvalidValue,
    MissingExtra,
    PlugInFault,
    UnknownName,
    install_command,
    suggestion,
)
from krisis.execution.assembly import suite_of
from krisis.execution.config import RunConfig, checked_config
from krisis.json_values import JsonMapping, JsonObject, JsonValue, dumps, plain
from krisis.metrics.base import BaseMetric
from krisis.pages.document import Content, Document, Facts, Section, Sentences
from krisis.pages.numbers import count

app = new_app()
Pairs = Iterator[tuple[str, str]]
_NAMED: tuple[registry.Kind, ...] = ("backends", "metrics", "bundles")
# Answers in more letters than this are shown without their meaning, unless one task is asked for.
_MOST_OF_ANSWERS = 200
# Of more records than this, the patients are not counted.
_MOST_COUNTED = 100_000
# What every suite understands, and where it is left out because the suite does not support it.
# The options of a suite that have a flag of their own; all others are given as --suite-option.
_FLAGS = {
    **{name: name for name in ("data_path", "sex", "mode")},
    "data": "data_path",
}
# What stands for the backend where its name alone does not run.
_MODELS = {
    "rule": "rule/guideline",
    "compatible": "compatible/NAME --base-url http://localhost:8000/v1",
}


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
    document = _everything() if name is None else info_document(name, task)
    if output_format is TextOrJson.JSON:
        echo_json(dumps(_by_section(document)))
    else:
        print_document(document, verbose=True)


def _by_section(document: Document) -> JsonObject:
    """Return what is printed as JSON: of each section its sentences, and its facts in pairs."""
    sections: JsonObject = {
        section.title: [
            list(part.lines if isinstance(part, Sentences) else map(list, part.pairs))
            for part in section.parts
            if isinstance(part, Sentences | Facts)
        ]
        for section in document.sections
    }
    return {"title": document.title, "sections": sections, "commands": list(document.commands)}


def info_document(name: str, task: str | None = None) -> Document:
    """Return what is known under a name, whichever kind of thing it is."""
    found = _find(name)
    kinds = {BaseBackend: "backend", BaseMetric: "metric", BaseDataSuite: "suite"}
    base = next((one for one in kinds if isinstance(found, type) and issubclass(found, one)), None)
    kind = "suite file" if name == "table" else kinds[base] if base else "bundle"
    if kind == "suite" or found is None:
        return _suite(name, task)
    if task is not None:
        raise InvalidValue(f"--task is for suites, and {name} is a {kind}; leave it out")
    short = name if registry.is_place(name) else name.partition("/")[0].partition("[")[0]
    if kind == "backend":
        return _one(short, kind, found, _backend(short, found), _backend_command(short, found))
    if kind == "suite file":
        return _one(name, kind, found, (), _suite_command(name))
    label, better = (found.name, [("better", found.direction)]) if base else (kind, [])
    return _one(short, label, found, better, f"krisis show runs/RUN -m {short}")


def _find(name: str) -> JsonValue:
    """Return the class or bundle of a name; None of a suite that only its file describes."""
    if registry.is_suite_file(name):
        return None
    if registry.is_place(name):
        return registry.find_or_load("suites", name)
    family = name.partition("/")[0].partition("[")[0]
    kinds: tuple[registry.Kind, ...] = ("suites", *_NAMED)
    for kind in kinds:
        if (name if kind == "suites" else family) in registry.table(kind):
            return registry.find(kind, name if kind == "suites" else family)
    missing = f"no suite, backend or metric is called {name!r}"
    for suite in registry.names("suites"):
        if name in registry.find("suites", suite).tasks:
            raise UnknownName(f"{missing}; for the task, type: krisis info {suite} --task {name}")
    known = [one for kind in kinds for one in registry.table(kind)]
    raise UnknownName(f"{missing}{suggestion(name, known)} To see them, type: krisis info")


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


def _one(
    name: str, kind: str, found: JsonValue, pairs: Iterable[tuple[str, str]], first_command: str
) -> Document:
    """Return what the documentation of a class or function says, and its facts."""
    return Document(
        title=f"{name} ({kind})",
        sections=[_section("About", _about(found), pairs)],
        commands=[f"Type next: {first_command}"],
    )


def _about(found: JsonValue) -> list[str]:
    """Return the paragraphs of a documentation string that are words, not examples."""
    # A class of one's own that says nothing is not described in the words of its base class.
    text = inspect.cleandoc(found.__doc__ or "")
    paragraphs = text.replace("``", "`").split("\n\n")
    words = [" ".join(part.split()) for part in paragraphs if not part.lstrip().startswith(">" * 3)]
    return [re.sub(r":class:`~?([\w.]+)`", r"\1", one) for one in words if one]


def _summary(found: JsonValue) -> str:
    return (inspect.getdoc(found) or "").split("\n")[0].replace("``", "`")


# --- Everything ------------------------------------------------------------------------------


def _everything() -> Document:
    """Return everything that can be named, plug-ins included, without loading any data."""
    sections = []
    for name in registry.names("suites"):
        try:
            kind = registry.find("suites", name)
        except (MissingExtra, PlugInFault) as error:
            sections.append(_section(f"Suite {name}", [str(error)]))
            continue
        tasks = [("tasks", ", ".join(kind.tasks))] if kind.tasks else []
        pairs = [*tasks, ("type", _suite_command(name))]
        sections.append(_section(f"Suite {name}", [_summary(kind)], pairs))
    for kind in _NAMED:
        lines = [(name, _line(kind, name)) for name in registry.names(kind)]
        sections.append(_section(kind.capitalize(), pairs=lines))
    return Document(
        title="What can be named: suites, backends, metrics and bundles",
        sections=sections,
        commands=["To see one of them in full, type its name: krisis info ckd"],
    )


def _line(kind: registry.Kind, name: str) -> str:
    try:
        found = registry.find(kind, name)
    except (MissingExtra, PlugInFault) as error:
        return str(error)
    direction = getattr(found, "direction", "")
    better = f" ({direction} is better)" if direction in ("higher", "lower") else ""
    return f"{_summary(found)}{better}"


# --- A suite ---------------------------------------------------------------------------------


def _suite(name: str, task: str | None) -> Document:
    """Return everything about a suite; the records of one task are loaded."""
    suite = _made(name, task=task)
    others = {one: _made(name, task=one) for one in suite.tasks if one != suite.config.task}
    tasks = [_task_of(one, others.get(one, suite)) for one in suite.tasks] or [suite.task]
    shown = tasks if task is None else [suite.task]
    whole = f"To see a task whole, type: krisis info {name} --task {shown[-1].name}"
    typed = _suite_command(name, suite) + (f" --task {suite.config.task}" if task else "")
    rules = [("rules", ", ".join(suite.rules))] if suite.rules else []
    baselines = [("baselines", ", ".join(suite.baselines) or "none"), *rules]
    return Document(
        title=name,
        sections=[
            _section("About", [_summary(type(suite))]),
            *(_section(f"Task {one.name}", pairs=_task(one, not shown[1:])) for one in shown),
            _section(f"Records of the task {suite.task.name}", pairs=_records(suite)),
            _section("Options", pairs=_options(name, suite)),
            _section("Baselines and rules", pairs=baselines),
        ],
        commands=[*([whole] if shown[1:] else []), f"Type next: {typed}"],
    )


def _made(name: str, **chosen: JsonValue) -> BaseDataSuite:
    given = {option: value for option, value in chosen.items() if value is not None}
    return suite_of(checked_config({"suite": name, "model": "always-abstain", **given}, name))


def _task_of(name: str, suite: BaseDataSuite) -> Task:
    """Return the task of a suite; one that is worded from data needs what reads them."""
    try:
        return suite.task
    except MissingExtra as error:
        return Task(name, str(error))


def _task(task: Task, whole: bool) -> Pairs:
    """Return what a task asks; of several, each in short."""
    words = {str(answer): meaning for answer, meaning in task.answers.items()}
    answers = [f"{a}: {meaning}" if meaning != a else a for a, meaning in words.items()]
    if not whole:
        yield "question", _sentences(task.question, 1) or "not stated"
        is_long = sum(map(len, answers)) > _MOST_OF_ANSWERS
        yield "answers", ", ".join(words) if is_long else "; ".join(answers)
        yield "abstain", _sentences(abstention_text(task), 2)
    else:
        yield "question", task.question or "not stated"
        for position, answer in enumerate(answers):
            yield "" if position else "answers", answer
        yield "abstain", abstention_text(task)
        yield "groups", ", ".join(task.groups) or "none"
    if task.metrics:
        yield "headline", task.metrics[0]


def _sentences(text: str, n_sentences: int) -> str:
    return " ".join(re.split(r"(?<=[.?]) (?=[A-Z'])", text)[:n_sentences])


def _records(suite: BaseDataSuite) -> Pairs:
    """Return what a suite says of its records, or what must be installed to read them."""
    try:
        described = suite.describe()
    except MissingExtra as error:
        described = {}
        yield "missing", str(error)
    else:
        yield "size", _size(suite, described)
        words = {str(answer): meaning for answer, meaning in suite.task.answers.items()}
        reasons = described.get("abstain_reasons") or described.get("deferral_reasons")
        for label, counts in (("labels", described.get("labels")), ("deferral", reasons)):
            found = {one.replace("_", " "): n for one, n in (counts or {}).items()}
            if found:
                yield label, "; ".join(f"{words.get(a, a)}: {count(n)}" for a, n in found.items())
        yield from _source(described)
    if terms := suite.terms or ("" if described.get("account") else suite.notice):
        yield "terms", terms


def _size(suite: BaseDataSuite, described: JsonMapping) -> str:
    n_records, task = int(described["n_records"]), suite.task
    text = _counted(n_records, task.unit)
    if n_records <= _MOST_COUNTED:
        patients = {one.cluster_id or position for position, one in enumerate(suite.records())}
        text += f" of {_counted(len(patients), task.person)}"
    if (n_to_defer := described.get("n_should_abstain")) is not None:
        text += f", of which {count(n_to_defer)} should be deferred"
    return text


def _counted(number: int, thing: str) -> str:
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def _source(described: JsonMapping) -> Pairs:
    """Return source, licence and hash of the data, wherever a suite states them."""
    stated: JsonValue = described.get("provenance")
    is_listed = isinstance(stated, list) and stated and isinstance(stated[0], Mapping)
    first: JsonMapping = stated[0] if is_listed else {}
    known = {
        "source": first.get("source") or (stated if isinstance(stated, str) else None),
        "licence": first.get("licence") or described.get("licence"),
        "sha256": first.get("sha256") or described.get("data_sha256"),
        "account": described.get("account"),
    }
    yield from ((name, str(value)) for name, value in known.items() if value)
    if not known["sha256"]:
        yield "sha256", f"{described.get('content_hash')} (of the records)"


def _options(name: str, suite: BaseDataSuite) -> Pairs:
    """Return the options of a suite: how each is given, its meaning and its default."""
    parameters = inspect.signature(type(suite)).parameters
    config = suite.config
    defaults: dict[str, JsonValue] = {
        "seed": config.seed,
        "n_synthetic": config.synthetic_count,
        "test_size": config.held_out_share,
        "features": config.features.value,
    }
    for option, default in defaults.items() if "config" in parameters else ():
        if _takes(name, option, default):
            words = (RunConfig.model_fields[option].description or "").rstrip(".")
            yield _option(flag_of(option), default, words)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for option, parameter in parameters.items():
        if option in ("config", "path") or parameter.kind not in named:
            continue
        flag = _FLAGS.get(option)
        has_default = parameter.default is not inspect.Parameter.empty
        default = plain(parameter.default) if has_default else None
        typed = f"--suite-option {option}=…" if flag is None else flag_of(flag)
        yield _option(typed, default, suite.option_words.get(option, ""))


def _option(typed: str, default: JsonValue, meaning: str) -> tuple[str, str]:
    if isinstance(default, bool):
        default = "on" if default else "off"
    words = meaning or "not described"
    return typed, words if default is None else f"{words}; default: {default}"


def _takes(suite: str, option: str, value: JsonValue) -> bool:
    """Say whether a suite has a use for an option: one that has none refuses it."""
    try:
        _made(suite, **{option: "full" if option == "features" else value})
    except InvalidValue:
        return False
    return True


def _suite_command(name: str, suite: BaseDataSuite | None = None) -> str:
    """Return what to type first: a baseline that needs no key."""
    if name == "table":
        return "krisis init patients.csv"
    kind = suite or registry.find_or_load("suites", name)
    own = [one for one in kind.baselines if not one.startswith(("always-", "rule/", "logistic"))]
    return f"krisis run {name} --model {own[-1] if own else 'always-abstain'}"


# --- A backend -------------------------------------------------------------------------------


def _backend(name: str, kind: type[BaseBackend]) -> Pairs:
    """Return everything about a backend, without asking or loading a model."""
    if kind.extra:
        missing = f"missing; type: {install_command(kind.extra)}"
        yield "installed", "yes" if is_installed(kind.sdk) else missing
    if issubclass(kind, ProviderBackend):
        for variable in kind.key_variables:
            yield "key", f"{variable} is {'set' if os.environ.get(variable) else 'not set'}"
        unstated = "that of --base-url" if name == "compatible" else "its SDK's, or --base-url"
        yield "address", kind.default_base_url or unstated
        yield "batches", "yes" if kind.batch_api is not None else "no"


def _backend_command(name: str, kind: type[BaseBackend]) -> str:
    if issubclass(kind, ChatBackend):
        takes_model = "model" in registry.options_of(kind)[0]
        typed = f"{name}/NAME" if takes_model and not registry.is_place(name) else name
        return f"krisis run ckd --model {_MODELS.get(name, typed)} --limit 20 --dry-run"
    # The first suite that names it among its baselines; most take any suite.
    named = (
        suite
        for suite in registry.names("suites")
        if suite != "table" and name in registry.find("suites", suite).baselines
    )
    return f"krisis run {next(named, 'ckd')} --model {_MODELS.get(name, name)}"
