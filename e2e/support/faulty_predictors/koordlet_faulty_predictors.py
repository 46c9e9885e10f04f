"""Predictors of a package that the agent has to switch off."""

from __future__ import annotations

import time
from typing import Any

BUSY_SECONDS = 0.04


class Raises:
    """Raises for memory, after it has answered for CPU."""

    def predict(self, load: Any) -> float:
        if load.resource == "memory":
            raise RuntimeError("no idea about memory")
        return 0.1


class Slow:
    """Answers, with twice the CPU time that a call may use."""

    def predict(self, load: Any) -> float:
        end = time.thread_time() + BUSY_SECONDS
        while time.thread_time() < end:
            pass
        return 0.1 if load.resource == "cpu" else 2.0**20
