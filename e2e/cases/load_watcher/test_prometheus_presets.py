"""Every preset of Prometheus queries, evaluated by a real Prometheus with the recording rules of that stack.

Needs no cluster and no waiting: the samples of half an hour are written into Prometheus' data. The rules compute what
kube-prometheus (first and recent versions) and OpenShift record under these names, with their labels.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.thirdparty.prometheus import backfill, server
from e2e.thirdparty.prometheus.backfill import Sample
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import KnownNode, Provider
from scheduler_plugin.load_watcher.providers.provider_spec import PRESETS, ProviderSpec
from scheduler_plugin.load_watcher.records import MetricType, Statistic

pytestmark = pytest.mark.timeout(300)

CPUS = 2
MEMORY = 8 * 2**30
BUSY = {"node-1": 0.3, "node-2": 0.7}
"""Node -> share of the CPU time that is neither idle, waiting nor stolen."""
USED = {"node-1": (0.3, 0.5), "node-2": (0.6, 0.8)}
"""Node -> shares of the memory in use, in turn for a minute each."""
MINUTES, STEP_SECONDS = 30, 15
RATE = 0.25
"""Growth of every counter of a network device and a disk in a second."""

_IDLE = 'mode=~"idle|iowait|steal"'
_DISK = "node_disk_io_time_seconds_total"
RULES: Mapping[str, Mapping[str, str]] = {
    "kube-prometheus": {
        "instance:node_cpu:ratio": (
            'sum without (cpu, mode) (rate(node_cpu_seconds_total{mode!="idle", mode!="iowait", mode!="steal"}[5m]))'
            " / on (instance) group_left () count by (instance) (sum by (instance, cpu) (node_cpu_seconds_total))"
        ),
        "instance:node_network_transmit_bytes:rate:sum": (
            "sum by (instance) (rate(node_network_transmit_bytes_total[3m]))"
        ),
        "instance:node_network_receive_bytes:rate:sum": (
            "sum by (instance) (rate(node_network_receive_bytes_total[3m]))"
        ),
        "instance:node_network_transmit_drop_excluding_lo:rate5m": (
            'sum without (device) (rate(node_network_transmit_drop_total{device!="lo"}[5m]))'
        ),
        "instance:node_network_receive_drop_excluding_lo:rate5m": (
            'sum without (device) (rate(node_network_receive_drop_total{device!="lo"}[5m]))'
        ),
        "instance_device:node_disk_io_time_seconds:rate5m": f"rate({_DISK}[5m])",
    },
    "kube-prometheus-recent": {
        "instance:node_cpu_utilisation:rate5m": (
            f"1 - avg without (cpu) (sum without (mode) (rate(node_cpu_seconds_total{{{_IDLE}}}[5m])))"
        ),
    },
    "openshift": {
        "instance:node_cpu_utilisation:rate1m": (
            f"1 - avg without (cpu) (sum without (mode) (rate(node_cpu_seconds_total{{{_IDLE}}}[1m])))"
        ),
    },
    "node-exporter": {},
    "koordlet": {},
}
"""Preset -> record -> expression. All three stacks have the rule of `instance:node_memory_utilisation:ratio`."""
_MEMORY_RULE = {
    "instance:node_memory_utilisation:ratio": "1 - (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"
}
RELABELLED = {
    "kube-prometheus": lambda node: {"instance": node, "job": "node-exporter", "pod": f"exporter-{node}"},
    "kube-prometheus-recent": lambda node: {"instance": node, "job": "node-exporter", "pod": f"exporter-{node}"},
    "openshift": lambda node: {"instance": node, "job": "node-exporter", "pod": f"exporter-{node}"},
    "node-exporter": lambda node: {"instance": _ADDRESSES[node], "job": "node", "node": node},
    "koordlet": lambda node: {"instance": _ADDRESSES[node], "job": "koordlet", "node": node},
}
"""Preset -> labels of a scraped node: the stacks put the node's name into `instance`, others add a label for it."""
_ADDRESSES = {"node-1": "10.0.0.1:9100", "node-2": "10.0.0.2:9100"}


