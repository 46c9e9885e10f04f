"""Start a cluster, show the first ten minutes, list what to try next. The cluster stays up; it can be run again."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from e2e.demo import fleet, terminal
from e2e.demo.console import Console, DemoStopped
from e2e.demo.terminal import Terminal
from e2e.demo.walkthrough import Walkthrough
from tools.images import loading
from tools.localcluster import __main__ as cluster_command
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem

ACCESS = 'eval "$(.venv/bin/python -m tools.localcluster env)"'
NEXT = f"""
What to try next (the cluster stays up):
  {ACCESS}          # KUBECONFIG, and kubectl and helm on the PATH
  .venv/bin/koordctl top nodes --watch                   # measured and predicted, as it changes
  .venv/bin/koordctl console                             # the same in a browser
  kubectl -n koordinator-system edit configmap slo-controller-config
                                                         # try a typo: koordctl status names it, the last good one stays
  make cluster-down                                      # stops the cluster and leaves nothing behind
"""
CLEAN_UP = f"""
To clean up:
  make cluster-down                                      # stops the local cluster and leaves nothing behind
To inspect the cluster before:
  {ACCESS} && .venv/bin/koordctl status
To keep the cluster and remove only the demo and the suite:
  kubectl delete namespace demo --ignore-not-found && kubectl delete deployment prod-web mid-worker
  helm --namespace koordinator-system uninstall koord-suite
  .venv/bin/python -m tools.localcluster fake-nodes 0
"""
INTERRUPTED = 130


def main() -> int:
    """Run the demo and return its exit code: 1 when a check fails, 130 after Ctrl-C."""
    argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__).parse_args()
    try:
        code = run()
    except KeyboardInterrupt:
        print("\nthe demo was interrupted", file=sys.stderr)
        code = INTERRUPTED
    if code:
        print(CLEAN_UP, file=sys.stderr)
    return code


def run() -> int:
    """Start the cluster, load the images, run every chapter, and return an exit code."""
    started = time.monotonic()
    if code := cluster_command.main(["up"]):
        return code
    try:
        images = loading.load()
        cluster = running.cluster()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            fleet.show(folder)
            console = Console(Terminal(folder, terminal.environment(cluster.environment)))
            for chapter in Walkthrough(console, cluster, folder, images).chapters():
                chapter()
    except (ClusterProblem, DemoStopped) as problem:
        print(f"\nthe demo stopped: {problem}", file=sys.stderr)
        return 1
    print(f"\n\033[1mDone\033[0m in {time.monotonic() - started:.0f} s.\n{NEXT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
