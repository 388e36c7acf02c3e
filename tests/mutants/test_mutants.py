"""The generator makes exactly the bugs it promises, and an unnoticed one is reported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from tests.mutants.__main__ import Results, choose, lines_of_diff, modules_in, read_reasons
from tests.mutants.clauses import Mutant, mutants_of
from tests.mutants.server import Module, Reach, Record

ROOT = Path(__file__).parents[2]
Judged = dict[tuple[str, str], tuple[str, str]]


def bugs_of(source: str) -> list[tuple[str, str]]:
    found = mutants_of(ast.parse(dedent(source)), "a.py")
    return [(mutant.clause, mutant.becomes) for mutant in found]


@pytest.mark.parametrize(
    ("clause", "bugs"),
    [
        ("a and b", ["b", "a"]),
        ("a or b or c", ["b or c", "a or c", "a or b"]),
        ("not a", ["a"]),
        ("a", ["not a"]),
        ("a < b", ["a <= b", "a >= b"]),
        ("a >= b", ["a > b", "a < b"]),
        ("a == b", ["a != b"]),
        ("a is None", ["a is not None"]),
        ("a not in b", ["a in b"]),
        # A step that the moved boundary does not already make.
        ("a < 2", ["a <= 2", "a >= 2", "a < 1"]),
        ("a >= 2", ["a > 2", "a < 2", "a >= 1"]),
        ("a > 2", ["a >= 2", "a <= 2", "a > 3"]),
        ("2 <= a", ["2 < a", "2 > a", "1 <= a"]),
        ("a == 0.05", ["a != 0.05", "a == 0.15"]),
        (
            "0 < a <= b",
            ["0 <= a <= b", "0 >= a <= b", "0 < a < b", "0 < a > b", "1 < a <= b"],
        ),
    ],
)
def test_a_condition_is_wrong_in_one_clause_at_a_time(clause: str, bugs: list[str]) -> None:
    found = bugs_of(f"def f(a, b, c):\n    if {clause}:\n        pass")
    assert found == [(clause, bug) for bug in bugs]


def test_each_clause_inside_a_clause_is_wrong_in_turn() -> None:
    found = bugs_of("def f(a, b):\n    return a and not b == 1")
    assert found == [
        ("a and (not b == 1)", "not b == 1"),
        ("a and (not b == 1)", "a"),
        ("not b == 1", "b == 1"),
        ("b == 1", "b != 1"),
        ("b == 1", "b == 2"),
    ]


def test_conditions_are_found_wherever_a_function_has_them() -> None:
    source = """
        class C:
            def f(self, rows):
                assert self.a
                while self.b:
                    rows = [row for row in rows if row.c]
                kept = 1 if self.d else 2
                match kept:
                    case 1 if self.e:
                        return any(row.g is None for row in rows)
                def inner():
                    return rows[rows == kept]
        """
    mutants = mutants_of(ast.parse(dedent(source)), "a.py")
    assert [(mutant.function, mutant.clause) for mutant in mutants] == [
        ("C.f", "self.a"),
        ("C.f", "self.b"),
        ("C.f", "row.c"),
        ("C.f", "self.d"),
        ("C.f", "self.e"),
        ("C.f", "row.g is None"),
        ("C.f.inner", "rows == kept"),
    ]


def test_what_runs_on_import_is_left_alone() -> None:
    assert not bugs_of(
        """
        if a:
            b = 1 < 2
        @decorate(a == 1)
        def f(c=a or b):
            return c
        """
    )


def only(source: str) -> tuple[ast.Module, Mutant]:
    tree = ast.parse(dedent(source))
    (mutant,) = mutants_of(tree, "a.py")
    return tree, mutant


def test_a_planted_bug_changes_what_the_function_does() -> None:
    tree, mutant = only("def f(a):\n    return a == 'x'")
    mutant.plant()
    names: dict[str, object] = {}
    exec(compile(tree, "a.py", "exec"), names)
    assert names["f"]("x") is False


def test_a_closure_keeps_its_free_names_when_an_operand_is_left_out() -> None:
    source = "def f(a, b):\n    def g():\n        return a and b\n    return g"
    frees = []
    for number in (None, 0, 1):
        tree = ast.parse(source)
        if number is not None:
            mutants_of(tree, "a.py")[number].plant()
        names: dict[str, object] = {}
        exec(compile(tree, "a.py", "exec"), names)
        frees.append(names["f"](1, 2).__code__.co_freevars)
    assert frees == [("a", "b")] * 3


def test_a_mutant_keeps_its_name_when_its_function_moves() -> None:
    source = "def f(a):\n    return a == 'x'"
    _, here = only(source)
    (there,) = mutants_of(ast.parse(f"import os\n\n\n{source}"), "b/c.py")
    assert here.key == there.key
    assert here.first_line != there.first_line


def test_equal_clauses_of_a_function_are_told_apart() -> None:
    source = "def f(a):\n    if a is None:\n        pass\n    return a is None"
    mutants = mutants_of(ast.parse(source), "a.py")
    assert [mutant.nth for mutant in mutants] == [1, 2]


def test_each_reason_is_of_a_mutant_that_exists() -> None:
    keys = {mutant.key for module in modules_in() for mutant in module.mutants}
    reasons = read_reasons()
    assert all(reasons.values())
    assert not set(reasons) - keys


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    modules = modules_in(["statistics"])
    first, again, other = (
        [str(mutant) for _, mutant in choose(modules, None, 20, seed)] for seed in (0, 0, 1)
    )
    assert len(first) == 20
    assert first == again != other


def test_a_change_has_the_mutants_of_its_lines() -> None:
    diff = dedent(
        """\
        --- a/src/krisis/metrics/old.py
        +++ b/src/krisis/metrics/base.py
        @@ -3 +4 @@ def f():
        -    a
        +    b
        @@ -9,2 +9,3 @@
        @@ -20 +21,0 @@
        """
    )
    assert lines_of_diff(diff) == {"metrics/base.py": {4, 9, 10, 11}}
    (module,) = modules_in(["metrics/accuracy.py"])
    line = module.mutants[0].first_line
    chosen = choose([module], {"metrics/accuracy.py": {line}, "a.py": {1}}, None, 0)
    assert [mutant for _, mutant in chosen] == [
        mutant for mutant in module.mutants if mutant.first_line <= line <= mutant.last_line
    ]


def module_with(tmp_path: Path, source: str) -> Module:
    file = tmp_path / "a.py"
    file.write_text(dedent(source), "utf-8")
    return Module(file, "a.py")


SIGN = """
def sign(n):
    if n > 0:
        return 1
    return 0 if n == 0 else -1
