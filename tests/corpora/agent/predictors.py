"""Predictors of an installed package, good ones and bad ones, for the cases of the corpus."""

from __future__ import annotations

import sys

POINTS = {
    f"corpus/{name}": f"{__name__}:{name.title()}"
    for name in ("learner", "slow", "raises", "negative", "text", "large", "rounds", "views", "ends", "stateless")
} | {
    "corpus/missing": f"{__name__}:Nothing",
    "corpus/noname": f"{__name__}:NoMethod",
    "corpus/broken": f"{__name__}:broken",
    "n-sigma-v1": f"{__name__}:Learner",
}
"""Entry points: name of a predictor -> object."""

cpu_seconds = [0.0]
"""CPU time that the predictors of this module have used."""


class Stateless:
    """Sums the largest samples of each pod and of S."""

    def predict(self, load):
        return float(load.pods.newest.sum() + load.unreserved_system.newest.sum())


class Learner:
    """Remembers the largest sum that it has observed, over restarts."""

    def __init__(self):
        self.highest = {}

    def predict(self, load):
        return max(self.highest.get(load.resource, 0.0), float(load.pods.mean.sum()))

    def observe(self, load):
        total = float(load.pods.newest.sum() + load.unreserved_system.newest[0] + len(load.pod_uids))
        self.highest[load.resource] = max(total, self.highest.get(load.resource, 0.0))

    def save(self):
        return repr(sorted(self.highest.items())).encode()

    def restore(self, state):
        self.highest = {name: float(value) for name, value in eval(state.decode())}


class Views:
    """Returns a number into which every field of a load goes."""

    def predict(self, load):
        rings = [series.ring[:, :3] for series in (load.pods, load.unreserved_system)]
        parts = [load.horizon_seconds / 3600, load.violation_target_percent, load.cold_requests, load.now_seconds % 7]
        parts += [min(load.capacity, 1e12), float(load.pod_requests.sum()), float(len(load.pod_uids))]
        parts += [float(limit) for limit in load.pod_limits if limit < 1e12]
        for series in (load.pods, load.unreserved_system):
            parts += [float(series.mean.sum()), float(series.stdev.sum()), float(series.newest.sum())]
            parts += [float(series.percentiles(50, 99.5)[:, column].sum()) for column in (0, 1)]
        parts += [float(ring[ring == ring].sum()) for ring in rings]
        try:
            load.pods.mean[:] = 0
        except ValueError:
            return sum(part / (1 + number) for number, part in enumerate(parts))
        return 0


class Slow(Stateless):
    """Uses more CPU time in every call but each fourth."""

    calls = 0

    def predict(self, load):
        self.calls += 1
        cpu_seconds[0] += 0.001 if self.calls % 8 in (0, 1) and self.calls < 30 else 0.021
        return 1


class Raises:
    """Ends the program, in its way."""

    def predict(self, load):
        return 2

    def observe(self, load):
        if load.resource == "memory":
            sys.exit("a\nlong" + " text" * 90)


class Negative:
    """Returns what is no usage, once a pod is warm."""

    def predict(self, load):
        return -1.0 if load.pod_uids else 3


class Text:
    """Has a reason for no prediction of memory."""

    def predict(self, load):
        return "no history\nof memory" if load.resource == "memory" else 1.5


class Large(Learner):
    """Has too large a state."""

    def save(self):
        return bytes((64 << 10) + 1)


class Rounds(Learner):
    """Refuses its stored state."""

    def restore(self, state):
        raise ValueError("another version")


class Ends(Learner):
    """Returns another type in place of its state."""

    def save(self):
        return "text"


class NoMethod:
    """Lacks the method."""


def broken():
    raise KeyError("not today")
