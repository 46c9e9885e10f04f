"""The matrix of faults is complete, and every test that it names exists."""

import ast
import pathlib

import pytest

from tests.reliability import matrix
from tests.reliability.cells import Component, CoveredBy, Proof, Timeless

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).parents[2]
PROOFS = [cell for fault in matrix.FAULTS for cell in fault.cells.values() if isinstance(cell, Proof)]
NAMED = {test for proof in PROOFS for test in proof.tests}


@pytest.mark.parametrize("fault", matrix.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_a_cell_for_each_component_and_each_cell_a_test_or_a_reason(fault):
    assert fault.cells.keys() == set(Component)
    for cell in fault.cells.values():
        assert (cell.tests and cell.holds) if isinstance(cell, Proof) else cell.reason


def test_a_cell_that_refers_to_another_fault_refers_to_a_proof_of_the_same_component():
    cells = {fault.name: fault.cells for fault in matrix.FAULTS}
    referring = [(each, cell) for own in cells.values() for each, cell in own.items() if isinstance(cell, CoveredBy)]
    assert referring
    assert [cell for each, cell in referring if not isinstance(cells[cell.fault][each], Proof)] == []


def test_no_recovery_took_longer_than_its_limit():
    measured = [proof for proof in PROOFS if proof.took_seconds is not None]
    assert measured
    assert [each for each in measured if isinstance(each.within, Timeless) or each.took_seconds > each.within] == []


def test_every_proof_has_a_time_limit_or_the_reason_for_none():
    assert [each for each in PROOFS if not isinstance(each.within, Timeless) and each.within < 1] == []
    assert {each.within for each in PROOFS if isinstance(each.within, Timeless)} == set(Timeless)


def test_no_fault_is_listed_twice():
    assert len({fault.name for fault in matrix.FAULTS}) == len(matrix.FAULTS)


def named_in(file):
    """Return a file and its tests, which pytest collects by their names."""
    tree = ast.parse((REPOSITORY / file).read_text("utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {file, *(f"{file}::{node.name}" for node in functions if node.name.startswith("test_"))}


def test_every_named_test_exists():
    found = set().union(*(named_in(test.partition("::")[0]) for test in NAMED))
    assert NAMED - found == set()
    assert all(pathlib.PurePath(test.partition("::")[0]).name.startswith("test_") for test in NAMED)
