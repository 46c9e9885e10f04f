"""Cost of training, percentiles, predictions and the checkpoint, compared with one histogram object per series.

    python -m benchmarks.bench_prediction [--series N] [--pods N] [--repeat N]

CPU is that of this thread, median of the repetitions; "wall" is the time of the checkpoint with the disk. The targets
are for 500 series and 250 pods.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster import spec_in_force
from koordlet.prediction import checkpoint, histogram_bank
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Plan
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    RESOURCES,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    SeriesKind,
    UsageSample,
)
from tests.koordlet.fed_node import TRAIN_SECONDS, FedNode
from tests.koordlet.one_node import StaticCluster, bound_pod
from tests.koordlet.prediction.pods import Pod

NOW = 1.7e9
ROUNDS = 2880  # a day
NODE_SERIES = (
    NODE,
    SYSTEM,
    UNRESERVED_SYSTEM,
    PROD_AND_UNRESERVED_SYSTEM,
    *(SeriesKey(SeriesKind.CLASS, name) for name in PriorityClass if name),
)
HALF_LIVES = {Resource.CPU: 43_200.0, Resource.MEMORY: 86_400.0}
EVALUATED = ["n-sigma-v2", "resource-central"]
RATIOS = (0.5, 0.9, 0.95, 0.99)


class ObjectHistogram:
    """One decaying histogram as an object with a list of weights, the usual implementation."""

    def __init__(self, scheme: histogram_bank.ExponentialBuckets, half_life_seconds: float) -> None:
        self.scheme, self.half_life_seconds = scheme, half_life_seconds
        self.starts = scheme.starts.tolist()
        self.log_ratio = math.log(scheme.ratio)
        self.weights = [0.0] * len(self.starts)
        self.total = 0.0

    def add(self, value: float, at_seconds: float) -> None:
        bucket = 0
        if value >= self.scheme.first_bucket_size:
            growth = self.scheme.ratio - 1
            bucket = int(math.log(value * growth / self.scheme.first_bucket_size + 1) / self.log_ratio)
        weight = 2.0 ** ((at_seconds - NOW) / self.half_life_seconds)
        self.weights[min(bucket, len(self.weights) - 1)] += weight
        self.total += weight

    def percentile(self, ratio: float) -> float:
        wanted, running, bucket = ratio * self.total, self.weights[0], 0
        while running < wanted and bucket < len(self.weights) - 1:
            bucket += 1
            running += self.weights[bucket]
        return self.starts[min(bucket + 1, len(self.starts) - 1)]


def usage(keys: list[SeriesKey], rng: random.Random) -> dict[SeriesKey, UsageSample]:
    """Return one value per series: a tenth of a core to some cores, hundreds of MiB."""
    return {
        key: UsageSample(rng.gammavariate(2.0, 0.2 + 0.01 * (row % 50)), rng.gauss(4e8, 2e7))
        for row, key in enumerate(keys)
    }


def cpu_ms(work: Callable[[], object], repeat: int, clock: Callable[[], float] = time.thread_time) -> float:
    """Return the milliseconds of one call, median."""
    costs = []
    for _ in range(repeat):
        begin = clock()
        work()
        costs.append((clock() - begin) * 1000)
    return statistics.median(costs)


def row(what: str, bank: float, objects: float | None, target: float | None) -> None:
    """Print one line of the table."""
    beside = "" if objects is None else f"{objects:.2f}"
    wanted = "" if target is None else f"{target:.1f}"
    print(f"{what:<46}{bank:>10.3f}{beside:>12}{wanted:>10}")


def bench_histograms(keys: list[SeriesKey], repeat: int) -> None:
    """Measure training and percentiles, of the bank and of one object per series."""
    rng = random.Random(3)
    rounds = [usage(keys, rng) for _ in range(16)]
    models = UsageModels(max_pods=len(keys))
    schemes = {Resource.CPU: histogram_bank.CPU_CORES, Resource.MEMORY: histogram_bank.MEMORY_BYTES}
    objects = {key: [ObjectHistogram(schemes[each], HALF_LIVES[each]) for each in RESOURCES] for key in keys}
    clock = iter(range(10**9))

    def train() -> None:
        step = next(clock)
        models.train(NOW + 30 * step, rounds[step % 16], HALF_LIVES)

    def train_objects() -> None:
        step = next(clock)
        for key, sample in rounds[step % 16].items():
            for histogram, value in zip(objects[key], sample, strict=True):
                histogram.add(value, NOW + 30 * step)

    for _ in range(200):
        train()
        train_objects()
    row(f"train {len(keys)} series, both resources", cpu_ms(train, repeat), cpu_ms(train_objects, repeat), 0.5)
    for ratios, name in ((RATIOS[2:3], "one percentile"), (RATIOS, "four percentiles")):

        def read(ratios: tuple[float, ...] = ratios) -> None:
            for resource in RESOURCES:
                series = models.statistics(resource, keys)
                series.bank.percentiles(series.rows, ratios)

        def read_objects(ratios: tuple[float, ...] = ratios) -> None:
            for histograms in objects.values():
                for histogram in histograms:
                    for ratio in ratios:
                        histogram.percentile(ratio)

        row(f"{name} of {len(keys)} series, both resources", cpu_ms(read, repeat), cpu_ms(read_objects, repeat), 15.0)


def bench_server(keys: list[SeriesKey], pods: int, repeat: int) -> None:
    """Measure every predictor on a day of history, then its checkpoint."""
    rng = random.Random(4)
    rounds = [usage(keys, rng) for _ in range(97)]
    server = PredictionServer(PredictParameters(), max_pods=len(keys))
    for step in range(ROUNDS):
        server.train(NOW + 30 * step, rounds[step % 97])
    now = NOW + 30 * ROUNDS
    on_node = [Pod(key.identity) for key in keys if key.kind is SeriesKind.POD][:pods]
    for name in registry.PREDICTORS:
        server.configure(PredictParameters(predictor=name))
        server.train(now, rounds[0])
        assert isinstance(server.predict(now, on_node, WholeAmounts(10**6, 2**40)), Prediction)
        cost = cpu_ms(lambda: server.predict(now, on_node, WholeAmounts(10**6, 2**40)), repeat)
        row(f"predict {len(on_node)} pods, {name}", cost, None, 5.0)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prediction"

        def write() -> None:
            assert checkpoint.save(path, checkpoint.Checkpoint("node", now, server.export())) is None

        def load() -> None:
            stored = checkpoint.load(path, "node")
            assert isinstance(stored, checkpoint.Checkpoint)
            PredictionServer(PredictParameters()).restore(stored.models)

        for name, work in (("write", write), ("load", load)):
            row(f"checkpoint of {len(keys)} series, {name}", cpu_ms(work, repeat), None, 5.0)
            row(f"checkpoint of {len(keys)} series, {name}, wall", cpu_ms(work, repeat, time.perf_counter), None, 5.0)
        print(f"checkpoint file: {path.stat().st_size / 1024:.0f} KiB")


def bench_evaluation(pods: int, repeat: int) -> None:
    """Measure the live evaluation of two predictors: what a training costs more, and a forecast every horizon."""
    rng = random.Random(5)
    names = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(pods)]
    cluster = StaticCluster(*map(bound_pod, names), spec={"predictPolicy": {"evaluatedPredictors": EVALUATED}})
    node = FedNode(cluster, step_seconds=1)

    def load(_step: int) -> tuple[dict[str, UsageSample], UsageSample]:
        return {name: UsageSample(rng.random(), 1e8 * rng.random()) for name in names}, UsageSample(1.0, 1e9)

    for _ in node.run(300, load):
        pass
    parameters = spec_in_force.predict_parameters(node.policy)
    plan = Plan.from_policy(node.policy, parameters)

    def evaluate() -> None:
        node.observer.evaluate(node.now, cluster, plan, node.boot_seconds)

    def forecast() -> None:
        node.observer.evaluation.forecast = None
        evaluate()

    observing, forecasting = cpu_ms(evaluate, repeat), cpu_ms(forecast, repeat)
    row(f"evaluate 2 predictors at {pods} pods, a training", observing, None, None)
    row(f"evaluate 2 predictors at {pods} pods, a forecast", forecasting, None, None)
    trainings = plan.horizon_seconds / TRAIN_SECONDS
    row("evaluate, mean of a training", observing + forecasting / trainings, None, 0.2)
    stored = msgspec.msgpack.encode(node.observer.evaluation.export(node.now, node.boot_seconds))
    print(f"evaluation in the checkpoint: {len(stored) / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--pods", type=int, default=250)
    parser.add_argument("--repeat", type=int, default=100)
    options = parser.parse_args()
    pods = options.series - len(NODE_SERIES)
    keys = [*NODE_SERIES, *(SeriesKey(SeriesKind.POD, f"pod-{number:032d}") for number in range(pods))]
    print(f"{'CPU milliseconds':<46}{'bank':>10}{'objects':>12}{'target':>10}")
    bench_histograms(keys, options.repeat)
    bench_server(keys, options.pods, options.repeat)
    bench_evaluation(options.pods, options.repeat)


if __name__ == "__main__":
    main()
