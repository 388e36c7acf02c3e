"""The one look of every `--help`: what it does, its options in groups, examples one to a line."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from krisis.cli.flags import FLAGS
from krisis.errors import InvalidValue

Function = TypeVar("Function", bound=Callable[..., object])
# Typer and click's own page of help, which is shown in place of an error, are not exported.
_USAGE_ERROR: Any = typer.BadParameter.__base__
_NO_ARGUMENTS = "NoArgsIsHelpError"
_WIDEST = 100
# A name longer than this has its words on the next line.
_NAME_COLUMN = 30
_EXAMPLE = ("Example:", "Examples:")
# What to give, by the kind of value that was not understood.
_WANTED = {"int": "whole number", "float": "number"}


def new_app(about: str | None = None) -> typer.Typer:
    """Return the app of one command, or, with words ``about`` all of them, of several."""
    return typer.Typer(
        cls=HelpGroup,
        add_completion=False,
        no_args_is_help=about is not None,
        rich_markup_mode=None,
        help=about,
    )


def command(
    app: typer.Typer, *examples: str, name: str | None = None
) -> Callable[[Function], Function]:
    """Register a function as a command of an app; each of the examples is a line of its help."""
    return app.command(name, cls=HelpCommand, epilog="\n".join(examples))


class HelpCommand(TyperCommand):
    """A command whose help has the one look; what an option means is in the table of options."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for option in self.params:
            if option.param_type_name == "option" and _longest(option) in FLAGS:
                option.help = FLAGS[_longest(option)][1]  # type: ignore[attr-defined]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write("\n".join(_page(self, ctx)) + "\n")


class HelpGroup(TyperGroup):
    """Several commands whose help has the one look; each may name the group it is shown in."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write("\n".join(_page(self, ctx)) + "\n")


@contextmanager
def mistakes_in_one_sentence(ctx: Any = None) -> Iterator[None]:
    """Turn what is wrong with a command line into one sentence that says what to type."""
    try:
        yield
    except _USAGE_ERROR as error:
        if type(error).__name__ == _NO_ARGUMENTS:
            raise
        called = (ctx and ctx.invoked_subcommand) or ""
        path = f"krisis {called}".strip() if error.ctx in (None, ctx) else error.ctx.command_path
        raise InvalidValue(f"{_sentence(error)}; type: {path} --help") from None


def _sentence(error: Any) -> str:
    """Return the words of a usage error with its suggestions in one form."""
    parameter = getattr(error, "param", None)
    if parameter is not None and not error.message:
        name, help_text = _named(parameter), (getattr(parameter, "help", "") or "").rstrip(".")
        is_option = name.startswith("-") and help_text
        return f"{name} is missing" + (
            f" ({help_text[:1].lower()}{help_text[1:]})" * bool(is_option)
        )
    found = getattr(error.__cause__, "errors", None)
    if parameter is not None and found:
        first = found()[0]
        return _unfit(_named(parameter), first["type"], first["msg"], first["input"])
    near = getattr(error, "possibilities", None) or []
    said = (error.message if near else error.format_message()).rstrip(".?")
    said, asked, suggested = said.partition(". Did you mean ")
    if asked or near:
        said += f" (did you mean {suggested or ' or '.join(sorted(near))}?)"
    return f"{said[:1].lower()}{said[1:]}"


def _unfit(option: str, kind: str, message: str, received: object) -> str:
    """Say what an option takes that was given something else."""
    if wanted := _WANTED.get(kind.partition("_")[0]):
        return f"{option} takes a {wanted}, not {received!r}"
    if message.startswith("Input should"):
        return f"{option} {message.replace('Input should', 'must')}, not {received!r}"
    return f"{option}: {message.removeprefix('Value error, ').rstrip('.')}"


def _page(shown: Any, ctx: Any) -> list[str]:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    words, examples, last = _told(shown)
    lines = [*_usage(shown, ctx, width), ""]
    for paragraph in words:
        lines += [*_wrapped(paragraph, width, "  "), ""]
    sections = _sections(shown, ctx)
    entries = [name for rows in sections.values() for name, _ in rows]
    column = max((len(name) for name in entries if len(name) <= _NAME_COLUMN), default=0)
    for title, rows in sections.items():
        lines += [f"{title}:", *in_two_columns(rows, column, width), ""]
    if examples:
        lines += ["Examples:", *(f"  {example}" for example in examples), ""]
    return [*lines, *last] if last else lines[:-1]


def _told(shown: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the paragraphs of a help text, the examples in it or after it, and its last lines."""
    paragraphs = [" ".join(part.split()) for part in (shown.help or "").split("\n\n")]
    after = [line for line in (shown.epilog or "").splitlines() if line]
    examples = [line for line in after if line.startswith("krisis ")]
    last = [line for line in after if line not in examples]
    words = []
    for paragraph in filter(None, paragraphs):
        label, _, example = paragraph.partition(" ")
        if label in _EXAMPLE:
            examples.append(example.strip())
        else:
            words.append(paragraph)
    return words, examples, last


