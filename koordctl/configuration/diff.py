"""`koordctl config diff`: what another document would give and take, node by node, before it is applied."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from click import Argument, Choice, Option

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from api_types.kubernetes import pods
from fleet import what_if
from fleet.node_state import Amounts
from fleet.pod_state import total
from fleet.reading import Reader
from fleet.what_if import NodeChange
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import (
    FINE,
    NOTHING,
    UNKNOWN,
    WARNING_SIGN,
    Answer,
    Cell,
    Column,
    Number,
    Table,
    cores,
    gib,
    number,
    table,
)
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts, part
from koordctl.configuration import render_command
from manager.slo_config import evaluation, explanation, strategy
from manager.slo_config.explanation import Value
from manager.slo_config.strategy import Configuration, Strategies, node_strategy

_ACCURACY: Final = "docs/benchmarks/prediction-accuracy.md"


class KeyChange(Part):
    """A key whose value differs on a node without labels and annotations."""

    key: str
    before: Any
    """Null where no layer sets it, as `after`."""
    after: Any
    layer: str
    """Layer that sets it in the document."""


class NodeDiff(Part):
    """Mid resources of one node under both configurations."""

    name: str
    before: ResourceAmounts
    """By the present configuration and the newest report."""
    after: ResourceAmounts
    published: ResourceAmounts
    """On the node now."""
    mid_requests: ResourceAmounts
    reason: str
    """Reason code of `after`."""
    less_than_requested: bool
    """Whether `after` is less than the Mid pods of the node request."""
    predicts_otherwise: bool
    """Whether the document changes the prediction, so that its peak is not known yet."""


class ConfigDiff(AnswerDocument):
    """Document of `koordctl config diff`."""

    subject: str
    """The other document: a file, or a preset."""
    before: ResourceAmounts
    """Sum of the Mid resources over the nodes, as `after`."""
    after: ResourceAmounts
    nodes: list[NodeDiff]
    changed_nodes: int
    keys: list[KeyChange]
    remarks: list[str]
    """What the numbers do not contain, and the risk, as sentences."""


@dataclass(frozen=True)
class Comparison:
    """Two configurations on all nodes."""

    subject: str
    """The document, in words."""
    nodes: Sequence[NodeChange]
    keys: Sequence[KeyChange]
    gated_nodes: int = 0
    """Nodes whose agents get a larger peak than the document wants, unless the manager may evict Mid pods."""
    evicting_nodes: int = 0
    """Those of them where the document wants evictions."""
    risk: str = ""
    """What the document risks, in words; empty where that was not measured."""
    apply: str = ""
    """Command that applies the document."""

    @property
    def changed(self) -> list[NodeChange]:
        """Return the nodes whose amounts change, the largest change of CPU first."""
        nodes = [node for node in self.nodes if any(node.change)]
        return sorted(nodes, key=lambda node: (-abs(node.change.cpu or 0), -abs(node.change.memory or 0), node.name))


def key_changes(before: Sequence[Value], after: Sequence[Value]) -> list[KeyChange]:
    """Return the keys with an effect whose values differ."""
    old = {value.key: value.value for value in before}
    return [
        KeyChange(value.key, old.get(value.key), value.value, value.layer)
        for value in after
        if value.effective and old.get(value.key) != value.value
    ]


def answer(comparison: Comparison, most_nodes: int, notes: Sequence[str] = ()) -> Answer:
    """Return the answer: no where something would change. At most `most_nodes` nodes that only gain are shown."""
    changed = comparison.changed
    is_empty = not changed and not comparison.keys and not any(node.predicts_otherwise for node in comparison.nodes)
    shown = [node for place, node in enumerate(changed) if not most_nodes or place < most_nodes or node.takes]
    tail = list(_honesty(comparison))
    if len(shown) < len(changed):
        tail.insert(0, f"and {len(changed) - len(shown)} more nodes that only gain (--nodes 0 shows all)")
    tables = [_node_table(shown)]
    if tail and comparison.apply:
        tail.append(f"to apply it: {comparison.apply}")
    if comparison.keys:
        columns = [Column(title) for title in ("KEY", "NOW", "THEN", "FROM")]
        rows = [(key.key, _text(key.before), _text(key.after), key.layer) for key in comparison.keys]
        tables.append(Table(columns, rows))
    before, after = _sums(comparison)
    data = ConfigDiff(
        subject=comparison.subject,
        before=amounts(before),
        after=amounts(after),
        nodes=[
            part(
                NodeDiff,
                node,
                before=amounts(node.before.mid),
                after=amounts(node.after.mid),
                reason=node.after.reason,
                less_than_requested=node.is_short,
            )
            for node in comparison.nodes
        ],
        changed_nodes=len(changed),
        keys=list(comparison.keys),
        remarks=list(_honesty(comparison)),
    )
    return Answer(
        data,
        [table for table in tables if table.rows] if not is_empty else [],
        [f"node/{node.name}" for node in changed],
        [f"{comparison.subject}: nothing would change"] if is_empty else [f"{comparison.subject}:", *_head(comparison)],
        ["", *tail] if tail and not is_empty else [],
        FINE if is_empty else NOTHING,
        notes,
    )


def _sums(comparison: Comparison) -> tuple[Amounts, Amounts]:
    nodes = [node for node in comparison.nodes if node.is_known]
    return total(node.before.mid for node in nodes), total(node.after.mid for node in nodes)


def _head(comparison: Comparison) -> Iterator[str]:
    before, after = _sums(comparison)
    for name, old, new, shown, unit in (
        ("CPU", before.cpu, after.cpu, cores, "cores"),
        ("memory", before.memory, after.memory, gib, "GiB"),
    ):
        percent = f" ({100 * (new - old) / old:+.0f} %)" if old and new is not None else ""
        yield f"  Mid {name} {shown(old)} -> {shown(new)} {unit}{percent}"
    changed = comparison.changed
    losers, short = [node for node in changed if node.takes], [node for node in changed if node.is_short]
    yield f"  {len(changed)} of {len(comparison.nodes)} nodes change, {len(losers)} of them have less"
    if short:
        yield (
            f"  {WARNING_SIGN} less than the Mid pods request on {_named(short)}: "
            "no new Mid pod fits there, and running ones may be evicted"
        )
    if unknown := [node for node in comparison.nodes if not node.is_known]:
        yield f"  {WARNING_SIGN} left out, because requests or the report are not known: {_named(unknown)}"


def _named(nodes: Sequence[NodeChange]) -> str:
    more = f" and {len(nodes) - 3} more nodes" if len(nodes) > 3 else ""
    return f"{', '.join(node.name for node in nodes[:3])}{more}"


def _honesty(comparison: Comparison) -> Iterator[str]:
    """Yield what the numbers do not contain, and the risk."""
    yield "the numbers are of the present reports; a limited rise (midMaxIncreasePercent) takes several reports"
    if others := [node for node in comparison.nodes if node.predicts_otherwise]:
        yield (
            f"nodePredictPolicy changes on {len(others)} nodes: their numbers have the peak of the present prediction; "
            f"the accuracy of the predictors is in {_ACCURACY}"
        )
    if comparison.gated_nodes:
        eviction = (
            f"{comparison.evicting_nodes} of them evict, if the manager has the right to"
            if comparison.evicting_nodes
            else "midEviction.mode is not evict"
        )
        yield (
            f"the take-back gate holds on {comparison.gated_nodes} nodes unless Mid pods are evicted ({eviction}): "
            "then the larger peak of calibrated and n-sigma-v2 counts"
        )
    counts = ("predicted_pods", "cold_pods")
    predicted, cold = (sum(getattr(node, name) for node in comparison.nodes) for name in counts)
    if cold:
        yield f"{cold} of {predicted + cold} measured pods are cold: each counts with its full request until it is warm"
    if comparison.risk:
        yield f"risk: {comparison.risk}"


def _node_table(nodes: Sequence[NodeChange]) -> Table:
    cells: list[Cell[NodeChange]] = [
        (Column("NODE"), lambda node: node.name),
        number("MID CPU", lambda node: cores(node.before.mid.cpu)),
        number("CPU THEN", lambda node: cores(node.after.mid.cpu)),
        number("CPU CHANGE", lambda node: _signed(node.change.cpu, 1_000)),
        number("MID MEMORY", lambda node: gib(node.before.mid.memory)),
        number("MEMORY THEN", lambda node: gib(node.after.mid.memory)),
        number("MEMORY CHANGE", lambda node: _signed(node.change.memory, 2**30)),
        number("MID REQ", lambda node: cores(node.mid_requests.cpu)),
        (Column("PUBLISHED", right=True, wide=True), lambda node: cores(node.published.cpu)),
        (Column("REASON"), lambda node: node.after.reason),
        (Column("NOTE"), _word),
    ]
    return table(nodes, cells, ["warning" if node.takes else "" for node in nodes])


def _word(node: NodeChange) -> str:
    if node.is_short:
        return f"{WARNING_SIGN} less than requested"
    return f"{WARNING_SIGN} less" if node.takes else ""


def _signed(amount: int | None, unit: int) -> str:
    return UNKNOWN if amount is None else Number(f"{amount / unit:+.1f}", amount / unit)


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


PARAMETERS: Final = (
    Argument(["file"], required=False, type=flags.FILE, help="document or ConfigMap manifest; - is standard input"),
    Option(
        ["--preset"],
        type=Choice(tuple(presets.PRESETS)),
        help="the document of koordctl config render --preset, instead of a file",
    ),
    Option(["--nodes"], type=int, default=10, help="most nodes that only gain; 0: all"),
    Option(["-l", "--selector"], metavar="LABELS", help="label selector of nodes"),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    subject, target = _target(options)
    return command.run(options, lambda reader, options: compare(reader, options, subject, target))


def _target(options: Namespace) -> tuple[str, Configuration]:
    """Return the configuration to compare with, and its name. Raises WrongUsage."""
    if (options.file is None) == (options.preset is None):
        raise command.WrongUsage("want a FILE or --preset, and not both")
    if options.preset is not None:
        data = {names.COLOCATION_CONFIG_KEY: render_command.preset_document(options.preset)}
        subject, outcome = f"preset {options.preset}", evaluation.evaluate(None, data, exists=True)
    else:
        subject, outcome = options.file, manifests.evaluate(options.file)
    if outcome.configuration is None:
        faults = "\n".join(problem.with_effect() for problem in outcome.problems)
        raise command.WrongUsage(f"{subject}: the document is refused\n{faults}")
    return subject, outcome.configuration


def _risk_and_command(options: Namespace) -> tuple[str, str]:
    """Return the risk of the preset, and the command that applies it; both are empty without one."""
    if options.preset is None:
        return "", ""
    where = "" if options.suite_namespace == names.NAMESPACE else f" --namespace {options.suite_namespace}"
    apply = f"koordctl config render --preset {options.preset}{where} | kubectl apply -f -"
    return presets.EXPECTATIONS[options.preset].risk, apply


async def compare(reader: Reader, options: Namespace, subject: str, target: Configuration) -> Answer:
    """Compare the present configuration with another one on all nodes. Raises errors.ApiServerError, NotRead."""
    outcome = await reader.configuration(options.suite_namespace, await reader.config_map(options.suite_namespace))
    if outcome is None:
        raise command.nothing_read(reader)
    present = outcome.configuration or strategy.configuration(slo.ColocationConfig())
    sides = Strategies(present), Strategies(target)
    changes, gated, evicting = [], 0, 0
    async for name, node, metric in reader.pairs(options.selector):
        if node is None:
            continue
        labels, annotations = pods.label_map(node.metadata), pods.annotation_map(node.metadata)
        before, after = (side.merged(labels, annotations) for side in sides)
        changes.append(what_if.compare(name, node, metric, (before, after), reader.now))
        gated += what_if.is_gated(after)
        evicting += what_if.is_gated(after) and what_if.evicts(after)
    if not changes and any(unread.what == "nodes" for unread in reader.unread):
        raise command.nothing_read(reader)
    values = [tuple(explanation.explain_values(node_strategy(side, {}, {}).layers)) for side in (present, target)]
    comparison = Comparison(
        subject,
        sorted(changes, key=lambda change: change.name),
        key_changes(*values),
        gated,
        evicting,
        *_risk_and_command(options),
    )
    return answer(comparison, max(options.nodes, 0), command.missing_rights(reader))
