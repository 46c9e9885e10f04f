"""The matrix of faults: every kind of fault, and its cell for each component. `make update` writes the page from it."""

from __future__ import annotations

from typing import Final

from tests.reliability import inputs, peers, processes
from tests.reliability.cells import Fault

FAULTS: Final[tuple[Fault, ...]] = (*processes.FAULTS, *peers.FAULTS, *inputs.FAULTS)
