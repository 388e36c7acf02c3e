"""The house stays as drawn: import rule, no cycles, bounded modules and functions, light start."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "krisis"
MODULES = sorted(SOURCE.rglob("*.py"))

SHARED = {"answers", "display", "errors", "json_values", "outcomes", "pulling", "yaml_values"}
SHARED |= {
    "cost_file",
    "costs",
    "csv_lines",
    "file_formats",
    "lazy_names",
    "plain_run",
    "registry",
    "sqlite_edge",
    "task_facts",
    "terminal_edge",
    "texts",
    "__init__",
}
MAY_SEE: dict[str, set[str]] = {
    "data": set(),
    "statistics": set(),
    "terminal_edge": set(),
    "metrics": {"statistics"},
    "backends": {"data", "statistics"},
    "confidence": {"metrics", "statistics"},
    "results": {"metrics", "statistics", "runs"},
    "runs": {"metrics", "statistics", "results"},
    "decisions": {"metrics", "statistics", "confidence", "results", "runs"},
    "pages": {"results", "runs", "metrics", "statistics", "confidence", "decisions"},
    "viewer": {
        *("results", "runs", "metrics", "statistics", "decisions", "pages", "verbs"),
        "formats",
    },
    "execution": {"data", "backends", "metrics", "statistics", "results", "runs"},
    "benchmark": {"data", "backends", "metrics", "statistics", "results", "execution"},
    "selective_prediction": {"metrics", "statistics", "confidence", "results"},
    "grid": {"data", "backends", "results", "runs", "execution", "benchmark"},
    "verbs": {
        *("data", "backends", "execution", "benchmark", "metrics", "statistics", "confidence"),
        *("results", "runs", "decisions"),
        *("pages", "api", "formats", "viewer"),
    },
    "api": {
        *("data", "backends", "execution", "benchmark", "metrics", "statistics", "confidence"),
        *("results", "runs", "decisions", "formats"),
    },
    "formats": {
        *("data", "backends", "execution", "metrics", "statistics", "results", "runs"),
        "decisions",
    },
    "answers": set(),
    "costs": set(),
    "cost_file": set(),
    "csv_lines": set(),
    "file_formats": set(),
    "plain_run": set(),
    "task_facts": set(),
    "texts": set(),
    "outcomes": set(),
    "display": set(),
    "errors": set(),
    "lazy_names": set(),
    "json_values": set(),
    "pulling": set(),
    "yaml_values": set(),
    "registry": set(),
    "sqlite_edge": set(),
    "__init__": set(),
}
HEAVY = {
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "altair",
    "openai",
    "anthropic",
    "google.genai",
    "starlette",
    "xllamacpp",
    "pydantic",
    "httpx",
    "yaml",
}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "types", "core", "manager"}


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def stage(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield every module imported at run time, and whether inside a function."""

    def walk(parent: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(parent):
            if is_type_checking(child):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative imports hide the stage they come from"
                yield str(child.module), inside
                yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, inside or function)

    return walk(node, False)


@cache
def imports_of(path: Path) -> tuple[tuple[str, bool], ...]:
    return tuple(imports(tree(path)))


@cache
def known_modules() -> set[str]:
    return {dotted(path) for path in MODULES}


def test_a_stage_imports_only_what_the_house_allows() -> None:
    assert MAY_SEE.keys() == {stage(dotted(path)) for path in MODULES} - {"cli", "__main__"}
    for path in MODULES:
        here = stage(dotted(path))
        if here in ("cli", "__main__"):
            continue
        allowed = MAY_SEE[here] | SHARED | {here}
        if dotted(path) == "krisis.results.report":  # the seeds' path to what is shown
            allowed |= {"pages"}
        if path.stem.endswith("command"):  # it is on top as `cli` is, but lies beside its verb
            continue
        if dotted(path) == "krisis.verbs.info.facts":  # describes the options of `krisis run`
            allowed |= {"cli"}
        seen = {stage(name) for name, _ in imports_of(path) if name in known_modules()}
        assert seen <= allowed, f"{dotted(path)} imports {sorted(seen - allowed)}"


def test_no_part_of_krisis_is_imported_inside_a_function() -> None:
    for path in MODULES:
        hidden = {n for n, inside in imports_of(path) if inside and n.split(".")[0] == "krisis"}
        assert not hidden, f"{dotted(path)} hides {sorted(hidden)} in a function"


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = known_modules()
    graph = {
        dotted(p): {n for n, inside in imports_of(p) if n in known and not inside} for p in MODULES
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' → '.join((*path, module))}"
        if module not in done:
            for next_module in graph[module] - {module, "krisis"}:
                visit(next_module, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_a_module_has_a_plain_name_and_says_what_it_is_for() -> None:
    for path in MODULES:
        assert path.stem not in FORBIDDEN_NAMES
        assert ast.get_docstring(tree(path)), f"{dotted(path)} does not say what it is for"


@pytest.mark.parametrize("statement", ["import krisis", "import krisis.cli.app"])
def test_starting_imports_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules), sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(loaded)


# What Windows does not have, or has under the same name and with another effect (os.kill ends).
POSIX_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"}
POSIX_NAMES = {
    "os": {
        *("pread", "pwrite", "fork", "forkpty", "kill", "killpg", "getuid", "geteuid", "getgid"),
        *("setsid", "nice", "chown", "fchown", "lchown", "fchmod", "mkfifo", "mknod", "statvfs"),
        *("uname", "sync", "fdatasync", "lockf", "sendfile", "wait", "waitid", "getpgid"),
        *("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_SYNC", "O_DSYNC", "O_NONBLOCK"),
    },
    "signal": {
        *("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGCHLD", "SIGPIPE"),
        *("alarm", "setitimer", "pause", "sigwait", "pthread_kill"),
    },
    "time": {"tzset"},
}