def _usage(shown: Any, ctx: Any, width: int) -> list[str]:
    pieces = []
    for parameter in shown.get_params(ctx):
        if parameter.param_type_name == "argument":
            value = value_of(parameter)
            pieces.append(value if parameter.required else f"[{value}]")
        elif parameter.required:
            pieces.append(f"{_longest(parameter)} {value_of(parameter)}")
    pieces.append("[OPTIONS]")
    if isinstance(shown, TyperGroup):
        pieces = ["COMMAND", "[OPTIONS]"]
    start = f"Usage: {ctx.command_path} "
    return textwrap.wrap(" ".join(pieces), width, initial_indent=start, subsequent_indent=" " * 7)


def _sections(shown: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the entries of the help by their groups: commands, arguments, then options."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, one in getattr(shown, "commands", {}).items():
        title = one.rich_help_panel or "Commands"
        found.setdefault(title, []).append((name, one.get_short_help_str(_WIDEST)))
    parameters = [one for one in shown.get_params(ctx) if not one.hidden]
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            told = parameter.help or ""
            found.setdefault("Arguments", []).append((value_of(parameter), told))
    for parameter in parameters:
        if parameter.param_type_name == "option" and parameter.name != "help":
            title = parameter.rich_help_panel or "Options"
            found.setdefault(title, []).append((_entry(parameter), _meaning(parameter)))
    titles = [title for title in found if title != "Arguments"]
    is_short = isinstance(shown, TyperGroup) or not titles
    last = "Options" if is_short or "Options" in found else titles[-1]
    found.setdefault(last, []).append(("--help", "Show this help."))
    return found


def _entry(option: Any) -> str:
    """Return an option as it is typed: `-o, --output FILE`, `--[no-]cache`."""
    long = _longest(option)
    if f"--no-{long[2:]}" in option.secondary_opts:
        long = f"--[no-]{long[2:]}"
    short = [name for name in option.opts if not name.startswith("--")]
    value = "" if option.is_flag else f" {value_of(option)}"
    return f"{', '.join([*short, long])}{value}"


def _named(parameter: Any) -> str:
    """Return an argument or option as the help names it."""
    is_argument = parameter.param_type_name == "argument"
    return value_of(parameter).removesuffix("...") if is_argument else _longest(parameter)


def _longest(option: Any) -> str:
    return str(max(option.opts, key=len))


def value_of(parameter: Any) -> str:
    """Return what is written in a help for the value of an option or argument."""
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        return name if parameter.nargs == 1 else f"{name.removesuffix('S')}..."
    known, _ = FLAGS.get(_longest(parameter), ("", ""))
    return str(parameter.metavar or known or "VALUE")


def _meaning(option: Any) -> str:
    text: str = option.help or ""
    if option.multiple:
        text = f"{text.removesuffix('.')}; repeatable."
    default = getattr(option.default, "value", option.default)
    if option.required or not option.show_default or callable(default):
        return text
    if option.is_flag:
        return f"{text} Default: on." if default else text
    if isinstance(default, list | tuple):
        default = ", ".join(map(str, default))
    is_said = default in (None, "") or "efault" in text
    return text if is_said else f"{text} Default: {default}."


def in_two_columns(rows: Iterable[tuple[str, str]], column: int, width: int) -> Iterator[str]:
    """Return lines of names and what they mean; a name wider than its column has its own line."""
    for name, words in rows:
        start = f"  {name:{column}}  "
        rest = " " * (column + 4)
        if len(name) > column:
            yield f"  {name}"
            start = rest
        yield from _wrapped(words, width, start, rest) or [start.rstrip()]


def _wrapped(words: str, width: int, start: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        words,
        width,
        initial_indent=start,
        subsequent_indent=start if rest is None else rest,
        break_on_hyphens=False,
    )
