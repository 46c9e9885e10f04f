"""What the emptying of nodes knows of a node by its newest reconcile. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from manager.mid_resource.eviction.policy import EvictionPolicy, Graces
from manager.mid_resource.eviction.room import Amounts
from manager.mid_resource.reasons import Closed

_LEFT_ALONE: Final = frozenset({Closed.FROZEN, Closed.LEAVING, Closed.CORDONED})


@dataclass(frozen=True, slots=True)
class Reported:
    """What the newest reconcile of a node shows."""

    uid: str
    policy: EvictionPolicy
    graces: Graces
    underused_percent: int = 0
    """Share of the node that its other pods may request where it is emptied too; 0 for none."""
    kept_because: str = ""
    """Why no autoscaler would remove it; empty where one would."""
    closed: Closed = Closed.NO
    prod: Amounts | None = None
    """Requests of the Prod pods by the newest report with them, DaemonSets among them; None where there was none."""
    is_current: bool = True
    """Whether a report that is still fresh has `prod`."""
    free: Amounts = (0, 0)
    """Mid resources that no pod requests."""
    has_mid_pods: bool = False
    """Whether pods request Mid resources there."""
    allocatable: Amounts = (0, 0)

    @property
    def is_underused(self) -> bool:
        """Check whether Prod pods request so little that they may be moved elsewhere."""
        percent, prod = self.underused_percent, self.prod
        if not percent or prod is None or not self.is_current:
            return False
        return all(used * 100 <= percent * whole for used, whole in zip(prod, self.allocatable, strict=True))

    @property
    def native_free(self) -> Amounts:
        """Return what no Prod pod requests, which is nothing where it is not known by a fresh report."""
        if self.prod is None or not self.is_current:
            return 0, 0
        return max(self.allocatable[0] - self.prod[0], 0), max(self.allocatable[1] - self.prod[1], 0)

    @property
    def may_be_emptied(self) -> bool:
        """Check whether the node is emptied once only Mid pods keep it."""
        return bool(self.graces.with_room) and not self.kept_because

    @property
    def is_left_alone(self) -> bool:
        """Check whether the node is not to be emptied now: it leaves, its operator empties it, or all are frozen."""
        return self.closed in _LEFT_ALONE
