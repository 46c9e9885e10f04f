"""What the controller of the Mid resources remembers of one node; a new leader begins with the status annotation."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from api_types.node_metric.mid_status import MidStatus
from manager.mid_resource import formula
from manager.mid_resource.formula import Period
from manager.mid_resource.inputs import LastSamples
from manager.mid_resource.pods import ListedPods
from manager.mid_resource.write_pace import WritePace


@dataclass
class MidNodeState:
    """Memory of one Node object; a node that is created again has a new one."""

    uid: str
    last_samples: LastSamples = LastSamples()  # noqa: RUF009  # immutable
    last_reason: str | None = None
    """Reason code of the last reconcile."""
    is_clock_reported: bool = False
    pace: WritePace = field(default_factory=WritePace)
    listed: ListedPods | None = None
    period: Period | None = None
    """Time in which Mid shrinks."""
    has_ended_period: bool = False
    """Whether one has ended here: the annotation may hold the old time until its next write."""

    def continue_or_begin_period(
        self, written: MidStatus | None, now: dt.datetime, sample: dt.datetime | None
    ) -> Period:
        """Return the period in which Mid shrinks; begin one where there is none."""
        self.period = formula.continue_or_begin(self.period, None if self.has_ended_period else written, now, sample)
        return self.period
