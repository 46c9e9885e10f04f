"""The face of the history to the agent: every few seconds the newest means and the newest prediction become points."""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.cluster.pods import PodOnNode
from koordlet.influxdb_exporter import points
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.prediction.server import Prediction
from koordlet.samples import SeriesKey, UsageSample


class HistoryRecorder:
    """Makes points and queues them; takes no longer than that, whatever the server does. One thread records.

    `first_seconds` is the monotonic time of the first record: drawn at random, it spreads the agents of a cluster.
    """

    def __init__(
        self, node_name: str, queue: PointQueue, writer: Writer, *, interval_seconds: int, first_seconds: float
    ) -> None:
        self.interval_seconds = interval_seconds
        self.queue = queue
        self.writer = writer
        self._node_name = node_name
        self._due_seconds = first_seconds
        self._recorded: Prediction | None = None

    def is_due(self, monotonic_seconds: float) -> bool:
        """Whether the interval has passed; asking when it has begins the next one, in step with the first."""
        if monotonic_seconds < self._due_seconds:
            return False
        missed, _ = divmod(monotonic_seconds - self._due_seconds, self.interval_seconds)
        self._due_seconds += (missed + 1) * self.interval_seconds
        return True

    def record(
        self,
        now_seconds: float,
        means: Mapping[SeriesKey, UsageSample],
        pods: Mapping[str, PodOnNode],
        prediction: Prediction | None,
    ) -> None:
        """Queue the means of the last interval, and the prediction unless it was recorded before.

        `now_seconds` is Unix time; points carry whole seconds. `pods` is keyed by the UID in the names of the cgroups.
        """
        at_seconds = int(now_seconds)
        lines = points.usage(self._node_name, at_seconds, means, pods)
        if prediction is not None and prediction is not self._recorded:
            lines += points.predicted(self._node_name, at_seconds, prediction)
        self._recorded = prediction
        self.queue.add(lines)
        self.writer.wake()
