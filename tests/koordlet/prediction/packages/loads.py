"""Loads of package predictors for tests."""

import numpy as np

from koordlet.prediction.packages.protocol import RING_SLOTS, Load, Series


def series(*means):
    rows = len(means)
    mean = np.array(means, float)
    ring = np.full((rows, RING_SLOTS), np.nan)
    return Series(mean, np.zeros(rows), mean, ring, lambda *percents: np.tile(mean[:, None], len(percents)))


def load(resource="cpu", *, means=(1.0, 2.0), cold_requests=0.5, capacity=16.0):
    uids = tuple(f"pod-{index}" for index in range(len(means)))
    return Load(
        resource=resource, now_seconds=1.7e9, horizon_seconds=3600.0, violation_target_percent=1.0, capacity=capacity,
        pod_uids=uids, pods=series(*means), pod_requests=np.ones(len(means)), pod_limits=np.full(len(means), np.inf),
        unreserved_system=series(0.25), cold_requests=cold_requests,
    )  # fmt: skip
