"""Bugs made from the source itself: one clause of one condition is wrong at a time.

A clause is an operand of ``and`` or ``or`` (left out), a comparison (its boundary moved, its sense
turned), a ``not`` (left out), a number inside a condition (moved by one step) or a bare condition
(turned). Clauses are taken from functions; what runs while a module is imported is not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Of a float both a probability and a tolerance are moved visibly by this step.
_STEP = 0.1

Replace = Callable[[ast.expr], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One clause that is wrong, named by what it says and not by where it is written.

    ``function`` is the qualified name; ``nth`` counts equal clauses of the same function.
    """

    function: str
    clause: str
    becomes: str
    nth: int
    path: str = field(compare=False)
    first_line: int = field(compare=False)
    last_line: int = field(compare=False)
    outermost: str = field(compare=False)
    plant: Callable[[], None] = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Return what names this mutant wherever its function is moved to."""
        return self.function, self.clause, self.becomes, self.nth

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """Return the key with the path, which tells functions of one name apart."""
        return self.path, *self.key

    def __str__(self) -> str:
        nth = f" (number {self.nth})" if self.nth > 1 else ""
        return (
            f"{self.path}:{self.first_line} {self.function}: {self.clause}  →  {self.becomes}{nth}"
        )


def mutants_of(tree: ast.Module, path: str) -> list[Mutant]:
    """Return every mutant of a module; ``plant`` changes ``tree`` itself."""
    return list(_Planter(path).mutants(tree))


class _Planter:
    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def mutants(self, tree: ast.Module) -> Iterator[Mutant]:
        yield from self._in_scope(tree, "", "")

    def _in_scope(self, node: ast.AST, name: str, outermost: str) -> Iterator[Mutant]:
        """Walk definitions and statements; ``name`` is the qualified name so far."""
        # Decorators and default values are evaluated on import.
        inside = node.body if isinstance(node, _FUNCTIONS) else ast.iter_child_nodes(node)
        for child in inside:
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                inner = f"{name}.{child.name}" if name else child.name
                outer = outermost or (inner if isinstance(child, _FUNCTIONS) else "")
                yield from self._in_scope(child, inner, outer)
            else:
                if outermost:
                    yield from self._of_fields(child, name, outermost)
                yield from self._in_scope(child, name, outermost)

    def _of_fields(self, node: ast.AST, name: str, outermost: str) -> Iterator[Mutant]:
        for clause, becomes, replace in _changes(node):
            text, new = ast.unparse(clause), ast.unparse(becomes)
            self._seen[name, text, new] += 1
            yield Mutant(
                name,
                text,
                new,
                self._seen[name, text, new],
                self._path,
                clause.lineno,
                clause.end_lineno or clause.lineno,
                outermost,
                _planting(replace, becomes, clause),
            )


def _planting(replace: Replace, becomes: ast.expr, clause: ast.expr) -> Callable[[], None]:
    # The clause stays in a branch that is never taken, so that the function still mentions all
    # its names: the code of a closure can be exchanged only for one with the same free names.
    planted = ast.copy_location(ast.IfExp(ast.Constant(True), becomes, clause), clause)
    return lambda: replace(ast.fix_missing_locations(planted))


Change = tuple[ast.expr, ast.expr, Replace]


def _changes(node: ast.AST) -> Iterator[Change]:
    """Return what can be wrong in the conditions that ``node`` holds directly."""
    bare = {id(condition) for condition in _conditions(node)}
    for child, replace in _expressions(node):
        if isinstance(child, ast.BoolOp):
            yield from ((child, new, replace) for new in _without_an_operand(child))
        elif isinstance(child, ast.Compare):
            yield from ((child, new, replace) for new in _other_comparisons(child))
        elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
            yield child, child.operand, replace
        elif id(child) in bare:
            yield child, ast.UnaryOp(ast.Not(), child), replace


def _expressions(node: ast.AST) -> Iterator[tuple[ast.expr, Replace]]:
    """Return each expression that is a field of ``node``, and how another takes its place."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            yield value, lambda new, name=name: setattr(node, name, new)
        elif isinstance(value, list):
            for place, element in enumerate(value):
                if isinstance(element, ast.expr):
                    yield element, lambda new, of=value, at=place: of.__setitem__(at, new)


def _conditions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
        return [node.test]
    if isinstance(node, ast.comprehension):
        return node.ifs
    if isinstance(node, ast.match_case) and node.guard:
        return [node.guard]
    return []


def _without_an_operand(clause: ast.BoolOp) -> Iterator[ast.expr]:
    for left_out in clause.values:
        rest = [value for value in clause.values if value is not left_out]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(clause.op, rest)


def _other_comparisons(clause: ast.Compare) -> Iterator[ast.expr]:
    for place, operator in enumerate(clause.ops):
        for others in (_BOUNDARY, _OPPOSITE):
            if other := others.get(type(operator)):
                ops = [*clause.ops[:place], other(), *clause.ops[place + 1 :]]
                yield ast.Compare(clause.left, ops, clause.comparators)
    sides = [clause.left, *clause.comparators]
    for place, side in enumerate(sides):
        before = clause.ops[place - 1] if place else None
        after = clause.ops[place] if place < len(clause.ops) else None
        if (moved := _moved(side, before, after)) is not None:
            changed = [*sides[:place], moved, *sides[place + 1 :]]
            yield ast.Compare(changed[0], clause.ops, changed[1:])


def _moved(side: ast.expr, before: ast.cmpop | None, after: ast.cmpop | None) -> ast.expr | None:
    """Return the number one step on, in the direction that is not already a moved boundary."""
    if not isinstance(side, ast.Constant) or type(side.value) not in (int, float):
        return None
    value = side.value
    assert isinstance(value, int | float)
    if isinstance(value, float):
        return ast.Constant(round(value + _STEP, 12))
    down = isinstance(before, ast.Lt | ast.GtE) or isinstance(after, ast.LtE | ast.Gt)
    return ast.Constant(value - 1 if down else value + 1)
