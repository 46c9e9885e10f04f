"""The matrix of faults in docs/reliability.md, from the catalogue beside the tests. The rest of the page is by hand."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from typing import Final

from docs.generators import markdown
from tests.reliability import matrix
from tests.reliability.cells import Cell, Component, CoveredBy, Fault, NotConcerned, NotTested, Proof, Timeless

_SECTION: Final = re.compile(
    r"(?P<start><!-- matrix: written by make update from tests/reliability -->)\n.*?(?P<end><!-- end -->)", re.DOTALL
)


def page(text: str) -> str:
    """Return the page with its matrix generated again. Raises ValueError where the page has no place for it."""
    written, count = _SECTION.subn(lambda found: f"{found['start']}\n{_matrix()}\n{found['end']}", text)
    if count != 1:
        raise ValueError(f"reliability.md: {count} places for the matrix, want one")
    return written


def _matrix() -> str:
    cells = [cell for fault in matrix.FAULTS for cell in fault.cells.values()]
    kinds = (Proof, CoveredBy, NotTested, NotConcerned)
    tested, covered, untested, other = (sum(isinstance(cell, kind) for cell in cells) for kind in kinds)
    timeless = collections.Counter(cell.within for cell in cells if isinstance(cell, Proof))
    counts = (
        f"\n{len(matrix.FAULTS)} kinds of fault and {len(Component)} components: {tested} cells have a test,\n"
        f"{covered} are another fault to the component (*as*), {untested} can happen and have no test (*no*),\n"
        f"{other} cannot happen (empty). A number is the longest time of the recovery that a test allows, in\n"
        f"seconds. Of the others, {timeless[Timeless.UNINTERRUPTED]} need no recovery, {timeless[Timeless.AT_ONCE]} "
        "recover at once, with the next call, round or\n"
        f"start, and of {timeless[Timeless.NOT_TIMED]} no test asserts a time (*not timed*). Reasons are below the "
        "table, and beside some\nlimits the time that the recovery took in a run on two busy cores; that of koordlet "
        "ends with its next\nreport.\n"
    )
    head = ("fault", *Component)
    rows = ((fault.name, *(_sign(fault.cells[each]) for each in Component)) for fault in matrix.FAULTS)
    return counts + markdown.table(head, rows) + "".join(map(_section, matrix.FAULTS))


def _sign(cell: Cell) -> str:
    match cell:
        case Proof(within=within):
            return str(within)
        case CoveredBy(fault=fault):
            return f"as {fault}"
        case NotTested():
            return "no"
        case NotConcerned():
            return ""


def _section(fault: Fault) -> str:
    proofs = [(each, cell) for each in Component if isinstance(cell := fault.cells[each], Proof)]
    rows = ((each, cell.holds, ", ".join(map(markdown.code, cell.tests)), _seconds(cell)) for each, cell in proofs)
    table = markdown.table(("component", "what holds", "test", "within"), rows) if proofs else ""
    return (
        f"\n### {fault.name[0].upper()}{fault.name[1:]}\n\n{fault.what[0].upper()}{fault.what[1:]}.\n{table}"
        f"{_references(fault)}"
        f"{_reasons('Not tested', fault, NotTested)}{_reasons('Cannot happen', fault, NotConcerned)}"
    )


def _seconds(proof: Proof) -> str:
    """Return the limit of the recovery, and the time that it took."""
    limit = proof.within if isinstance(proof.within, Timeless) else f"at most {proof.within} s"
    return limit if proof.took_seconds is None else f"{limit}, took {proof.took_seconds:g} s"


def _references(fault: Fault) -> str:
    """Return one sentence for the cells that refer to another fault."""
    by_cell: dict[CoveredBy, list[str]] = {}
    for each in Component:
        if isinstance(cell := fault.cells[each], CoveredBy):
            by_cell.setdefault(cell, []).append(each)
    found = "; ".join(_joined(names, f"{cell.fault}: {cell.reason}") for cell, names in by_cell.items())
    return f"\nAs another fault: {found}.\n" if found else ""


def _reasons(title: str, fault: Fault, kind: type[NotTested | NotConcerned]) -> str:
    """Return one sentence for the cells of a kind, those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for each in Component:
        if isinstance(cell := fault.cells[each], kind):
            by_reason.setdefault(cell.reason, []).append(each)
    if not by_reason:
        return ""
    return f"\n{title}: {'; '.join(_joined(names, reason) for reason, names in by_reason.items())}.\n"


def _joined(names: Iterable[str], reason: str) -> str:
    return f"{', '.join(names)} ({reason})"
