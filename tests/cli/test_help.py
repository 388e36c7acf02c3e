"""Every `--help` has one look, in words that a user of no programming language understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.commands import krisis

from krisis.cli.app import COMMANDS, GROUPS, app
from krisis.cli.help import value_of
from krisis.cli.run_options import GROUPS as OPTION_GROUPS
from krisis.cli.run_options import flag_of
from krisis.execution.config import RunConfig

# What a program calls its values, which a help must not; `<str>`, `list[Path]`, `None`.
_PROGRAMMERS_WORDS = re.compile(
    r"<\w+[>|\[ ]|\b(bool|boolean|str|int|float|dict|tuple|NoneType|None|True|False)\b|list\[|\['"
)


def _inside(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _inside(child, f"{path} {name}")


@cache
def commands() -> dict[str, Any]:
    """Return every command and what is under it, by what is typed."""
    found: dict[str, Any] = {}
    for name, (module, _) in COMMANDS.items():
        made = typer.main.get_command(import_module(module).app)
        found |= dict(_inside(made, f"krisis {name}"))
    return found


@cache
def page(path: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        done = krisis(*path.split()[1:], "--help", cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def examples(path: str) -> list[str]:
    lines = page(path)
    start = lines.index("Examples:") if "Examples:" in lines else len(lines)
    return [line.strip() for line in lines[start + 1 :] if line.startswith("  ")]


@pytest.mark.parametrize("path", ["krisis", *commands()])
def test_a_help_fits_eighty_columns_and_names_no_type_of_python(path: str) -> None:
    lines = page(path)
    assert lines[0].startswith(f"Usage: {path}")
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if _PROGRAMMERS_WORDS.search(line)] == []
    assert not any("─" in line or " | " in line for line in lines), "boxes, or examples in a row"
    assert not any("Default: [" in line or "Default: (" in line for line in lines)


@pytest.mark.parametrize("path", [path for path, one in commands().items() if one.callback])
def test_every_option_says_what_it_means_and_what_is_given_to_it(path: str) -> None:
    command = commands()[path]
    if getattr(command, "commands", {}):
        return
    for parameter in command.params:
        assert parameter.help, f"{path} {parameter.name} has no words"
        is_flag = getattr(parameter, "is_flag", False)
        assert is_flag or value_of(parameter) != "VALUE", f"{path} {parameter.opts}: see VALUES"


@pytest.mark.parametrize(
    "path", ["krisis", *(path for path, one in commands().items() if not hasattr(one, "commands"))]
)
def test_the_examples_of_a_help_are_commands_that_can_be_typed(path: str) -> None:
    found = examples(path)
    assert found
    assert any(example.startswith(path) for example in found)
    for example in found:
        _, name, *words = shlex.split(example)
        command: Any = typer.main.get_command(import_module(COMMANDS[name][0]).app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        command.make_context(name, words)  # raises where an option or argument is wrong


def test_the_first_help_shows_every_command_in_one_of_five_groups() -> None:
    lines = page("krisis")
    assert list(GROUPS) == ["Evaluate", "Look", "Decide", "Data", "Maintain"]
    for group, commands_of_it in GROUPS.items():
        start = lines.index(f"{group}:")
        shown = [line.split()[0] for line in lines[start + 1 : start + 1 + len(commands_of_it)]]
        assert shown == list(commands_of_it)
        assert lines[start + 1 + len(commands_of_it)] == ""
    assert any(line.startswith("New here? Type: krisis run ckd") for line in lines)
    assert len(lines) <= 60


def test_the_help_of_run_fits_two_screens_and_has_every_setting_in_one_group() -> None:
    lines = page("krisis run")
    assert len(lines) <= 90
    grouped = [name for options in OPTION_GROUPS.values() for name in options]
    assert len(grouped) == len(set(grouped))
    assert set(RunConfig.model_fields) - {"suite"} <= set(grouped)
    shown = re.findall(r"--(?:\[no-\])?([a-z-]+)", "\n".join(lines))
    for name in set(RunConfig.model_fields) - {"suite"}:
        assert flag_of(name).removeprefix("--") in shown
    titles = [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z][\w ]*:", line)]
    assert titles == ["Arguments", *OPTION_GROUPS, "Examples"]
    assert "Speed:" in page("krisis resume")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["shwo"], "no such command 'shwo' (did you mean 'show'?); type: krisis --help"),
        (["run", "ckd", "--modle", "x"], "no such option: --modle (did you mean --mode or --model"),
        (["run", "--seed", "x"], "--seed takes a whole number, not 'x'; type: krisis run --help"),
        (["run", "ckd", "--model"], "'--model' requires an argument; type: krisis run --help"),
        (["view", "--port", "99999"], "--port must be less than or equal to 65535, not '99999'"),
        (["export", "a", "--to", "cvs"], "unknown format 'cvs'; did you mean 'csv'?"),
        (["run"], "suite is missing; type for instance: krisis run ckd --model guideline"),
        (["run", "phq8"], "type for instance: krisis run phq8 --model guideline, or --model"),
        (["run", "ckd", "--model", "gpt-4o"], "with its provider, such as openai/gpt-4o"),
        (["run", "ckd", "--model", "guidline"], "did you mean 'guideline'?"),
        (["run", "ckd", "--model", "guideline", "--limit", "0"], "limit: it must be greater"),
        (["run", "ckd", "--model", "guideline", "--mode", "few_shot"], "does not support mode"),
        (["view"], "or type: krisis run ckd --model guideline"),
        (["compare"], "RUN is missing; type: krisis compare --help"),
        (["show"], "RUN is missing; type: krisis show --help"),
        (["calibrate"], "RUN is missing; type: krisis calibrate --help"),
        (["plan", "certfy"], "'certfy'; did you mean 'certify'?"),
        (["--debugg"], "no such option: --debugg (did you mean --debug?); type: krisis --help"),
    ],
)
def test_a_mistyped_command_is_answered_with_one_sentence(
    typed: list[str], sentence: str, tmp_path: Path
) -> None:
    done = krisis(*typed, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.startswith("krisis: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_no_command_at_all_shows_the_help(tmp_path: Path) -> None:
    assert "Evaluate:" in krisis(cwd=tmp_path).stderr
    assert app.info.no_args_is_help
