"""The bar of a node in `koordctl top nodes`: its CPU, what is used, requested and predicted, and the limit. Pure."""

from __future__ import annotations

from typing import Final

from fleet.node_state import NodeState, percent
from koordctl.cli.answer import UNKNOWN

LENGTH: Final = 20
LEGEND: Final = (
    "OF CPU: █ used by Prod and system  ▓ used by Mid  ░ requested by Prod, not used  · free  P predicted Prod peak"
)
LIMIT_SIGN: Final = "│"


def legend(limit_percent: float | None) -> str:
    """Return the meaning of the signs of bars with this limit."""
    if limit_percent is None:
        return LEGEND
    return f"{LEGEND}\n        {LIMIT_SIGN} no pod is placed on a node above {limit_percent:g}% (LoadAwareScheduling)"


def bar(node: NodeState, limit_percent: float | None = None) -> str:
    """Draw the CPU of a node as a bar of `LENGTH` characters; UNKNOWN where its usage is not known.

    `limit_percent` is the usage above which the scheduler places no pod; None draws none.
    """
    used = node.used_percent("cpu")
    if used is None:
        return UNKNOWN
    mid = percent(node.mid_used.cpu, node.allocatable.cpu) or 0.0
    requested = percent(node.prod_requests.cpu, node.allocatable.cpu) or 0.0
    cells = [_cell((position + 0.5) * 100 / LENGTH, used, mid, requested) for position in range(LENGTH)]
    peak = percent(node.prod_peak.cpu, node.allocatable.cpu)
    for at, sign in ((limit_percent, LIMIT_SIGN), (peak, "P")):
        if at is not None:
            cells[min(max(int(at * LENGTH / 100), 0), LENGTH - 1)] = sign
    return "".join(cells)


def _cell(at: float, used: float, mid: float, requested: float) -> str:
    """Return the character for a place, in percent of the CPU."""
    if at < used - mid:
        return "█"
    if at < used:
        return "▓"
    return "░" if at < requested else "·"
