"""The matrix of faults is complete, and pytest collects every test that it names."""

import pathlib
import subprocess
import sys

import pytest

from tests.reliability import matrix
from tests.reliability.cells import Component, CoveredBy, Proof

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
    assert [proof for proof in measured if proof.seconds is None or proof.took_seconds > proof.seconds] == []


def test_no_fault_is_listed_twice():
    assert len({fault.name for fault in matrix.FAULTS}) == len(matrix.FAULTS)


def collected(*words):
    """Return what pytest collects, as `file` and as `file::test`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *words]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    names = {line.partition("[")[0] for line in listed.splitlines() if "::" in line}
    return names | {name.partition("::")[0] for name in names}


@pytest.mark.timeout(300)
def test_pytest_collects_every_named_test():
    files = sorted({test.partition("::")[0] for test in NAMED})
    cases = [file for file in files if file.startswith("e2e/")]
    found = collected(*(file for file in files if file not in cases))
    found |= collected(*cases) | collected(*cases, "--long")  # of so many files each run has its own part
    assert NAMED - found == set()
