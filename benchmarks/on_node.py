"""Run a benchmark on a node of the cluster that is up, of the provider `nodes`: another kernel, with cgroup v2.

    python -m benchmarks.on_node NODE NAME [ARGUMENT ...]     # n1 bench_agent --tree live

System calls are some 50 times slower there, so its times cannot be compared with those of this machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools.localcluster import errors, running
from tools.localcluster.nodes import host_files


def main(argv: Sequence[str]) -> int:
    node, name, *arguments = argv
    program = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    print(running.provider().shell(node, host_files.script(program)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(errors.exit_code(lambda: main(sys.argv[1:]), interrupted="the program on the node runs to its end"))
