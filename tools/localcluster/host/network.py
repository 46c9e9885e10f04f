"""The bridge of host and pods. It is made before anything starts, because the apiserver listens on its address."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tools.localcluster import layout
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

BRIDGED_TRAFFIC_PASSES_IPTABLES = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


def make_bridge() -> None:
    """Create the bridge with the host's address on it, unless it exists. Needs root."""
    if layout.BRIDGE not in links():
        commands.run(["ip", "link", "add", layout.BRIDGE, "type", "bridge"])
        commands.run(["ip", "address", "add", f"{layout.HOST_ADDRESS}/24", "dev", layout.BRIDGE])
    commands.run(["ip", "link", "set", layout.BRIDGE, "up"])
    if not BRIDGED_TRAFFIC_PASSES_IPTABLES.exists():
        commands.succeeds(["modprobe", "br_netfilter"])
    # Without a bridge filter in the kernel, only calls to a service fail whose pod is on the same node.
    with contextlib.suppress(OSError):
        BRIDGED_TRAFFIC_PASSES_IPTABLES.write_text("1")


def require_free_subnet() -> None:
    """Raise ClusterProblem when a link of this machine already has an address in the cluster's pod subnet."""
    for link in json.loads(commands.run(["ip", "-json", "-4", "address"])):
        for address in link["addr_info"]:
            if address["local"].startswith("10.244."):
                raise ClusterProblem(
                    f"address {address['local']} of {link['ifname']} lies in the pod network {layout.CLUSTER_SUBNET}; "
                    "another cluster seems to run on this machine: end it first "
                    f"(where only the link is left of it: ip link delete {link['ifname']})"
                )


def remove_bridge() -> None:
    """Remove the bridge and the links attached to it."""
    for link in links(master=layout.BRIDGE) if layout.BRIDGE in links() else []:
        commands.succeeds(["ip", "link", "delete", link])
    commands.succeeds(["ip", "link", "delete", layout.BRIDGE])


def links(*, master: str | None = None) -> set[str]:
    """Return the names of the machine's network links (with `master`, of those on a bridge)."""
    argv = ["ip", "-json", "link", "show", *(["master", master] if master else [])]
    return {link["ifname"] for link in json.loads(commands.run(argv) or "[]") if "ifname" in link}
