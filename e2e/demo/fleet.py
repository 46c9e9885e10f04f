"""The first chapter of the demo: the commands on a fleet that saves, before the small cluster of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from e2e.demo import terminal
from e2e.demo.console import Console, DemoStopped
from e2e.demo.steps import Line, Step
from e2e.demo.terminal import Terminal
from tools.localcluster.content_cache import REPOSITORY

STEP: Final = Step(
    "A fleet that saves",
    "24 simulated nodes: kube-apiserver, manager and kube-scheduler are real, and the agent's code is fed with two "
    "days of CPU traces of real virtual machines; the memory is made up. The first command needs nothing installed. "
    "MID is what the Prod pods of a node requested and are predicted not to need. The sum below is that of one node; a "
    "browser has the same.",
    120,
    (
        Line("koordctl estimate", shows=r"Mid on offer now +\d"),
        Line("koordctl top nodes", shows=r"worker-24 .*Calculated"),
        Line("koordctl explain node worker-03", shows=r"CPU cores +=? *reclaimable +(?!0\.00\b)\d"),
        Line("koordctl console", until=r"http://127\.0\.0\.1:\d+/\?token="),
    ),
)


def show(folder: Path) -> None:
    """Start the fleet, perform the step on it, and end it. Raises DemoStopped."""
    words = [sys.executable, "-m", "e2e.console.stage", "--days=2"]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not (kubeconfig := process.stdout.readline().strip()):
                raise DemoStopped("the simulated fleet did not start; what it printed is above")
            Console(Terminal(folder, terminal.environment({"KUBECONFIG": kubeconfig}))).perform(STEP)
        finally:
            process.terminate()
