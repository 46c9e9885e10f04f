"""Pods whose containers do not run yet, or wait to be started again: their record does not describe their peak.

The cgroup of a pod exists with its sandbox, long before its image is there or its init containers have ended. Until
every main container was started once, the pod is cold and records nothing. A pod that crash-loops from its start uses
next to nothing either: while it is cold, each wait begins its recorded history again. A warm pod keeps its history.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import SeriesKey, pod_key


class PodStarts:
    """UIDs of the pods that do not run, as the newest states of the pods show them."""

    def __init__(self) -> None:
        self.not_started: frozenset[str] = frozenset()
        """Pods of which a main container was never started."""
        self.waiting: frozenset[str] = frozenset()
        """Pods of which a main container waits to be started."""
        self.begun_again: Collection[SeriesKey] = ()
        """Series whose recorded history begins with the newest training."""

    def begin_again(self, models: UsageModels, cold_start_period_seconds: float) -> None:
        """Discard what was recorded of pods that have not started, and of cold pods that wait. Precedes a training."""
        waiting = [key for key in map(pod_key, self.waiting - self.not_started) if key in models]
        is_cold = models.recorded_seconds(waiting) < cold_start_period_seconds
        self.begun_again = [*map(pod_key, self.not_started), *itertools.compress(waiting, is_cold)]
        models.begin_again(self.begun_again)
