"""Run scripts under both schedulers, and name every difference.

    python -m tests.scheduler_plugin.in_process.comparison [--seeds 100] [--most-feasible N] [--initial-backoff S]

Print how many scripts agree, and what both schedulers did.
"""

from __future__ import annotations

import argparse
import collections
import itertools
from typing import Any, NamedTuple

from tests.scheduler_plugin.in_process import scripted_cluster
from tests.scheduler_plugin.in_process.extender_calls import Extender
from tests.scheduler_plugin.in_process.kube_scheduler import KubeScheduler
from tests.scheduler_plugin.in_process.plugin_inside import PluginInside
from tests.scheduler_plugin.in_process.scripted_cluster import Script


class Compared(NamedTuple):
    """Both runs. The plugin inside takes the same of several best nodes, if it is one of its own best ones."""

    script: Script
    outside: KubeScheduler
    inside: KubeScheduler
    extender: Extender

    def differences(self) -> list[tuple[int, str]]:
        """Return the first placement and every eviction that differ: the step, and words."""
        found = []
        with_claim = {pod.name for pod in self.script.pods if pod.binds_after}
        for one, other in itertools.zip_longest(self.outside.placements, self.inside.placements):
            is_narrower = one and other and one.pod in with_claim and one.best < other.best
            if one != other and not (is_narrower and one._replace(best=other.best) == other):
                step = min(each.step for each in (one, other) if each)
                found.append((step, f"placements: by extender {one}, by plugin {other}"))
                break
        by_extender, by_plugin = set(self.outside.evictions), set(self.inside.evictions)
        found += [(each.step, f"evictions: only by extender {each}") for each in by_extender - by_plugin]
        found += [(each.step, f"evictions: only by plugin {each}") for each in by_plugin - by_extender]
        return sorted(found)

    def limits(self) -> dict[str, int]:
        """Return what an extender does otherwise by its nature that happened in this script, and its first step."""
        guesses = self.extender.wrong_guesses if self.script.in_tree_scores else []
        steps = {
            "wrong guess": guesses,
            "kept nomination": self.outside.kept_nominations,
            "extra retry": self.outside.extra_retries,
        }
        return {name: found[0] for name, found in steps.items() if found}

    def unexplained(self) -> list[str]:
        """Return the differences without such an event at the same time or before."""
        since = min(self.limits().values(), default=10**6)
        found = self.differences()
        return [words for _, words in found] if found and found[0][0] < since else []


def compare(script: Script, **options: Any) -> Compared:
    """Run a script under both; `options` are those of the model."""
    extender = Extender(script)
    with extender.simulated_time():
        outside = KubeScheduler(script, extender, **options).run()
    chosen = {(each.step, each.pod): each.node for each in outside.placements}
    inside = KubeScheduler(script, PluginInside(script), ties=chosen, **options).run()
    return Compared(script, outside, inside, extender)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--most-feasible", type=int, default=10**6)
    parser.add_argument("--initial-backoff", type=float, default=0.0)
    chosen = parser.parse_args()
    options = {
        "most_feasible": chosen.most_feasible,
        "initial_backoff": chosen.initial_backoff,
        "longest_backoff": 10.0 if chosen.initial_backoff else 0.0,
    }
    for in_tree_scores, volumes in itertools.product((False, True), repeat=2):
        counted: collections.Counter[str] = collections.Counter()
        for seed in range(chosen.seeds):
            script = scripted_cluster.drawn(seed, in_tree_scores=in_tree_scores, volumes=volumes)
            compared = compare(script, **options)
            limits = sorted(compared.limits(), key=lambda name: compared.limits()[name])
            counted[f"differs after {limits[0]}" if limits else "differs"] += bool(compared.differences())
            counted["differs without a reason"] += bool(compared.unexplained())
            for name, run in (("extender", compared.outside), ("plugin", compared.inside)):
                counted[f"{name} placements"] += len(run.placements)
                counted[f"{name} evictions"] += len(run.evictions)
                counted[f"{name} attempts"] += run.attempts
        found = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()) if count)
        print(f"in-tree scores {in_tree_scores}, volumes {volumes}, {chosen.seeds} scripts: {found}")


if __name__ == "__main__":
    main()
