"""Command `koordctl config diff`."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from click import Argument, Choice, Option

from api_types import names
from api_types.colocation import presets
from api_types.kubernetes import pods
from fleet import what_if
from fleet.reading import Reader
from koordctl.cli import command, flags, manifests
from koordctl.cli.answer import WRONG_USAGE, Answer
from koordctl.configuration import diff, render_command
from manager.slo_config import evaluation, explanation
from manager.slo_config.strategy import Configuration, Strategies, node_strategy

_NODES_SHOWN: Final = 10


PARAMETERS: Final = (
    Argument(["file"], required=False, type=flags.FILE, help="document or ConfigMap manifest; - is standard input"),
    Option(
        ["--preset"],
        type=Choice(tuple(presets.PRESETS)),
        help="the document of koordctl config render --preset, instead of a file",
    ),
    Option(["--nodes"], type=int, default=_NODES_SHOWN, help="most nodes that only gain; 0: all"),
    Option(["-l", "--selector"], metavar="LABELS", help="label selector of nodes"),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        subject, target = _wanted(options)
    except command.WrongUsage as error:
        return command.fail(str(error), WRONG_USAGE)
    return command.run(options, lambda reader, options: _compare(reader, options, subject, target))


def _wanted(options: Namespace) -> tuple[str, Configuration]:
    """Return the configuration to compare with, and its name. Raises WrongUsage."""
    if (options.file is None) == (options.preset is None):
        raise command.WrongUsage("want a FILE or --preset, and not both")
    if options.preset is not None:
        data = {names.COLOCATION_CONFIG_KEY: render_command.preset_document(options.preset)}
        subject, outcome = f"preset {options.preset}", evaluation.evaluate(None, data, exists=True)
    else:
        try:
            subject, outcome = options.file, manifests.evaluate(options.file)
        except manifests.Unusable as error:
            raise command.WrongUsage(str(error)) from error
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


async def _present(reader: Reader, namespace: str) -> Configuration:
    outcome = await reader.configuration(namespace, await reader.config_map(namespace))
    if outcome is None:
        raise command.nothing_read(reader)
    if outcome.configuration is not None:
        return outcome.configuration
    defaults = evaluation.evaluate(None, None, exists=False).configuration
    assert defaults is not None
    return defaults


async def _compare(reader: Reader, options: Namespace, subject: str, target: Configuration) -> Answer:
    present = await _present(reader, options.suite_namespace)
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
    comparison = diff.Comparison(
        subject,
        sorted(changes, key=lambda change: change.name),
        diff.key_changes(*values),
        gated,
        evicting,
        *_risk_and_command(options),
    )
    return diff.answer(comparison, max(options.nodes, 0), command.missing_rights(reader))
