"""The plugin file of k9s: one entry for each scope. Pure."""

from __future__ import annotations

from typing import Any, Final

from api_types.kubernetes import yaml_text

_HEAD: Final = "# Written by koordctl export k9s; a part of plugins.yaml of k9s.\n"
_ENTRIES: Final = (
    ("koord-node", "Shift-M", "Explain Mid", "nodes", "explain node $NAME"),
    ("koord-pod", "Shift-M", "Explain pod", "pods", "explain pod $NAMESPACE/$NAME"),
    ("koord-namespace", "Shift-M", "Usage of pods", "namespaces", "top pods --namespace $NAME --sort used:desc"),
)
"""Name, key, description, scope, and the words after `koordctl`."""


def text() -> str:
    """Return the file."""
    return _HEAD + yaml_text.dump({"plugins": {name: _entry(*rest) for name, *rest in _ENTRIES}})


def words() -> list[list[str]]:
    """Return the words of each entry after `koordctl`."""
    return [command.split() for *_, command in _ENTRIES]


def _entry(key: str, description: str, scope: str, command: str) -> dict[str, Any]:
    shown = f'koordctl {command} --context "$CONTEXT" 2>&1 | less -R'
    return {
        "shortCut": key,
        "description": description,
        "scopes": [scope],
        "command": "sh",
        "background": False,
        "args": ["-c", shown],
    }
