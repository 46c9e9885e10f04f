"""Other settings of a kubelet, on a node of the provider `nodes`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tools.localcluster import running

_FILE = "/etc/node/kubelet.json"
_OTHER = "/run/kubelet.json"
_ASSIGNED_CPUS = "/var/lib/kubelet/cpu_manager_state"  # of one policy: a kubelet with another does not start with it


@contextlib.contextmanager
def changed(node: str, **settings: Any) -> Iterator[None]:
    """Restart a kubelet with other settings, and with the former ones at the end."""
    document = json.loads(running.provider().shell(node, f"cat {_FILE}")) | settings
    _restart(node, f"cat >{_OTHER} <<'end'\n{json.dumps(document)}\nend\nmount --bind {_OTHER} {_FILE}")
    try:
        yield
    finally:
        _restart(node, f"umount {_FILE}")


def _restart(node: str, change: str) -> None:
    running.provider().shell(node, f"systemctl stop kubelet\n{change}\nrm -f {_ASSIGNED_CPUS}\nsystemctl start kubelet")
