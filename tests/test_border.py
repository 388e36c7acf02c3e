"""The border: the core knows none of its extensions, and no extension another one.

An import is an import wherever it stands, and so is a name in a string, such as a page's builder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "krisis"
SUITES = {"ckd": "ckd", "fhir": "table", "nhanes": "nhanes", "phq8": "phq8"}
SUITES |= {"support2": "support2", "table": "table"}
PROVIDERS = {"anthropic", "api", "compatible", "gemini", "grok", "local", "openai"}
FORMATS = {"inspect_log", "inspect_writer", "lm_eval", "parquet", "parquet_tables", "text_tables"}
# They list what there is, so that nobody else has to know it.
REGISTERS = {"krisis", "krisis.backends", "krisis.cli.app", "krisis.data", "krisis.registry"}
IN_STRINGS = re.compile(r"(krisis(?:\.\w+)+)(?::\w+)?")


def extension(module: str) -> str:
    """Return the idea outside of the core that a module belongs to; "" of the core."""
    _, stage, part, *_ = *module.split("."), "", ""
    if stage == "verbs" and part:
        return f"verbs/{part}"
    if stage == "data" and part in SUITES:
        return f"data/{SUITES[part]}"
    if stage == "backends" and part in PROVIDERS:
        return "backends/providers"
    if stage == "formats" and part in FORMATS:
        return "formats"
    return "viewer" if stage == "viewer" else ""


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules()


def named_in(tree: ast.Module) -> Iterator[str]:
    """Yield every module that code imports anywhere, or names in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (part if part in MODULES else node.module for part in parts)
        elif isinstance(node, ast.Constant) and (found := IN_STRINGS.fullmatch(str(node.value))):
            yield found[1]


def crossings() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return who names what: from the core to an extension, and from one extension to another."""
    inward, across = set(), set()
    for name, tree in MODULES.items():
        here = extension(name)
        for target in named_in(tree):
            there = extension(target) if target in MODULES else ""
            if there and there != here and name not in REGISTERS:
                (across if here else inward).add((name, target))
    return inward, across


# Whose modules name whose, and why that is right, or for how long.
EXCEPTIONS = {
    ("core", "verbs/compare"): "a run of several models ends with their comparison",
    ("verbs/check", "verbs/compare"): "a requirement against another run is a comparison",
    ("viewer", "verbs/compare"): "two runs side by side are a comparison",
    ("verbs/read", "viewer"): "a reader answers on its pages, behind its guard",
    ("verbs/info", "data/table"): "`krisis data` checks tables of one's own",
    ("verbs/maintain", "backends/providers"): "`krisis pull` knows the small models",
    ("verbs/maintain", "data/support2"): "`krisis pull` fetches these patients",
}
# How many imports that are. They may fall, and then these numbers fall with them.
N_INWARD, N_ACROSS = 2, 11
# Who asks models, or shows what can be asked.
MAY_EXECUTE = {"verbs/read", "verbs/maintain", "verbs/info", "verbs/forget"}


def test_what_crosses_the_border_has_its_reason_and_only_becomes_less() -> None:
    inward, across = crossings()
    pairs = {(extension(one) or "core", extension(other)) for one, other in inward | across}
    assert pairs == EXCEPTIONS.keys()
    assert (len(inward), len(across)) == (N_INWARD, N_ACROSS)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("from krisis.pages import figure", "krisis.pages.figure"),
        ("def f():\n    import krisis.pages.figure", "krisis.pages.figure"),
        ("builder = 'krisis.pages.run:run_document'", "krisis.pages.run"),
        ("HOMES = {'Benchmark': 'krisis.benchmark'}", "krisis.benchmark"),
    ],
)
def test_an_import_is_seen_wherever_it_stands(code: str, named: str) -> None:
    assert list(named_in(ast.parse(code))) == [named]


def test_only_who_asks_a_model_sees_how_calls_travel() -> None:
    for name, tree in MODULES.items():
        here = extension(name)
        if here.startswith("verbs/") and here not in MAY_EXECUTE:
            seen = {stage for module in named_in(tree) for stage in module.split(".")[1:2]}
            assert not seen & {"execution", "benchmark"}, name


def test_a_verb_that_is_at_home_has_left_the_old_rooms() -> None:
    verbs = {extension(name).partition("/")[2] for name in MODULES if ".verbs." in name}
    rooms = ("decisions", "pages", "cli", "confidence", "viewer")
    assert not {f"krisis.{room}.{verb}" for room in rooms for verb in verbs} & MODULES.keys()
    assert all(
        len(name.split(".")) > 3 or name.split(".")[2] in verbs
        for name in MODULES
        if ".verbs." in name
    )
