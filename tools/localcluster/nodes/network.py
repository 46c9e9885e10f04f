"""Network of the nodes: a bridge in a network namespace of its own, to which this machine has one link.

Nothing of it is in the firewall or the kernel settings of this machine, and all of it goes with the namespace.
"""

from __future__ import annotations

import contextlib
import json
from typing import Final

from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, network
from tools.localcluster.host.leftovers import NETWORK_NAMESPACES
from tools.localcluster.layout import NODES_LINK

NAMESPACE: Final = "koord-nodes"
_BRIDGE: Final = "bridge"
_PREFIX: Final = "10.77"
HOST: Final = f"{_PREFIX}.0.1"
PODS: Final = f"{_PREFIX}.128.0/17"
SERVICES: Final = f"{_PREFIX}.64.0/18"
APISERVER_SERVICE: Final = f"{_PREFIX}.64.1"
MOST_NODES: Final = 100


def address(number: int) -> str:
    """Return the address of a node; the first one is number 1."""
    return f"{_PREFIX}.0.{10 + number}"


def pods(number: int) -> str:
    """Return the subnet of a node's pods."""
    return f"{_PREFIX}.{128 + number}.0/24"


def require_free() -> None:
    """Raise ClusterProblem when a link of this machine has an address of these networks."""
    for link in json.loads(commands.run(["ip", "-json", "-4", "address"])):
        for used in link["addr_info"]:
            if used["local"].startswith(f"{_PREFIX}."):
                raise ClusterProblem(
                    f"address {used['local']} of {link['ifname']} lies in {_PREFIX}.0.0/16, the networks of the nodes; "
                    "end what uses it"
                )


def exists() -> bool:
    """Return whether this machine has the namespace or the link, whole or in part."""
    return (NETWORK_NAMESPACES / NAMESPACE).exists() or NODES_LINK in network.links()


def make() -> None:
    """Make the namespace, the bridge, and the link of this machine with its address and the route to Services."""
    commands.run(["ip", "netns", "add", NAMESPACE])
    _inside("link", "set", "lo", "up")
    _inside("link", "add", _BRIDGE, "type", "bridge")
    _inside("link", "set", _BRIDGE, "up")
    commands.run(["ip", "link", "add", NODES_LINK, "type", "veth", "peer", "name", "host", "netns", NAMESPACE])
    _inside("link", "set", "host", "master", _BRIDGE, "up")
    commands.run(["ip", "address", "add", f"{HOST}/18", "dev", NODES_LINK])
    commands.run(["ip", "link", "set", NODES_LINK, "up"])
    commands.run(["ip", "route", "add", SERVICES, "via", address(1)])


def connect(number: int, name: str) -> None:
    """Make the link of a node, whose one end its kernel reads and writes, and the route to its pods."""
    if not _has_link(name):
        _inside("link", "add", name, "type", "veth", "peer", "name", f"{name}-bridge")
    _inside("link", "set", f"{name}-bridge", "master", _BRIDGE, "up")
    _inside("link", "set", name, "up")
    commands.run(["ip", "route", "replace", pods(number), "via", address(number)])


def cut(name: str) -> None:
    """Let nothing through the link of a node, until `connect`."""
    _inside("link", "set", f"{name}-bridge", "down")


def routes(number: int, count: int) -> list[str]:
    """Return the arguments of `ip` that let a node reach the pods of all others, and this machine."""
    others = [other for other in range(1, count + 1) if other != number]
    return [f"route replace default via {HOST}", *(f"route replace {pods(n)} via {address(n)}" for n in others)]


def remove() -> None:
    """Remove the namespace and all links. Processes in it must have ended."""
    commands.succeeds(["ip", "link", "delete", NODES_LINK])
    commands.succeeds(["ip", "netns", "delete", NAMESPACE])


def enter(*argv: str) -> list[str]:
    """Return the command line that runs a program in the namespace; the process is that of the program."""
    return ["ip", "netns", "exec", NAMESPACE, *argv]


def _inside(*words: str) -> str:
    return commands.run(["ip", "-n", NAMESPACE, *words])


def _has_link(name: str) -> bool:
    with contextlib.suppress(ClusterProblem):
        return bool(_inside("link", "show", name))
    return False
