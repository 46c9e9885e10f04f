"""`koordctl explain config`: the strategy of a node, or of the cluster, and the layer of each value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from koordctl.cli.answer import FINE, NOTHING, Answer, Column, Table
from koordctl.cli.document import AnswerDocument, Part
from manager.slo_config import explanation
from manager.slo_config.explanation import StrategyExplanation


class ConfigDocument(Part, forbid_unknown_fields=True):
    """The document of the ConfigMap, or of a file."""

    source: str
    state: str
    reason: str
    problems: list[str]


class ConfigLayer(Part, forbid_unknown_fields=True):
    """One layer of the strategy."""

    name: str
    ignored: bool
    """Whether it is ignored, because of its problems."""
    problems: list[str]
    strategy: dict[str, Any]
    """The keys that it sets, as on the page of the configuration."""


class ConfigValue(Part, forbid_unknown_fields=True):
    """Value of one key."""

    value: Any
    """Null where no layer sets it."""
    layer: str | None = msgspec.field(name="from")
    """Layer that sets it; null where none does."""
    effective: bool
    """Whether this project uses the key."""


class ConfigExplanation(AnswerDocument, forbid_unknown_fields=True):
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
        msgspec.convert(explanation.as_json(explained), ConfigExplanation),
        [Table(columns, list(explanation.value_rows(explained.values)))] if explained.strategy else [],
        [f"node/{explained.node}"] if explained.node else [],
        list(explanation.head(explained)),
        ["", compared] if compared else [],
        FINE if explained.strategy else NOTHING,
        notes,
    )
