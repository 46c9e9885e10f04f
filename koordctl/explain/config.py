"""Command `koordctl explain config`: the strategy of a node, or of the cluster, and the layer of each value."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from click import Option

from api_types import names
from api_types.kubernetes import pods
from api_types.wire_model import leaves
from apiserver_client import objects, resources
from fleet.findings import AGENT
from fleet.reading import Reader
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import FINE, NOTHING, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part
from manager.cache import store
from manager.node_metric import spec
from manager.slo_config import evaluation, explanation
from manager.slo_config.explanation import StrategyExplanation
from manager.slo_config.strategy import NodeStrategy


class ConfigDocument(Part):
    """The document of the ConfigMap, or of a file."""

    source: str
    state: str
    reason: str
    problems: list[str]


class ConfigLayer(Part):
    """One layer of the strategy."""

    name: str
    ignored: bool
    """Whether it is ignored, because of its problems."""
    problems: list[str]
    strategy: dict[str, Any]
    """The keys that it sets, as on the page of the configuration."""


class ConfigValue(Part):
    """Value of one key."""

    value: Any
    """Null where no layer sets it."""
    layer: str | None = msgspec.field(name="from")
    """Layer that sets it; null where none does."""
    effective: bool
    """Whether this project uses the key."""


class ConfigExplanation(AnswerDocument):
    """Document of `koordctl explain config`."""

    node: str
    """Empty for a node without labels and annotations."""
    enabled: bool | None
    """Whether the node takes part in colocation; null where no configuration is valid."""
    summary: str
    document: ConfigDocument
    layers: list[ConfigLayer]
    """The lowest first."""
    node_metric_spec_differs: list[str] | None
    """Keys in which the spec of the NodeMetric differs from this strategy; null where it was not read."""
    matching_node_configs: list[int]
    """Positions in `nodeConfigs` of those that match the node, from 0; the first one counts."""
    values: dict[str, ConfigValue]
    """By the path of the key."""


def answer(explained: StrategyExplanation, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain config`; it is no where no configuration is in force."""
    columns = (Column("KEY"), Column("VALUE"), Column("FROM"))
    compared = explanation.comparison(explained)
    return Answer(
        _document(explained),
        [Table(columns, list(explanation.value_rows(explained.values)))] if explained.strategy else [],
        [f"node/{explained.node}"] if explained.node else [],
        list(explanation.head(explained)),
        ["", compared] if compared else [],
        FINE if explained.strategy else NOTHING,
        notes,
    )


def _document(explained: StrategyExplanation) -> ConfigExplanation:
    strategy, outcome = explained.strategy, explained.outcome
    problems = [problem.with_effect() for problem in outcome.problems]
    return ConfigExplanation(
        node=explained.node,
        enabled=strategy.enabled if strategy else None,
        summary=explanation.participation(explained),
        document=ConfigDocument(explained.source, outcome.state.value, evaluation.reason(outcome), problems),
        layers=[
            ConfigLayer(
                layer.name,
                layer.refused,
                [problem.with_effect() for problem in layer.problems],
                layer.strategy.to_wire(),
            )
            for layer in (strategy.layers if strategy else ())
        ],
        node_metric_spec_differs=None if explained.spec_differs is None else list(explained.spec_differs),
        matching_node_configs=list(strategy.matching) if strategy else [],
        values={
            value.key: ConfigValue(value.value, value.layer or None, value.effective) for value in explained.values
        },
    )


PARAMETERS: Final = (
    flags.node(required=False, help="name of the node (default: a node without labels and annotations)"),
    Option(
        ["--config"],
        type=flags.FILE,
        metavar="FILE",
        help="document or ConfigMap manifest to use instead of the cluster's; - is standard input",
    ),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    evaluated = None if options.config is None else manifests.evaluate(options.config)
    return command.run(options, lambda reader, options: _explain(reader, options, evaluated))


async def _explain(reader: Reader, options: Namespace, evaluated: evaluation.ConfigOutcome | None) -> Answer:
    name, file, namespace = options.node, options.config, options.suite_namespace
    node, metric = pods.Node(), None
    config_map = "" if evaluated else await reader.config_map(namespace)
    outcome = evaluated or await reader.configuration(namespace, config_map)
    if outcome is None:
        raise command.nothing_read(reader)
    if name is not None:
        node = await objects.get(reader.api, resources.NODES, name, decode=pods.Node)
        with reader.attempt(f"nodemetrics/{name}"):
            metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=store.StoredNodeMetric)
    explained = explanation.explain(
        node.metadata.name,
        pods.label_map(node.metadata),
        pods.annotation_map(node.metadata),
        outcome,
        source=file or f"ConfigMap {namespace}/{config_map}",
        kept_in=names.LAST_GOOD_CONFIG,
    )
    if metric is not None and explained.strategy is not None:
        differs = _differences(metric, explained.strategy)
        explained = dataclasses.replace(explained, spec_differs=differs, preview=file is not None)
    agent = await reader.workload(namespace, AGENT)
    if agent and agent.argument("--enable-suppression") in ("", "false"):  # koordlet.suppression.enabled of the chart
        off = "midSuppressThresholdPercent"
        values = (value._replace(effective=value.effective and value.key != off) for value in explained.values)
        explained = dataclasses.replace(explained, values=tuple(values))
    return answer(explained, command.missing_rights(reader))


def _differences(metric: store.StoredNodeMetric, strategy: NodeStrategy) -> tuple[str, ...]:
    """Return the keys in which the spec of a NodeMetric differs from a strategy, whatever the right to evict is."""
    specs = (spec.wire_for_node(strategy, may_evict=may_evict) for may_evict in (True, False))
    return min((tuple(dict(leaves(spec.spec_patch(metric.spec, policy)))) for policy in specs), key=len)
