"""Free amounts of nodes, and whether the pods of a node that is emptied find a place there. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

Amounts = tuple[int, int]
"""CPU in milli-cores, memory in bytes."""
MOST_PLACES: Final = 1000
"""Nodes that count, those with the most free: the search for places is not to hold up the manager."""


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum for each resource."""
    listed = list(amounts)
    return sum(cpu for cpu, _ in listed), sum(memory for _, memory in listed)


class Room:
    """Free amounts of several nodes, from which the pods of emptied nodes are subtracted."""

    def __init__(self, places: Mapping[str, Amounts]) -> None:
        most = heapq.nlargest(MOST_PLACES, ((free, name) for name, free in places.items() if any(free)))
        self._left = {name: free for free, name in reversed(most)}
        """Those with the least first: in a fleet that shrinks they stay for longest."""
        self._taken: set[str] = set()
        """Places of pods that move."""

    def after(self, pods: Iterable[Amounts], without: str = "") -> Room | None:
        """Return the room after every pod has found a place, the largest first; None where one finds none.

        The node `without`, which is emptied, is no place, neither for its own pods nor later.
        """
        left = Room({})
        left._left, left._taken = dict(self._left), set(self._taken)
        left.close(without)
        return left if all(left._take(pod) for pod in sorted(pods, reverse=True)) else None

    def take(self, pods: Iterable[Amounts]) -> None:
        """Find a place for each pod, the largest first; one that fits nowhere keeps no other from its place."""
        missed = None
        for pod in sorted(pods, reverse=True):
            if pod != missed and not self._take(pod):
                missed = pod  # equal ones, which follow, are not searched for again

    def _take(self, pod: Amounts) -> bool:
        for name, free in self._left.items():
            if free[0] >= pod[0] and free[1] >= pod[1]:
                self._left[name] = free[0] - pod[0], free[1] - pod[1]
                self._taken.add(name)
                return True
        return False

    def is_taken(self, name: str) -> bool:
        """Check whether a node is the place of a pod that moves, which would have to move again."""
        return name in self._taken

    def close(self, name: str) -> None:
        """Let a node be no place any more."""
        self._left.pop(name, None)


class Rooms(NamedTuple):
    """Room for Mid pods, and for the others."""

    mid: Room
    native: Room
