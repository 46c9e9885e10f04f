"""Measure the memory of the extender with its own watches: after the first lists, and after listing everything again.

python -m benchmarks.bench_extender_memory [--nodes N] [--pods-per-node M] [--relists R]
"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request

from benchmarks import extender_process, replay_apiserver

SETTLING_SECONDS = 5.0  # a list is counted before its missing objects are dropped, and the watch begins after that


def listed(extender: extender_process.Running) -> float:
    """Return the number of completed lists."""
    return extender.metric("watch_lists_total")


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it takes minutes
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--relists", type=int, default=2)
    chosen = parser.parse_args()
    with (
        replay_apiserver.running(nodes=chosen.nodes, pods_per_node=chosen.pods_per_node) as url,
        extender_process.running(url) as extender,
    ):
        before = extender.memory_mebibytes()
        seconds = extender.until_ready(1800)
        time.sleep(SETTLING_SECONDS)
        print(f"{chosen.nodes} nodes with {chosen.pods_per_node} pods each; {before:.0f} MiB before the first list")
        print(f"lists complete after {seconds:.0f} s of wall time, {extender.cpu_seconds():.0f} s of CPU")
        print(f"{extender.memory_mebibytes():.0f} MiB after the first lists")
        for index in range(chosen.relists):
            lists = listed(extender)
            urllib.request.urlopen(f"{url}/replay?forget").close()
            most = 0.0
            while listed(extender) < lists + 3:
                time.sleep(0.5)
                most = max(most, extender.memory_mebibytes())
            time.sleep(SETTLING_SECONDS)
            settled = extender.memory_mebibytes()
            print(f"{settled:.0f} MiB after everything was listed again ({index + 1}), {most:.0f} at most meanwhile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
