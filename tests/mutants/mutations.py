"""Find the changes of one line that a test should see. Pure.

Strings, annotations, log lines and error texts are left alone: their wording is not tested. So are the options of
classes that change no result, only memory and speed, or what a type checker permits, and named numbers such as
`_PAUSE_SECONDS = 5.0`: they are choices, and a test of the value would only repeat it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_UNTESTED_OPTIONS: Final = ("frozen", "gc", "slots")
_UNTESTED_CALLS: Final = ("log", "logger", "warnings")


class Mutant(NamedTuple):
    """One change of a file."""

    line: int
    text: str
    """Such as `< -> <=`."""
    source: str
    """The whole file with the change."""


def changes(source: str) -> list[tuple[int, str]]:
    """Return line and text of each mutant of a module, in the order of their positions."""
    return [(place.line, place.text()) for place in _places(ast.parse(source))]


def count(source: str) -> int:
    """Return the number of mutants of a module."""
    return sum(1 for _ in _places(ast.parse(source)))


def mutant(source: str, position: int) -> Mutant:
    """Return one of the mutants of a module."""
    tree = ast.parse(source)
    place = next(itertools.islice(_places(tree), position, None))
    text = place.text()
    place.apply()
    return Mutant(place.line, text, ast.unparse(ast.fix_missing_locations(tree)) + "\n")


class _Place:
    """A node that can be changed."""

    def __init__(self, node: ast.AST, owner: ast.AST, field: str, index: int | None) -> None:
        self._node, self._owner, self._field, self._index = node, owner, field, index
        self._new = ast.copy_location(_changed(node), node)
        self.line = int(getattr(node, "lineno", 0))

    def text(self) -> str:
        """Return the words for the change."""
        return f"{ast.unparse(self._node)} -> {ast.unparse(ast.fix_missing_locations(self._new))}"

    def apply(self) -> None:
        """Change the tree."""
        if self._index is None:
            setattr(self._owner, self._field, self._new)
        else:
            getattr(self._owner, self._field)[self._index] = self._new


def _places(tree: ast.AST) -> Iterator[_Place]:
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params", "names") or _is_untested(tree, field):
            continue
        children = [(index, each) for index, each in enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST):
                if _is_mutable(child):
                    yield _Place(child, tree, field, index)
                if not isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert) and not _is_text(child):
                    yield from _places(child)


def _is_untested(tree: ast.AST, field: str) -> bool:
    match tree:
        case ast.If(test=test):
            return field == "body" and ast.unparse(test) == "TYPE_CHECKING"
        case ast.keyword(arg=name):
            return name in _UNTESTED_OPTIONS
        case ast.Call(func=ast.Name(id="zip")):
            return field == "keywords"  # `strict` is an assertion
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            return field == "value" and name.isupper() and value is not None and _is_number(value)
    return False


def _is_number(node: ast.AST) -> bool:
    """Check for a number, or arithmetic of numbers only."""
    parts = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    return all(isinstance(each, parts) for each in ast.walk(node)) and not isinstance(
        getattr(node, "value", 0), bool | str
    )


def _is_text(node: ast.AST) -> bool:
    """Check for a docstring, or a call that only logs."""
    if not isinstance(node, ast.Expr):
        return False
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).partition(".")[0] in _UNTESTED_CALLS
    return isinstance(value, ast.Constant)


def _is_mutable(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[operator]):
            return type(operator) in _COMPARISONS
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BinOp(op=operator):
            return type(operator) in _ARITHMETIC
        case ast.Name(id=name, ctx=ast.Load()):
            return name in _NAMES
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float)
        case ast.Expr(value=ast.Call()):
            return not _is_text(node)
        case ast.Continue():
            return True
    return False


def _changed(node: ast.AST) -> ast.AST:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=right):
            return ast.Compare(left, [_COMPARISONS[type(operator)]()], right)
        case ast.BoolOp(op=operator, values=values):
            return ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(operand=operand):
            return operand
        case ast.BinOp(left=left, op=operator, right=right):
            return ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.Name(id=name):
            return ast.Name(_NAMES[name], ast.Load())
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=value) if isinstance(value, int | float):
            return ast.Constant(value + 1)
        case ast.Continue():
            return ast.Break()
    return ast.Pass()