def posix_only(tree: ast.AST) -> Iterator[str]:
    """Yield what a module uses of POSIX outside functions that ask for the platform first."""
    guarded = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(
            isinstance(part, ast.Attribute) and part.attr == "platform"
            for part in ast.walk(function)
        )
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [name.name for name in node.names]
            holder = (getattr(node, "module", None) or "").split(".")[0]
            yield from POSIX_MODULES & {holder, *names}
            yield from POSIX_NAMES.get(holder, set()) & set(names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_NAMES.get(node.value.id, ()) and node not in guarded:
                yield f"{node.value.id}.{node.attr}"
            elif node.attr == "add_signal_handler":
                yield node.attr


def text_files(tree: ast.AST) -> Iterator[str]:
    """Yield calls that open a text file in whatever way the platform likes."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        words = {word.arg for word in call.keywords}
        # The mode is the first argument of a path's method, the second of a function.
        given = call.args[isinstance(call.func, ast.Name) or name == "fdopen" :][:1]
        mode = next((one.value for one in given if isinstance(one, ast.Constant)), "r")
        if name in ("open", "fdopen") and isinstance(mode, str) and "b" not in mode:
            is_written = set(mode) & set("wax+")
            if ast.unparse(call.func) in ("os.open", "webbrowser.open"):
                continue
        elif name in ("read_text", "write_text") and isinstance(call.func, ast.Attribute):
            is_written = name == "write_text"
        else:
            continue
        if "encoding" not in words or (is_written and "newline" not in words):
            yield ast.unparse(call)


def test_nothing_works_on_posix_alone() -> None:
    found = []
    for path in MODULES:
        whole = (*posix_only(tree(path)), *text_files(tree(path)))
        found += [(dotted(path), what) for what in whole]
    # Methods of this name that open no file.
    opened = ("caller.open()", "self._connection.open()")
    assert [(name, what) for name, what in found if what not in opened] == []


@pytest.mark.parametrize(
    "text",
    [
        "import fcntl",
        "from os import pread",
        "import os\nos.pread(1, 2, 3)",
        "import os, signal\ndef f():\n    os.kill(1, signal.SIGHUP)",
        "loop.add_signal_handler(2, f)",
    ],
)
def test_what_works_on_posix_alone_is_found(text: str) -> None:
    assert list(posix_only(ast.parse(text)))


@pytest.mark.parametrize(
    ("call", "is_found"),
    [
        ("path.read_text()", True),
        ("path.write_text(text, encoding='utf-8')", True),
        ("path.write_text(text, encoding='utf-8', newline='')", False),
        ("open(path, encoding='utf-8')", False),
        ("open(path, 'w', encoding='utf-8')", True),
        ("path.open('rb')", False),
        ("os.fdopen(handle, 'w')", True),
    ],
)
def test_a_text_file_without_its_encoding_is_found(call: str, is_found: bool) -> None:
    assert bool(list(text_files(ast.parse(call)))) == is_found


# Who shows figures asks `pages/numbers.py` how they are written. Only places in a drawing, which
# nobody reads, are written there by hand.
SHOWS = re.compile(
    r"krisis\.(pages|cli|api)\.|\.(page|chart|section|figures|\w*command)$|krisis\.verbs\.\w+$"
)
DRAWS = {"krisis.pages.charts.files", "krisis.pages.html", "krisis.pages.strip"}
# Elsewhere a count or a number as it was given may be in a sentence; a rounded one may be in these.
ROUNDS = {
    "krisis.backends.reply": "quotes a model in an error",
    "krisis.display": "places in a drawing, and scores in a shell",
    "krisis.metrics.weighted_curve": "a key of the JSON",
    "krisis.verbs.selective.evaluation": "a key of the JSON",
    # Stages that pages see, not the other way round: one figure in a sentence or an error.
    **dict.fromkeys(
        (
            "krisis.data.table.check",
            "krisis.data.table.sheet",
            "krisis.decisions.certify",
            "krisis.decisions.run_sample",
            "krisis.execution.assembly",
            "krisis.execution.pacing.gate",
            "krisis.execution.pacing.prices",
            "krisis.execution.progress",
            "krisis.execution.stop_when",
            "krisis.verbs.plan.study",
            "krisis.verbs.read.desk",
        ),
        "below pages",
    ),
    "krisis.viewer.pages.cases": "to become a document",
}


def number_formats(tree: ast.AST, *, rounding: bool = False) -> Iterator[str]:
    """Yield how numbers are formatted, or only those formats that round."""
    wanted = r"\.[\d{]\S*[feg%]$" if rounding else r"^[+]?,|[feg%]$"
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)[2:-1]
            if re.search(wanted, spec):
                yield spec


def test_one_module_writes_the_numbers_that_people_read() -> None:
    found = {}
    for path in MODULES:
        name = dotted(path)
        shows = SHOWS.search(name) is not None and name not in DRAWS
        if formats := list(number_formats(tree(path), rounding=not shows)):
            found[name] = formats
    assert found.keys() == {"krisis.pages.numbers", *DRAWS, *ROUNDS}


@pytest.mark.parametrize("spec", [".3f", ".1%", ",.0f", "+.2g", ".{decimals}f"])
def test_a_format_that_rounds_is_found(spec: str) -> None:
    assert list(number_formats(ast.parse(f'f"{{value:{spec}}}"'), rounding=True))


@pytest.mark.parametrize(("spec", "is_number"), [(",", True), ("g", True), (">8", False)])
def test_a_format_of_a_number_is_found(spec: str, is_number: bool) -> None:
    formatted = ast.parse(f'f"{{value:{spec}}}"')
    assert bool(list(number_formats(formatted))) == is_number
    assert not list(number_formats(formatted, rounding=True))
