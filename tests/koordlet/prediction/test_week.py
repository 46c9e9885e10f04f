"""Mondays after quiet weekends."""

import numpy as np
import pytest

from koordlet.metric_cache import series
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.prediction.week import Week
from koordlet.samples import Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

GIB, STEP, DAY = 1 << 30, 300, 86_400
MONDAY = 1.7e9 - (1.7e9 - 4 * DAY) % (7 * DAY)
CAPACITY = WholeAmounts(16_000, 64 * GIB)
REQUESTED = 14.4
POLICIES = [PredictParameters(predictor=name) for name in ("n-sigma-v2", "calibrated")]


def usage(rng):
    """Return the CPU of 12 pods for two weeks: 45 % of the request from about 8 to 18 on working days, else 5 %."""
    minute = np.arange((14 * DAY + 36_000) // STEP) * STEP / 60
    begins = 480 + 10 * rng.normal()
    is_open = np.clip((minute % 1440 - begins) / 45, 0, 1) * np.clip((1080 - minute % 1440) / 45, 0, 1)
    busy = is_open * (minute // 1440 % 7 < 5)
    noise = rng.normal(size=(len(minute), 12))
    for step in range(1, len(noise)):
        noise[step] = 0.77 * noise[step - 1] + 0.64 * noise[step]
    return 1.2 * (0.05 + 0.4 * busy[:, np.newaxis]) * np.exp(0.15 * noise)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_monday_after_a_quiet_weekend_is_hardly_short_and_costs_little():
    short, lost = [], []
    pods = [Pod(f"p{i}", cpu_request_millis=1200, memory_request_bytes=4 * GIB) for i in range(12)]
    for seed in range(4):
        used = usage(np.random.default_rng(seed))
        total = used.sum(axis=1)
        server = PredictionServer(PredictParameters(), training_interval_seconds=STEP)
        for step, cores in enumerate(used):
            now, hour = MONDAY + step * STEP, step * STEP // 3600
            samples = {pod.uid: UsageSample(value, 1.5 * GIB) for pod, value in zip(pods, cores, strict=True)}
            node, system = UsageSample(total[step] + 0.3, 19.5 * GIB), UsageSample(0.3, 1.5 * GIB)
            snapshot = Snapshot(now, node, system, samples)
            server.train(now, series.snapshot_series(snapshot, {}, series.Reserved(0.5, 4.0 * GIB)), pods=pods)
            server.calibrate(now, pods, CAPACITY)
            if hour >= 7 * 24 and step % 12 == 0:
                week, peaks, server.week = server.week, predicted(server, now, pods), Week()
                lost.append((peaks - predicted(server, now, pods)) / REQUESTED)
                server.week = week
            if hour == 14 * 24 + 8:
                short.append(predicted(server, now, pods) < total[step + 1 : step + 13].max())
    assert (np.mean(short, axis=0) <= 0.05).all()
    assert (np.mean(lost, axis=0) <= 0.01).all()


def predicted(server, now, pods):
    answers = server.predict_each(now, pods, CAPACITY, POLICIES, CAPACITY)
    return np.array([answer.prod_peak.cpu_millis / 1000 for answer in answers])