def _samples(labels: Mapping[str, Mapping[str, str]], end: float) -> Iterator[Sample]:
    """Yield what node_exporter and koordlet of each node would have exported, metric by metric."""
    times = [end - MINUTES * 60 + at for at in range(0, MINUTES * 60 + 1, STEP_SECONDS)]
    shares = {
        node: {"idle": 0.9 - busy, "iowait": 0.06, "steal": 0.04, "user": busy / 3, "system": busy / 2, "irq": busy / 6}
        for node, busy in BUSY.items()
    }
    for node, own in labels.items():
        for cpu in range(CPUS):
            for mode, share in shares[node].items():
                kept = {**own, "cpu": str(cpu), "mode": mode}
                yield from (Sample("node_cpu_seconds_total", kept, at, share * (at - times[0])) for at in times)
    for own in labels.values():
        yield from (Sample("node_memory_MemTotal_bytes", own, at, MEMORY) for at in times)
    for node, own in labels.items():
        yield from (
            Sample("node_memory_MemAvailable_bytes", own, at, (1.0 - USED[node][int(at // 60) % 2]) * MEMORY)
            for at in times
        )
    counters = [
        *(f"node_network_{way}_{what}_total" for way in ("transmit", "receive") for what in ("bytes", "drop")),
        _DISK,
    ]
    for name in counters:
        for own in labels.values():
            for device in ("lo", "eth0") if name != _DISK else ("sda",):
                yield from (Sample(name, {**own, "device": device}, at, RATE * (at - times[0])) for at in times)
    for node, own in labels.items():
        yield from (
            Sample("koordlet_usage_cpu_cores", {**own, "kind": kind}, at, BUSY[node] * CPUS * part)
            for kind, part in (("node", 1.0), ("system", 0.1))
            for at in times
        )
    for node, own in labels.items():
        yield from (
            Sample("koordlet_usage_memory_bytes", {**own, "kind": kind}, at, USED[node][int(at // 60) % 2] * size)
            for kind, size in (("node", MEMORY), ("system", MEMORY / 10))
            for at in times
        )


RESTARTED_SECONDS = 420
"""Time since the restart of the exporters: their old series are in the longer windows alone."""


def _two_series(labels: Mapping[str, Mapping[str, str]], end: float, own: str, other: str) -> Iterator[Sample]:
    """Yield the samples with a label, and again with another one and the values of the other node.

    The series of an exporter (label `pod`) follow one another, those of a cluster go on together.
    """
    label, last = ("pod", end - RESTARTED_SECONDS) if own.startswith("pod") else ("cluster", end)
    first = last if label == "pod" else 0.0
    kept = {node: {**node_labels, label: own} for node, node_labels in labels.items()}
    swapped = dict(zip(labels, reversed(list(labels.values())), strict=True))
    others = {node: {**node_labels, label: other} for node, node_labels in swapped.items()}
    both = [sample for sample in _samples(kept, end) if sample.at > first]
    both += [sample for sample in _samples(others, end) if sample.at <= last]
    yield from sorted(both, key=lambda sample: sample.name)


@contextlib.asynccontextmanager
async def _provider(
    folder: Path, preset: str, labels: Mapping[str, Mapping[str, str]], own: str = "", other: str = "", **keys: Any
) -> AsyncIterator[Provider]:
    """Yield the provider of a Prometheus that has the samples, and the rules of the preset's stack loaded."""
    end = time.time()
    backfill.write(folder, _two_series(labels, end, own, other) if own else _samples(labels, end))
    rules = folder / "rules.json"  # which is YAML
    records_of_stack = {**RULES[preset], **_MEMORY_RULE} if RULES[preset] else {}
    entries = [{"record": record, "expr": expression} for record, expression in records_of_stack.items()]
    rules.write_text(json.dumps({"groups": [{"name": preset, "rules": entries}] if entries else []}))
    prometheus = server.Prometheus(folder)
    try:
        prometheus.start({}, "", [rules])
        if entries:
            backfill.write_rules(folder, rules, prometheus.url, end - (MINUTES - 6) * 60, end)
            prometheus.stop()
            prometheus.start({}, "", [rules])
        spec = ProviderSpec(type=provider_spec.PROMETHEUS, address=prometheus.url, queries=preset, **keys)
        nodes = {
            name: KnownNode(CPUS * 1000, MEMORY, addresses=(_ADDRESSES[name].partition(":")[0],)) for name in labels
        }
        provider = registry.build(spec, registry.ProviderContext(lambda: nodes, dict, None))
        try:
            yield provider
        finally:
            await provider.close()
    finally:
        prometheus.stop()


async def _assert_utilization(provider: Provider) -> list[str]:
    """Return the problems of the longest window."""
    for duration in ("5m", "15m"):
        fetched = await provider.fetch(records.window_ending_at(duration, time.time()))
        assert fetched.nodes.keys() == BUSY.keys()
        for name, node in fetched.nodes.items():
            found = {(each.type, each.operator): each.value for each in node.metrics}
            assert found[MetricType.CPU, Statistic.AVG] == pytest.approx(100.0 * BUSY[name], abs=1.0)
            assert found[MetricType.CPU, Statistic.STD] == pytest.approx(0.0, abs=1.0)
            mean = 50.0 * sum(USED[name])
            assert found[MetricType.MEMORY, Statistic.AVG] == pytest.approx(mean, abs=4.0)
            assert found[MetricType.MEMORY, Statistic.STD] == pytest.approx(10.0, abs=1.0)
    return list(fetched.problems)


@pytest.mark.parametrize("preset", PRESETS)
async def test_the_queries_of_a_preset_give_the_utilization_of_every_node(preset: str, tmp_path: Path) -> None:
    labels = {node: RELABELLED[preset](node) for node in BUSY}
    async with _provider(tmp_path, preset, labels) as provider:
        assert not await _assert_utilization(provider)
        problems = await provider.check()
        series = [query.series for query in PRESETS[preset] if query.type is not MetricType.ENERGY]
        assert not [problem for problem in problems if any(one in problem for one in series)]
        if preset == "kube-prometheus":
            fetched = await provider.fetch(records.window_ending_at("5m", time.time()))
            for node in fetched.nodes.values():
                assert {each.name for each in node.metrics} == set(series)
        else:
            assert not problems


async def test_node_exporter_delivers_network_traffic_and_disk_time(tmp_path: Path) -> None:
    async with _provider(tmp_path, "node-exporter", {node: RELABELLED["node-exporter"](node) for node in BUSY}) as own:
        fetched = await own.fetch(records.window_ending_at("5m", time.time()))
    for node in fetched.nodes.values():
        means = [(each.type, each.value) for each in node.metrics if each.operator is Statistic.AVG]
        traffic = [value for kind, value in means if kind is MetricType.BANDWIDTH]
        assert traffic == pytest.approx([RATE, RATE], rel=0.01)  # sent and received, without the loopback device
        assert [value for kind, value in means if kind is MetricType.STORAGE] == pytest.approx([100 * RATE], rel=0.01)


async def test_node_exporter_needs_no_node_name_in_instance(tmp_path: Path) -> None:
    labels = {node: {"instance": _ADDRESSES[node], "job": "node", "kubernetes_node": node} for node in BUSY}
    async with _provider(tmp_path, "node-exporter", labels, node_label="kubernetes_node") as provider:
        assert not await _assert_utilization(provider)
        assert not await provider.check()


@pytest.mark.parametrize("preset", ["kube-prometheus", "node-exporter"])
async def test_a_scrape_configuration_that_knows_addresses_alone_is_enough(preset: str, tmp_path: Path) -> None:
    labels = {node: {"instance": _ADDRESSES[node], "job": "node"} for node in BUSY}
    async with _provider(tmp_path, preset, labels) as provider:
        assert not await _assert_utilization(provider)
        assert not [problem for problem in await provider.check() if "not a node" in problem]


@pytest.mark.parametrize("preset", ["node-exporter", "koordlet"])
@pytest.mark.parametrize(("old", "new"), [("pod-a", "pod-b"), ("pod-b", "pod-a")])
async def test_after_a_restart_of_the_exporters_the_series_of_the_new_pods_count(
    preset: str, old: str, new: str, tmp_path: Path
) -> None:
    labels = {node: RELABELLED[preset](node) for node in BUSY}
    async with _provider(tmp_path, preset, labels, own=new, other=old) as provider:
        (problem,) = await _assert_utilization(provider)
    assert "several series for 'node-1', 'node-2'" in problem


async def test_matchers_leave_out_the_nodes_of_another_cluster(tmp_path: Path) -> None:
    labels = {node: RELABELLED["node-exporter"](node) for node in BUSY}
    matchers = ('cluster="one"',)
    async with _provider(tmp_path, "node-exporter", labels, own="one", other="two", matchers=matchers) as provider:
        assert not await _assert_utilization(provider)
