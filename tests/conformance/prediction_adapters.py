"""Map the cases of Koordinator's predict server and of saved histograms to koordlet/prediction."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from koordlet.cluster import pods as pods_on_node
from koordlet.prediction.histogram_bank import BankState
from koordlet.prediction.usage_models import POD_EXPIRY_SECONDS, UsageModels
from koordlet.samples import NODE, Resource, SeriesKey, SeriesKind, UsageSample
from tests.conformance import adapters, koordlet_adapters, reclaimable_adapters
from tests.koordlet.prediction.linear_buckets import is_empty

START = 1.7e9
ROUND_SECONDS = 60.0
HALF_LIVES = {Resource.CPU: 43_200.0, Resource.MEMORY: 86_400.0}
NODE_MODELS_UPSTREAM = 7
"""The node, its system, and five classes."""
FIRST_BUCKETS_UPSTREAM = {"cpu_milli": 25, "memory_bytes": 5 * 2**20}


# The predict server


def _train(models: UsageModels, at_seconds: float, usage_of: Mapping[SeriesKey, UsageSample]) -> None:
    models.train(at_seconds, usage_of, HALF_LIVES)


def check_training(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    models = UsageModels()
    key = SeriesKey(SeriesKind.POD, case["pod_uid"])
    for step, cores in enumerate(koordlet_adapters.samples(case["cpu_cores_samples"])):
        usage = {key: UsageSample(float(cores), float(case["memory_bytes_each"]))}
        _train(models, START + ROUND_SECONDS * step, usage)
    wrong = []
    for name, wanted in expected.items():
        found = re.fullmatch(r"\w+?_p(\d+)_(cpu_milli|memory_bytes)(?:_at_(least|most))?", name)
        if found is None:
            return f"{name} is no expectation this adapter knows"
        resource = Resource.CPU if found[2] == "cpu_milli" else Resource.MEMORY
        value = float(models.statistics(resource, [key]).percentile(float(found[1]))[0])
        came = value * (1000 if resource is Resource.CPU else 1)
        bounds = {"least": came >= wanted, "most": came <= wanted}
        if not bounds.get(found[3], _may_be_of_one_value(wanted, came, FIRST_BUCKETS_UPSTREAM[found[2]])):
            wrong.append(f"{name}: expected {wanted}, came {came}")
    return "; ".join(wrong) or None


def _may_be_of_one_value(wanted: float, came: float, first: float) -> bool:
    """Return whether two upper ends can be those of one value: each is above it by one bucket at most.

    A bucket is 5 % wider than the one before, and begins elsewhere in the product.
    """
    return abs(came - wanted) <= 0.05 * min(came, wanted) + first


def check_expiry(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Compare the models of the pods; where there are none, whether the node's model is left."""
    models = UsageModels()
    node = {NODE: UsageSample(case["node_usage"]["cpu_cores"], case["node_usage"]["memory_bytes"])}
    usage = {SeriesKey(SeriesKind.POD, _uid(pod)): UsageSample(0.5, 1e6) for pod in case["pods"]}
    for step in range(case["training_rounds"]):
        _train(models, START + ROUND_SECONDS * step, usage | node)
    trained = len(models.pods())
    last = START + ROUND_SECONDS * (case["training_rounds"] - 1)
    _train(models, last + case["advance_clock_seconds"], {})
    left = {0: 0, NODE_MODELS_UPSTREAM: 0, NODE_MODELS_UPSTREAM + trained: trained}.get(
        expected["model_count_after_gc"]
    )
    wanted = (expected["model_count_after_training"] - NODE_MODELS_UPSTREAM, left)
    came = (trained, len(models.pods()))
    if came != wanted:
        return f"expected {wanted} models of pods after training and after gc, came {came}"
    if not trained and (NODE in models) != bool(expected["model_count_after_gc"]):
        return f"expected {expected['model_count_after_gc']} models of the node after gc, came its own"
    return None


def _uid(pod: Any) -> str:
    return str(pod["uid"] if isinstance(pod, Mapping) else pod)


def prediction_informer(case: Mapping[str, Any]) -> dict[str, Any]:
    table = pods_on_node.PodTable()
    for pod in case["pods"]:
        wire = {"uid": _uid(pod), "requests": {"cpu_milli": 0, "memory_bytes": 0}}
        table.put(reclaimable_adapters.pod_on_node(wire | (pod if isinstance(pod, dict) else {})))
    table.keep_only([("default", _uid(pod)) for pod in case["pods"]])
    return {"has_synced": table.synced, "pod_count": len(table.active())}


# Histograms in a checkpoint


