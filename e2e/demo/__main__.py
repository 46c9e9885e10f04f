"""Start a cluster, tell the story, say what to try next. The cluster stays up; run it again as often as you like."""

from __future__ import annotations

import argparse
import sys
import time

from e2e.demo.narration import Gone, Narrator
from e2e.demo.walkthrough import Walkthrough
from tools.images import loading
from tools.localcluster import __main__ as cluster_command
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem

NEXT = """
What to try next (the cluster stays up):
  eval "$(.venv/bin/python -m tools.localcluster env)"          # KUBECONFIG, and kubectl and helm on the PATH
  kubectl get nodemetrics --watch                        # measured and predicted, as it changes
  kubectl -n koordinator-system edit configmap slo-controller-config
                                                         # try a typo: an Event names it, the last good one stays
  kubectl -n demo scale deployment shop --replicas=2     # requests rise, the prediction follows, Mid moves
  make cluster-down                                      # leaves nothing behind
"""


def main() -> int:
    """Tell the story; 1 when it broke off, with one line that says where."""
    argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__).parse_args()
    started = time.monotonic()
    try:
        if code := cluster_command.main(["up"]):
            return code
        images = loading.load()
        story = Walkthrough(Narrator(running.cluster()), images)
        for chapter in story.chapters():
            chapter()
    except (ClusterProblem, Gone, AssertionError) as problem:
        print(f"\nthe demo broke off: {problem}", file=sys.stderr)
        print('look around: eval "$(.venv/bin/python -m tools.localcluster env)"', file=sys.stderr)
        return 1
    print(f"\n\033[1mDone\033[0m in {time.monotonic() - started:.0f} s.{NEXT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
