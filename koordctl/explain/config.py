"""`koordctl explain config`: the strategy of a node, or of the cluster, and the layer of each value. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from koordctl.cli.answer import FINE, NOTHING, Answer, Column, Table
from manager.slo_config import explanation
from manager.slo_config.explanation import Explanation


def answer(found: Explanation, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain config`; it is no where no configuration is in force."""
    columns = (Column("KEY"), Column("VALUE"), Column("FROM"))
    compared = explanation.comparison(found)
    return Answer(
        "ConfigExplanation",
        explanation.as_json(found),
        [Table(columns, list(explanation.value_rows(found.values)))] if found.strategy else [],
        [f"node/{found.node}"] if found.node else [],
        list(explanation.head(found)),
        ["", compared] if compared else [],
        FINE if found.strategy else NOTHING,
        notes,
    )
