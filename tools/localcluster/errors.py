"""The one error of this package: a sentence for the person at the terminal."""

from __future__ import annotations


class ClusterProblem(Exception):
    """Something a person must know or do: one line that names what was found, what was wanted, and the way out."""
