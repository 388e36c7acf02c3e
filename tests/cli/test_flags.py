"""Every option has one name, one meaning and one help text, whichever command has it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer

from krisis.cli.app import COMMANDS
from krisis.cli.flags import FLAGS
from krisis.cli.help import _meaning, value_of
from krisis.cli.run_options import flag_of
from krisis.execution.config import RunConfig

SETTINGS = {flag_of(name) for name in RunConfig.model_fields}
# Names that an option once had besides the one that it has now.
GONE = {
    *("--answer-from", "--baseline", "--" + "out", "--input", "--cluster-column", "--reader-run"),
}


def options() -> Iterator[tuple[str, str, Any]]:
    """Yield every option of every command: the command, the longest name, the option."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, str, Any]]:
        for name, one in getattr(command, "commands", {}).items():
            yield from walk(one, f"{path} {name}")
        for one in () if getattr(command, "commands", None) else command.params:
            if one.param_type_name == "option" and one.name != "help":
                yield path, max(one.opts, key=len), one

    for name, (module, _) in COMMANDS.items():
        yield from walk(typer.main.get_command(import_module(module).app), name)


ALL = list(options())


def test_no_option_has_two_help_texts_or_values() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for command, flag, option in ALL:
        text = _meaning(option).partition(" Default: ")[0].replace("; repeatable.", ".")
        assert text, f"krisis {command} {flag} has no help text"
        known = seen.setdefault(flag, (text, command))
        assert known[0] == text, f"{flag}: krisis {known[1]} and krisis {command} differ"


def test_every_option_is_in_the_table_or_a_setting_of_a_run() -> None:
    found = {flag for _, flag, _ in ALL}
    suites_own = {"--n-patients", "--with-sex", "--cohort", "--n-participants", "--labels"}
    assert found - SETTINGS - suites_own - set(FLAGS) == set()
    assert set(FLAGS) - found == set(), "an option in the table that no command has"
    for command, flag, option in ALL:
        if not option.is_flag:
            assert value_of(option) != "VALUE", f"krisis {command} {flag}"


def test_one_thing_has_one_name() -> None:
    found = {flag for _, flag, _ in ALL}
    assert not found & GONE
    by_text: dict[str, str] = {}
    for flag, (_, text) in FLAGS.items():
        assert by_text.setdefault(text, flag) == flag, f"{flag} and {by_text[text]} mean the same"


@pytest.mark.parametrize(
    ("flag", "commands"),
    [
        ("--risk", {"audit", "certify", "decide", "plan"}),
        ("--price", {"run", "import", "show", "compare", "report", "decide", "certify"}),
        ("--cluster", {"run", "resume"}),
        ("--patient", {"import", "forget"}),
        ("--features", {"run"}),
        ("--confidence", {"selective", "certify", "verify", "decide", "audit", "report", "import"}),
    ],
)
def test_an_option_that_had_two_meanings_is_where_its_one_meaning_is(
    flag: str, commands: set[str]
) -> None:
    assert {command for command, one, _ in ALL if one == flag} == commands
