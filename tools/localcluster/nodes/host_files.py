"""Commands of this machine on a node: the programs and files are those of this machine, the kernel is the node's."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.localcluster import content_cache

_OF_THE_NODE: Final = ("dev", "proc", "sys", "var/tmp")


def script(argv: Sequence[str]) -> str:
    """Return the shell script that runs a command in the folder of this checkout, for a node.

    It sees the files of this machine, read-only, and /dev, /proc, /sys and /var/tmp of the node. A file of this machine
    has no page cache that a control group of the node counts, one in /var/tmp has.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {
        "COLUMNS": "120", "HOME": "/root", "PATH": path, "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "", "TMPDIR": "/var/tmp",
    }  # fmt: skip
    settings = [f"{name}={value}" for name, value in variables.items()]
    command = shlex.join(["env", f"--chdir={content_cache.REPOSITORY}", *settings, *argv])
    inside = f"""
mount -t hostfs -o ro,/ none /mnt
for folder in {" ".join(_OF_THE_NODE)}; do mount --rbind /$folder /mnt/$folder; done
exec chroot /mnt {command} </dev/null
"""
    return f"unshare --mount sh -ec {shlex.quote(inside)}"
