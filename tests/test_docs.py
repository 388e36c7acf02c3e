"""What the documentation says is true: its blocks run and nothing public is missing from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.pages import (
    ROOT,
    VARIES,
    Block,
    assert_shown_in_order,
    blocks_of,
    commands,
    executed,
    follow,
    own_modules,
    typed,
    write_files,
)

import krisis
from krisis import registry
from krisis.cli.app import COMMANDS

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
# A tutorial is one story, typed in from its top; these have tests of their own.
TUTORIALS = ROOT / "docs" / "tutorials"
TOLD_ELSEWHERE = {"phq8.md", "decision.md", "first-hour.md", "support2.md"}
# So is this page, which tests/data/table/test_own_data_page.py types in.
OWN_DATA = ROOT / "docs" / "how-to" / "own-data.md"


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def runnable(kind: str) -> list[Any]:
    """Return the blocks that are run alone, those that take long under the mark slow."""
    return [
        pytest.param(block, id=block.name, marks=[pytest.mark.slow] * (block.mark == "slow"))
        for block in BLOCKS
        if block.kind == kind and block.mark in ("", "slow")
    ]


@pytest.mark.parametrize("block", runnable("python"))
def test_a_program_runs_alone_and_prints_what_its_page_shows(block: Block, tmp_path: Path) -> None:
    write_files(block.page, tmp_path)
    with own_modules(tmp_path):
        printed = executed(block, {"__name__": "page"})
    if block.shown:
        assert VARIES.sub(r"\1", block.shown.strip()) == VARIES.sub(r"\1", printed.strip())


COMMAND_BLOCKS = [
    block
    for block in runnable("bash")
    if block.values[0].page.parent not in (TUTORIALS, ROOT) and block.values[0].page != OWN_DATA
]


@pytest.mark.parametrize("block", COMMAND_BLOCKS)
def test_the_commands_of_a_block_run_alone(block: Block, tmp_path: Path) -> None:
    write_files(block.page, tmp_path)
    with own_modules(tmp_path):
        printed = typed(block.text, tmp_path)
    assert_shown_in_order(block.shown, printed)


STORIES = [page for page in sorted(TUTORIALS.glob("*.md")) if page.name not in TOLD_ELSEWHERE]


@pytest.mark.parametrize("page", STORIES, ids=page_name)
def test_a_tutorial_is_typed_in_from_its_top_and_prints_what_it_shows(
    page: Path, tmp_path: Path
) -> None:
    for shown, printed in follow(page, tmp_path):
        assert_shown_in_order(shown, printed)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_block_says_what_it_is_and_why_it_is_not_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(page)
    assert text.count("\n```") == 2 * len(blocks), "a fence that is not read"
    for block in blocks:
        assert block.kind, f"{block.name} has no language"
        assert block.mark == "slow" or bool(block.mark) == bool(block.words), block.name
        shell = block.kind == "bash" or re.search("^krisis ", block.text, re.MULTILINE) is None
        assert shell or block.kind == "output", f"{block.name} holds commands: name it bash"


def known_options(words: list[str]) -> set[str]:
    """Return the options of the command that a line calls, of all its subcommands if in doubt."""
    found = set[str]()
    if words and words[0] in COMMANDS:
        command = typer.main.get_command(import_module(COMMANDS[words[0]][0]).app)
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        found = {one for p in command.params for one in (*p.opts, *p.secondary_opts)}
    return found | {"--help", "--version", "--debug"}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_option_in_a_command_exists(page: Path) -> None:
    for block in blocks_of(page):
        if block.kind != "bash":
            continue
        for line, words in commands(block.text):
            if words[0] == "krisis" and words[1] not in ("--version", "--help"):
                assert words[1] in COMMANDS, f"{block.name}: {line}"
                given = {w.partition("=")[0] for w in words[2:] if re.match("--?[a-z]", w)}
                assert given <= known_options(words[1:]), f"{block.name}: {line}"


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
        if target.startswith("gallery/"):  # written when the site is built, strictly
            continue
        assert (page.parent / target).exists(), f"{page_name(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_page_is_in_the_navigation(page: Path) -> None:
    relative = page.relative_to(ROOT)
    if relative.parts[0] != "docs" or re.match(r"\d{4}-", relative.name):
        return
    name = str(relative.relative_to("docs"))
    assert name in (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), f"add {name} to mkdocs.yml"


# The most words of a page before its appendix, and of a record of a decision.
MOST_WORDS, MOST_WORDS_OF_A_DECISION = 1_500, 250


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_can_be_finished(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    needed = len(re.split("^## Appendix", text, flags=re.MULTILINE)[0].split())
    assert needed <= MOST_WORDS, f"{needed} words before the appendix"
    if page.parent.name == "decisions" and "dependencies" not in page.name:
        assert len(text.split()) <= MOST_WORDS_OF_A_DECISION


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("*.md")), ids=page_name)
def test_a_guide_begins_with_what_to_do(page: Path) -> None:
    before = page.read_text(encoding="utf-8").partition("```")[0]
    table_of_questions = page.name == "which-metric.md"
    assert table_of_questions or len(before.split()) <= 120


def test_the_citation_names_this_version_and_licence() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "type"} <= set(cited)
    assert str(cited["version"]) == krisis.__version__
    assert f"version = {{{krisis.__version__}}}" in TEXT
    assert f'license = "{cited["license"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_every_public_name_is_in_the_api_reference() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    shown = {name.rpartition(".")[2] for name in re.findall("^::: (.+)$", page, re.MULTILINE)}
    assert set(krisis.__all__) - {"__version__"} <= shown


# Where public names are: each of these says in `__all__` which they are, or is a path of the seeds.
PUBLIC = (
    *("krisis", "krisis.metrics", "krisis.data", "krisis.backends", "krisis.execution"),
    *("krisis.statistics", "krisis.selective_prediction", "krisis.formats"),
)
PATHS_OF_THE_SEEDS = {"krisis.benchmark", "krisis.results.report", "krisis.errors"}
IMPORTED = re.compile(r"^ *from (krisis[\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_imports_public_names_only(page: Path) -> None:
    offered = {(module, name) for module in PUBLIC for name in import_module(module).__all__}
    offered.add(("krisis", "registry"))
    for block in blocks_of(page):
        if block.kind != "python":
            continue
        for module, names in IMPORTED.findall(block.text):
            for name in re.findall(r"\w+", names):
                public = (module, name) in offered or module in PATHS_OF_THE_SEEDS
                assert public, f"{block.name}: {module}.{name} is not public"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_that_a_public_module_offers_exists(module: str) -> None:
    offered = import_module(module)
    assert [name for name in offered.__all__ if not hasattr(offered, name)] == []


def test_nobody_is_told_to_install_the_other_project_of_this_name() -> None:
    """On the package index `krisis` is somebody else's: install from the folder."""
    sources = [*PAGES, *(ROOT / "src").rglob("*.py"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    for path in sources:
        assert not re.search(
            r"""krisis\[|pip install( -\S+)* ['"]?krisis\b""", path.read_text(encoding="utf-8")
        ), path
