"""The first chapter of the demo: the commands on a fleet that saves, before the small cluster of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.console import stage
from e2e.demo import terminal
from e2e.demo.console import Console
from e2e.demo.steps import Line, Step
from e2e.demo.terminal import Terminal

DAYS: Final = 2.0
"""History of the agents: enough for scores of each predictor, and replayed in half a minute."""
STEP: Final = Step(
    "A fleet that saves",
    f"{stage.WHAT[0].upper()}{stage.WHAT[1:]}; the memory is made up. MID is what the Prod pods of a node requested "
    "and are predicted not to need. The sum below is that of one node; the browser has the same.",
    120,
    (
        Line("koordctl top nodes", shows=r"worker-24 .*Calculated"),
        Line("koordctl explain node worker-03", shows=r"CPU cores +=? *reclaimable +(?!0\.00\b)\d"),
        Line("koordctl console", until=r"http://127\.0\.0\.1:\d+/\?token="),
    ),
)


def show(folder: Path) -> None:
    """Start the fleet, perform the step on it, and end it. Raises DemoStopped."""
    with stage.running(days=DAYS) as made:
        variables = terminal.environment({"KUBECONFIG": str(made.lone.plane.kubeconfig)})
        Console(Terminal(folder, variables)).perform(STEP)