def check_saved(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Compare weights as Koordinator rounds them, and the total at its reference: each system moves its own."""
    rows = case.get("samples_value_weight_offset_seconds", [])
    bank = koordlet_adapters.filled(case["options"], rows, case.get("start_unix_seconds", 0.0))
    state = bank.state(koordlet_adapters.ROW)
    reference = None if math.isnan(state.reference_seconds) else state.reference_seconds
    came = {
        "reference_timestamp_is_zero_time": reference is None,
        "checkpoint_reference_equals_histogram_reference": reference == bank.reference_seconds,
        "bucketWeights_empty": len(state.cells) == 0,
        "totalWeight_zero": not state.columns[0, 0],
        "bucketWeights": _rounded_weights(state),
        "totalWeight": state.columns[0, 0],
    }
    stated = dict(expected)
    if at := stated.pop("referenceTimestamp", None):
        came["totalWeight"] *= bank.decay_until(dt.datetime.fromisoformat(at).timestamp())
    wrong = {name: value for name, value in stated.items() if adapters.differs(value, came[name], 0, 1e-9)}
    return f"expected {wrong}, came {came}" if wrong else None


def _rounded_weights(state: BankState) -> dict[str, int]:
    """Return the weight of each bucket as a share of the largest one, in 1..10000; smaller ones are left out."""
    shares = np.floor(state.cell_weights * 10_000 / state.cell_weights.max(initial=0.0) + 0.5)
    return {str(cell): int(share) for cell, share in zip(state.cells, shares, strict=True) if share}


def loaded(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state: Koordinator spreads the total over rounded weights, the product has the weights themselves."""
    given = case["checkpoint"]
    cells = {int(bucket): weight for bucket, weight in given["bucketWeights"].items() if weight}
    share = given["totalWeight"] / (sum(cells.values()) or 1)
    reference = dt.datetime.fromisoformat(given["referenceTimestamp"])
    state = BankState(
        half_life_seconds=case["options"]["half_life_seconds"],
        reference_seconds=reference.timestamp(),
        cells=np.array(sorted(cells), np.intp),
        cell_weights=np.array([cells[bucket] * share for bucket in sorted(cells)], float),
        columns=np.array(
            [[given["totalWeight"]], [0.0], [0.0], [reference.timestamp()], [reference.timestamp()], [0.0], [0.0]]
        ),
    )
    bank = koordlet_adapters.empty_bank(case["options"])
    bank.restore(koordlet_adapters.ROW, state)
    came = dt.datetime.fromtimestamp(bank.reference_seconds or 0.0, dt.UTC)
    return {
        "error": False,
        "is_empty": bool(is_empty(bank, koordlet_adapters.ROW)[0]),
        "reference_timestamp": came.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _is_refused_upstream(case: Mapping[str, Any]) -> bool:
    """Return whether Koordinator cannot load a checkpoint: it is missing, or one of its values is impossible."""
    given = case["input"]["checkpoint"]
    if given is None or given["totalWeight"] < 0:
        return True
    count = len(koordlet_adapters.empty_bank(case["input"]["options"]).buckets.starts)
    return any(not 0 <= int(bucket) < count for bucket in given["bucketWeights"])


def _is_past(case: Mapping[str, Any], expiry_seconds: float) -> bool:
    return bool(case["input"]["advance_clock_seconds"] > expiry_seconds)


def _loses_the_node(case: Mapping[str, Any]) -> bool:
    """Return whether the models of the node, the only ones of a case, expire in Koordinator's agent."""
    return not case["input"]["pods"] and _is_past(case, case["input"]["model_expiration_seconds"])


def _expires_at_another_time(case: Mapping[str, Any]) -> bool:
    pods_expire = _is_past(case, POD_EXPIRY_SECONDS)
    return bool(case["input"]["pods"]) and _is_past(case, case["input"]["model_expiration_seconds"]) != pods_expire


ADAPTERS = {
    "DecayingHistogram.LoadFromCheckpoint": loaded,
    "prediction informer": prediction_informer,
}
CHECKS = {
    "DecayingHistogram.SaveToCheckpoint": check_saved,
    "predict server training": check_training,
    "predict server gc": check_expiry,
}
DIFFERENT_ON_PURPOSE = [
    (
        "DecayingHistogram.LoadFromCheckpoint",
        _is_refused_upstream,
        "a checkpoint is one file with a CRC that is refused as a whole, not a JSON checked key by key",
    ),
    (
        "predict server gc",
        _loses_the_node,
        "other series of the node, and they do not expire: a stale one is a NoPrediction",
    ),
    ("predict server gc", _expires_at_another_time, "models of pods expire after Koordinator's default, 1800 s"),
    (
        "prediction config defaults",
        lambda _case: True,
        "coldStartPeriodSeconds is 7200 and comes with the NodeMetric; one checkpoint file in state-dir",
    ),
    (
        "uid generator",
        lambda _case: True,
        "one checkpoint file for all models, so that the node's own need no file name",
    ),
]
