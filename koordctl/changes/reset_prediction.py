"""Command `koordctl reset-prediction`: let the agent of a node forget its history."""

from __future__ import annotations

from argparse import Namespace

from api_types import names
from api_types.kubernetes import times
from apiserver_client import objects, resources
from fleet import wire
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, NOTHING, Answer, Column, Table
from koordctl.cli.document import AnswerDocument


class ResetPrediction(AnswerDocument):
    """Document of `koordctl reset-prediction`."""

    node: str
    result: str
    effects: list[str]
    """What follows, a sentence each."""


PARAMETERS = (flags.node(), *flags.READING, *command.CHANGING)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    return command.run(options, _reset, command.check_terminal)


async def _reset(reader: Reader, options: Namespace) -> Answer:
    name = options.node
    metric = await objects.get(reader.api, resources.NODE_METRICS, name, decode=wire.WireNodeMetric)
    prediction = metric.status.prediction if metric.status else None
    history = f"{prediction.warm_pods} pods with a history by {prediction.predictor}" if prediction else "no prediction"
    plan = [
        f"the agent of {name} forgets its history ({history}) and its live evaluation",
        "for the cold start period Prod pods then count with their full request, so the node offers less Mid resources",
    ]
    if options.dry_run:
        return _answer(name, "would be reset", plan, FINE)
    if not command.is_agreed(options, plan):
        return _answer(name, "not changed", [], NOTHING)
    patch = {"metadata": {"annotations": {names.ANNOTATION_RESET_PREDICTION: times.format_rfc3339(reader.now)}}}
    await objects.merge_patch(reader.api, resources.NODE_METRICS, name, patch)
    return _answer(name, "reset", ["the agent forgets its history within seconds"], FINE)


def _answer(name: str, result: str, lines: list[str], exit_code: int) -> Answer:
    return Answer(
        ResetPrediction(name, result, lines),
        [Table([Column("NODE"), Column("PREDICTION")], [(name, result)])],
        [f"nodemetric/{name}"],
        tail=lines,
        exit_code=exit_code,
    )
