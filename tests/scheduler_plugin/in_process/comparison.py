"""Run scripts with the product and with the model of it, and name every difference.

    python -m tests.scheduler_plugin.in_process.comparison [--seeds 100] [--most-feasible N] [--initial-backoff S]

Print how many scripts agree, and what both did.
"""

from __future__ import annotations

import argparse
import collections
import itertools
from typing import Any, NamedTuple

from tests.scheduler_plugin.in_process import scripted_cluster
from tests.scheduler_plugin.in_process.kube_scheduler import KubeScheduler
from tests.scheduler_plugin.in_process.plugin_inside import PluginInside
from tests.scheduler_plugin.in_process.product_inside import ProductInside
from tests.scheduler_plugin.in_process.scripted_cluster import Script


class Compared(NamedTuple):
    """Both runs."""

    script: Script
    product: KubeScheduler
    model: KubeScheduler

    def differences(self) -> list[str]:
        """Return the first placement and every eviction that differ, in words."""
        result = []
        for one, other in itertools.zip_longest(self.product.placements, self.model.placements):
            if one != other:
                result.append(f"placements: by the product {one}, by the model {other}")
                break
        by_product, by_model = set(self.product.evictions), set(self.model.evictions)
        result += [f"evictions: only by the product {each}" for each in by_product - by_model]
        result += [f"evictions: only by the model {each}" for each in by_model - by_product]
        return result


def compare(script: Script, **options: Any) -> Compared:
    """Run a script under both; `options` are those of the model of kube-scheduler."""
    product = ProductInside(script)
    with product.same_hashes():
        by_product = KubeScheduler(script, product, **options).run()
    return Compared(script, by_product, KubeScheduler(script, PluginInside(script), **options).run())


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
            counted["differs"] += bool(compared.differences())
            for name, run in (("product", compared.product), ("model", compared.model)):
                counted[f"{name} placements"] += len(run.placements)
                counted[f"{name} evictions"] += len(run.evictions)
                counted[f"{name} attempts"] += run.attempts
        numbers = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()) if count)
        print(f"in-tree scores {in_tree_scores}, volumes {volumes}, {chosen.seeds} scripts: {numbers}")


if __name__ == "__main__":
    main()
