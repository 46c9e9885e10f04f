"""Report values that Koordinator's admission webhook rejects and its controllers accept: accepted here with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from api_types.colocation import selector as node_selector
from api_types.colocation.problem import Effect, KeyPath, Problem, quoted
from api_types.wire_model import camel_case, leaves

_GATED: Final = "midEviction.mode: evict beside it: without it the larger of calibrated and n-sigma-v2 is in force"


def strategy_advice(
    strategy: slo.ColocationStrategy, path: KeyPath = (), *, mode_below: str = "evict"
) -> Iterator[Problem]:
    """Yield advice on values that are accepted but exceed the useful range.

    `mode_below` is `midEviction.mode` where this layer sets none; by default that of a layer that is not known.
    """
    for field, info in type(strategy).model_fields.items():
        value = getattr(strategy, field)
        for mark in info.metadata:
            if isinstance(mark, slo.AtMostAdvised) and value is not None and value > mark.value:
                yield _advice((*path, camel_case(field)), value, f"at most {mark.value:g}")
    if strategy.metric_memory_collect_policy == slo.HOT_PAGE_CACHE:
        advised = "usageWithPageCache or usageWithoutPageCache; hot pages are not measured, the latter is in force"
        yield _advice((*path, "metricMemoryCollectPolicy"), strategy.metric_memory_collect_policy, advised)
    policy = strategy.node_predict_policy
    preset_policy = presets.PRESETS[strategy.preset].node_predict_policy if strategy.preset else None
    evicts = _mode(strategy, mode_below) == "evict"
    if policy is not None and policy.predictor is not None:
        if presets.is_gated(policy) and not evicts:
            yield _advice((*path, "nodePredictPolicy", "predictor"), policy.predictor, _GATED)
    elif preset_policy is not None and presets.is_gated(preset_policy) and not evicts:
        yield _advice((*path, "preset"), strategy.preset, _GATED)
    threshold = strategy.mid_eviction.memory_threshold_percent if strategy.mid_eviction else None
    if threshold is not None and strategy.metric_memory_collect_policy == slo.WITH_PAGE_CACHE:
        advised = f"another metricMemoryCollectPolicy: with {slo.WITH_PAGE_CACHE} the memory of a node evicts no pod"
        yield _advice((*path, "midEviction", "memoryThresholdPercent"), threshold, advised)
    if strategy.mid_reclaim_mode not in (None, "", slo.STATIC):
        yield _advice((*path, "midReclaimMode"), strategy.mid_reclaim_mode, f"{slo.STATIC}, or nothing")


def _mode(strategy: slo.ColocationStrategy, below: str) -> str:
    """Return `midEviction.mode` of a layer and its preset."""
    preset_eviction = presets.PRESETS[strategy.preset].mid_eviction if strategy.preset else None
    modes = (eviction.mode for eviction in (strategy.mid_eviction, preset_eviction) if eviction is not None)
    return next((mode for mode in modes if mode is not None), below)


def parameter_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield `strategy_advice` for the cluster and for every entry, and advice on entries that cannot enable a node."""
    yield from strategy_advice(config, mode_below="advise")
    for position, entry in enumerate(config.node_configs or ()):
        path = ("nodeConfigs", position)
        yield from strategy_advice(entry, path, mode_below=_mode(config, "advise"))
        if entry.enable and not config.enable:
            yield _advice((*path, "enable"), True, "enable: true for the cluster too, whose value otherwise wins")


def preset_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield advice on entries with a preset of which the cluster strategy sets keys: these win over every preset."""
    cluster_values = dict(leaves(config.to_wire()))
    for position, entry in enumerate(config.node_configs or ()):
        if entry.preset is None:
            continue
        entry_values = dict(leaves(entry.to_wire()))
        void = [
            key
            for key, value in leaves(presets.PRESETS[entry.preset].to_wire())
            if key not in entry_values and cluster_values.get(key, value) != value
        ]
        if void:
            advised = f"{', '.join(void)} in this entry too: the cluster strategy sets them, and wins over a preset"
            yield _advice(("nodeConfigs", position, "preset"), entry.preset, advised)


def selector_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield advice on entries that select no node or every node."""
    for position, entry in enumerate(config.node_configs or ()):
        selector = entry.node_selector
        if selector is None or node_selector.is_empty(selector):
            meaning = "none is selected" if selector is None else "every node is selected"
            advised = f"a selector that is not empty ({meaning})"
            yield _advice(("nodeConfigs", position, "nodeSelector"), selector and selector.to_wire(), advised)


def overlap_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield advice on entries that select nodes of an earlier entry."""
    earlier: dict[int, list[int]] = {}
    for first, second in overlapping_entries(config):
        earlier.setdefault(second, []).append(first)
    for second, winners in sorted(earlier.items()):
        yield overlap(config, winners, second)


def overlapping_entries(config: slo.ColocationConfig) -> list[tuple[int, int]]:
    """Return the positions of each two entries whose selectors in the document match the same nodes."""
    return node_selector.overlapping([entry.node_selector for entry in config.node_configs or ()])


def overlap(config: slo.ColocationConfig, winners: Sequence[int], position: int, node: str = "") -> Problem:
    """Report that nodes of an entry belong to earlier entries; `node` is an example."""
    selector = (config.node_configs or [])[position].node_selector
    others = ", ".join(f"nodeConfigs[{winner}]" for winner in winners)
    example = f", as on node {node}" if node else ""
    advised = f"nodes outside {others}: the first entry that matches wins{example}"
    return _advice(("nodeConfigs", position, "nodeSelector"), selector and selector.to_wire(), advised)


def idle_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield advice on entries that set nothing: their nodes get the cluster strategy, whatever later entries set."""
    for position, entry in enumerate(config.node_configs or ()):
        if not slo.merge(entry).model_fields_set:
            yield _advice(("nodeConfigs", position), {"name": entry.name}, "at least one key of a strategy")


def name_advice(config: slo.ColocationConfig) -> Iterator[Problem]:
    """Yield advice on entries without a name, or with the name of an earlier one."""
    taken: set[str] = set()
    for position, entry in enumerate(config.node_configs or ()):
        if not entry.name or entry.name in taken:
            yield _advice(("nodeConfigs", position, "name"), entry.name, "a name of its own")
        taken.add(entry.name or "")


def _advice(path: KeyPath, value: object, advised: str) -> Problem:
    return Problem(path, quoted(value), advised, Effect.ADVICE)
