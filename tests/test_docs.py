"""What the documentation says is true: its programs run and nothing public is missing from it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from krisis import registry
from krisis.cli.app import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What differs from one run to the next: durations and the moments of the clock.
VARIES = re.compile(r"(elapsed_seconds|records_per_second) +[\d.]+")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(kind == "python" for kind, _ in blocks(p))], ids=page_name
)
def test_the_programs_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    printed: str | None = ""
    for kind, content in blocks(page):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(content, page_name(page), "exec"), names)
            printed = out.getvalue()
        elif kind == "bash":
            printed = None  # what commands print is checked where they are typed
        elif kind == "output" and printed is not None:
            assert VARIES.sub(r"\1", content.strip()) == VARIES.sub(r"\1", printed.strip())


def parameters(command: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, child in getattr(command, "commands", {}).items():
        yield from parameters(child, f"{path} {name}")
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                yield path, option


def options() -> list[tuple[str, str]]:
    found = []
    for name, (module, _) in COMMANDS.items():
        app: typer.Typer = import_module(module).app
        found += list(parameters(typer.main.get_command(app), f"krisis {name}"))
    return sorted(set(found))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert f"krisis {name}" in TEXT


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_is_documented(command: str, option: str) -> None:
    assert "completion" not in option, f"give the app of {command} add_completion=False"
    assert re.search(rf"{option}\b", TEXT), f"{command} {option} is in no page"


@pytest.mark.parametrize("kind", ["suites", "backends", "metrics", "bundles"])
def test_every_registered_name_is_documented(kind: registry.Kind) -> None:
    missing = [name for name in registry.BUILT_IN[kind] if f"`{name}`" not in TEXT]
    assert not missing, f"{kind} without a word in the docs: {missing}"


def test_every_metric_is_documented_by_its_report_name() -> None:
    metrics = [registry.find("metrics", name).name for name in registry.BUILT_IN["metrics"]]
    assert [name for name in metrics if name not in TEXT] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page_name(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_page_is_in_the_navigation(page: Path) -> None:
    relative = page.relative_to(ROOT)
    if relative.parts[0] != "docs" or "decisions" in relative.parts:
        return
    name = str(relative.relative_to("docs"))
    assert name in (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), f"add {name} to mkdocs.yml"
