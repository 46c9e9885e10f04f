"""The one error of this package, and its way to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable


class ClusterProblem(Exception):
    """A problem that the user has to know or to solve: one line with what was found, what is wanted, and the fix."""


def exit_code(act: Callable[[], int], *, interrupted: str) -> int:
    """Return the exit code of `act`; print a problem as one line to stderr, and `interrupted` after Ctrl-C."""
    try:
        return act()
    except ClusterProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except PermissionError as refused:
        print(f"error: {refused.filename}: permission denied; it belongs to root, run this with sudo", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted; {interrupted}", file=sys.stderr)
        return 130
