"""Debian's Docker engine in a network and a mount namespace of its own.

Nothing of the machine changes: its firewall, routes and mounts stay as they are, and what the engine mounts is gone
when it ends. Inside there is no network, so whatever a command needs is downloaded before.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages, processes
from tools.localcluster.host.processes import Program

PACKAGES: Final = {
    "docker.io": ("/usr/sbin/dockerd", "/usr/bin/docker"),
    "iproute2": ("ip",),
    "iptables": ("iptables-save",),
    "tini": ("/usr/bin/docker-init",),
}
"""Debian packages of the engine, with what shows their presence."""
NETWORK: Final = "koord-docker"
"""Name of the network namespace."""
STATE: Final = content_cache.ROOT / "docker-engine"
RUN: Final = Path("/run/koord-docker")
"""Folder of sockets, whose paths must be short."""
CLIENT: Final = "/usr/bin/docker"
_RUNC: Final = Path(__file__).parent / "node_files" / "runc-without-sys-resource"
_READY_SECONDS: Final = 60.0
_NAME: Final = "dockerd"


def enter(*argv: object) -> list[str]:
    """Return the command line that runs a program in the engine's network."""
    return ["nsenter", f"--net=/run/netns/{NETWORK}", *map(str, argv)]


def environment() -> Mapping[str, str]:
    """Return the variables by which a client finds the engine."""
    return {"DOCKER_HOST": f"unix://{RUN}/docker.sock"}


def docker(*words: object, stdin: str | None = None, timeout_seconds: float = 900) -> str:
    """Run Debian's client and return its stdout. Raises ClusterProblem."""
    # Without BuildKit, which wants to look up the name of a base image in a registry.
    variables = {**environment(), "DOCKER_BUILDKIT": "0"}
    return commands.run(enter(CLIENT, *words), stdin=stdin, environment=variables, timeout_seconds=timeout_seconds)


def start() -> None:
    """Start the engine unless it runs. Raises ClusterProblem."""
    debian_packages.ensure(PACKAGES)
    if not Path("/run/netns", NETWORK).exists():
        commands.run(["ip", "netns", "add", NETWORK])
    commands.run(enter("ip", "link", "set", "lo", "up"))
    RUN.mkdir(parents=True, exist_ok=True)
    flags = [
        f"--data-root={STATE}/data", f"--exec-root={RUN}/exec", f"--pidfile={RUN}/dockerd.pid",
        f"--host=unix://{RUN}/docker.sock", "--storage-driver=overlay2", "--oom-score-adjust=0",
        f"--add-runtime=careful={_RUNC}", "--default-runtime=careful",
    ]  # fmt: skip
    # `ip netns exec` would mount another /sys, without the control groups.
    own_mounts = ["unshare", "--mount", "--propagation", "private"]
    processes.start(Program(_NAME, enter(*own_mounts, "/usr/sbin/dockerd", *flags), {}), STATE)
    progress.wait_until("docker engine ready", _responds, _READY_SECONDS, otherwise=_give_up)


def stop() -> None:
    """End the engine and its containers, and remove its network; images stay for the next time."""
    processes.stop(_NAME, STATE)
    processes.end(processes.of_this_cluster(STATE))
    shutil.rmtree(RUN, ignore_errors=True)
    if Path("/run/netns", NETWORK).exists():
        commands.run(["ip", "netns", "delete", NETWORK])
        _remove_empty_folder(Path("/run/netns"))
    _remove_empty_control_groups()


def _responds() -> bool:
    processes.require_alive(_NAME, STATE)
    argv = enter("env", *(f"{name}={value}" for name, value in environment().items()), CLIENT, "info")
    return commands.succeeds(argv)


def _give_up() -> None:
    raise ClusterProblem(
        f"the docker engine does not respond after {_READY_SECONDS:.0f} s: {processes.last_errors(_NAME, STATE)}"
    )


def _remove_empty_folder(folder: Path) -> None:
    """Remove the folder of network namespaces, which `ip` makes and mounts on itself, unless others have one."""
    if any(folder.iterdir()):
        return
    commands.succeeds(["umount", folder])
    with contextlib.suppress(OSError):
        folder.rmdir()


def _remove_empty_control_groups() -> None:
    for top in Path("/sys/fs/cgroup").glob("*/docker"):
        for folder in sorted(top.rglob("*"), key=_depth, reverse=True):
            if folder.is_dir():
                with contextlib.suppress(OSError):
                    folder.rmdir()
        with contextlib.suppress(OSError):
            top.rmdir()


def _depth(path: Path) -> int:
    return len(path.parts)
