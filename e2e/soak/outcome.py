"""Show how a soak ended."""

from __future__ import annotations

from collections.abc import Sequence


def show(table: str, problems: Sequence[str]) -> int:
    """Print the table and each problem; return the exit code, 1 with any problem."""
    print(table)
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return int(bool(problems))