"""


def test_the_tests_of_a_mutant_are_those_that_reach_its_lines_the_fastest_first(
    tmp_path: Path,
) -> None:
    module = module_with(tmp_path, SIGN)
    key = module.functions["sign"].key
    tests = {
        "slow": [2.0, {key: [1, 2]}],
        "fast": [1.0, {key: [1, 3]}],
        "elsewhere": [0.1, {key: [2]}],
        "changed": [0.1, {"sign::another text": [1]}],
    }
    reach = Reach(Record({"test_a.py": {"sha256": "", "tests": tests}}))
    found = {
        mutant.clause: reach.tests_for(mutant, module.functions["sign"])
        for mutant in module.mutants
    }
    assert found == {"n > 0": ["fast", "slow"], "n == 0": ["fast"]}


def test_a_changed_function_is_tried_on_all_tests_of_its_name(tmp_path: Path) -> None:
    module = module_with(tmp_path, SIGN)
    tests = {"one": [1.0, {"sign::another text": [9]}], "two": [1.0, {"other::text": [1]}]}
    reach = Reach(Record({"test_a.py": {"sha256": "", "tests": tests}}))
    assert reach.tests_for(module.mutants[0], module.functions["sign"]) == ["one"]


def test_what_lives_is_left_unless_its_reason_is_named(tmp_path: Path) -> None:
    module = module_with(tmp_path, SIGN)
    first, second, third = module.mutants[:3]
    reasons = tmp_path / "reasons.yaml"
    entry = {"function": "sign", "clause": second.clause, "becomes": second.becomes}
    reasons.write_text(yaml.safe_dump([{**entry, "reason": "equivalent"}]), "utf-8")
    results = Results(tmp_path / "state" / "results.jsonl", keep=False, reasons=reasons)
    for mutant, state in ((first, "caught"), (second, "survived"), (third, "not reached")):
        results.add(mutant, state, "", 0.0)
    assert dict(results.counts) == {"caught": 1, "named": 1, "not reached": 1}
    assert len(results.left) == 1
    assert str(third) in results.left[0]
    again = Results(tmp_path / "state" / "results.jsonl", keep=True, reasons=reasons)
    assert [again.lived(mutant) for mutant in module.mutants[:4]] == [False, True, True, False]
    assert set(again.known) == {first.place, second.place, third.place}
    assert not Results(tmp_path / "state" / "results.jsonl", keep=False).known


_MODULE = """
def usable(n, share):
    return n > 0 and share >= 0.8

def climb(step):
    total = 0
    while step and total < 3:
        total += step
    return total

def alone(n):
    return n is None
"""
_TESTS = """
import shop

def test_slow():
    import time
    time.sleep(0.2)
    assert not shop.usable(0, 0.9)

def test_full():
    assert shop.usable(1, 0.9)

def test_climb():
    assert shop.climb(1) == 3

def test_that_fails_without_a_bug():
    assert shop.climb(0)
"""
_PROGRAM = """
from pathlib import Path
import pytest
from tests.mutants.server import Module, Record, Server

module = Module(Path("shop.py").resolve(), "shop.py")
def report(mutant, state, note, seconds):
    print("|".join([mutant.clause, mutant.becomes, state, note]))
mutants = [(module, mutant) for mutant in module.mutants]
server = Server([module], mutants, Record(), Path("state/record.json"), report, 1, 0.5)
options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"]
raise SystemExit(pytest.main([*options, "test_shop.py"], plugins=[server]))
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("shop")
    for name, text in (("shop.py", _MODULE), ("test_shop.py", _TESTS), ("go.py", _PROGRAM)):
        (folder / name).write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "go.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 3]
    return {(clause, becomes): (state, note) for clause, becomes, state, note in lines}


def test_a_bug_that_a_test_notices_is_caught_by_that_test(judged: Judged) -> None:
    state = judged["n > 0 and share >= 0.8", "share >= 0.8"]
    assert state == ("caught", "test_shop.py::test_slow")
    assert judged["n > 0", "n > 1"] == ("caught", "test_shop.py::test_full")


def test_a_bug_that_no_test_notices_survives(judged: Judged) -> None:
    assert judged["n > 0 and share >= 0.8", "n > 0"] == ("survived", "2 of 2 tests")
    assert judged["share >= 0.8", "share > 0.8"] == ("survived", "2 of 2 tests")


def test_a_bug_that_no_test_reaches_is_reported(judged: Judged) -> None:
    assert judged["n is None", "n is not None"] == ("not reached", "")


def test_a_bug_that_never_ends_is_caught(judged: Judged) -> None:
    state = judged["step and total < 3", "step"]
    assert state == ("caught", "no end in time, or the process died")


def test_a_test_that_fails_without_a_bug_catches_none(judged: Judged) -> None:
    assert judged["step and total < 3", "total < 3"] == ("survived", "1 of 1 tests")
