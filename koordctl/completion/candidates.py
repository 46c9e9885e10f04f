"""Print the words that a command line may continue with, as kubectl reads them: one a line, then `:DIRECTIVE`.

A name with characters that a shell may interpret is left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from koordctl.cli.answer import FINE
from koordctl.completion import words
from koordctl.completion.words import FILES

_WITH_FILES, _WITHOUT_FILES = 0, 4
"""Directives of kubectl: whether the shell adds names of files."""
_HARMLESS: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:]*", re.ASCII)


def show(given: Sequence[str]) -> int:
    """Print what may follow; the last word is the one to complete. Return the exit code."""
    *before, partial = _split(given) or [""]
    wanted = words.wanted(before, partial)
    found = [*wanted.words]
    if wanted.kind not in ("", FILES):
        from koordctl.completion import cluster_names  # noqa: PLC0415  # slow, and only for a name

        found += filter(_HARMLESS.fullmatch, cluster_names.of(wanted.kind, before, partial))
    sys.stdout.writelines(f"{word}\n" for word in found if word.startswith(partial))
    sys.stdout.write(f":{_WITH_FILES if wanted.kind == FILES else _WITHOUT_FILES}\n")
    return FINE


def program() -> int:
    """Run as `kubectl_complete-koord`, which kubectl calls with the words after `kubectl koord`."""
    return show(sys.argv[1:])


def _split(given: Sequence[str]) -> list[str]:
    """Split `--flag=value`, as bash does before it calls: the value is completed alone."""
    found: list[str] = []
    for word in given:
        if word.startswith("--") and "=" in word:
            found += word.split("=", 1)
        elif word != "=":
            found.append(word)
    return [*found, ""] if given and given[-1] == "=" else found
