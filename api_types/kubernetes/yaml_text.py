"""Write objects as YAML that the parsers of Kubernetes read back unchanged.

They follow YAML 1.1 where PyYAML does not: a bare `n` or `y`, such as the key of N-sigma's N, is a boolean to them.
Repeated values are written in full instead of as anchors, which people read with difficulty.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

_BOOLEANS_TO_OTHERS: Final = frozenset({"y", "Y", "n", "N"})


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "'" if value in _BOOLEANS_TO_OTHERS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> str:
    """Write plain values as YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
