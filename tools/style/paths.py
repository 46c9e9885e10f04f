"""Check how many files and functions a NodeMetric report passes before it becomes a PATCH of its node.

python -m tools.style.paths [--list]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the program beside the tests, which have a cluster in memory; return its exit code."""
    command = [sys.executable, "-m", "tests.path_of_a_report", *sys.argv[1:]]
    return subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
