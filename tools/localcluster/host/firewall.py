"""The rules that kube-proxy and the CNI plugins add to iptables, and how to take only those away again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tools.localcluster.host import commands

NFT_FAMILIES = {"iptables": "ip", "ip6tables": "ip6"}
OURS = re.compile(r"(?:^:|-A |-j |-g )(?:KUBE-|CNI-)|comment \"?(?:kubernetes|name: \\?\"koord-suite)")
COUNTERS = re.compile(r" ?\[\d+:\d+\]")


def saved() -> dict[str, str]:
    """Command -> what its `-save` prints. A family that this kernel lacks is left out."""
    found = {}
    for command in NFT_FAMILIES:
        if commands.succeeds([f"{command}-save"]):
            found[command] = commands.run([f"{command}-save"])
    return found


def without_ours(rules: str) -> str:
    """Rules in `iptables-save` form without the chains of kube-proxy and CNI and every rule that mentions them."""
    return "\n".join(line for line in rules.splitlines() if not OURS.search(line)) + "\n"


def significant(rules: str) -> list[str]:
    """The rules that do something, as `table: rule`; without counters and built-in chains that merely accept."""
    table, found = "", []
    for line in rules.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A") or (line.startswith(":") and " ACCEPT " not in line):
            found.append(f"{table}: {COUNTERS.sub('', line)}")
    return found


def tables(rules: str) -> list[str]:
    """Names of the tables in `iptables-save` form."""
    return [line[1:] for line in rules.splitlines() if line.startswith("*")]


def remove_ours(tables_before: Mapping[str, Sequence[str]]) -> None:
    """Take the cluster's rules away and leave everybody else's; then the tables that came with them. Needs root."""
    for command, rules in saved().items():
        if without_ours(rules).split() != rules.split():
            commands.run([f"{command}-restore"], stdin=without_ours(rules))
    for command, rules in saved().items():
        in_use = {rule.split(":")[0] for rule in significant(rules)}
        for table in set(tables(rules)) - set(tables_before.get(command, ())) - in_use:
            # iptables itself cannot delete a table; the older, not nftables-based one has no need to
            commands.succeeds(["nft", "delete", "table", NFT_FAMILIES[command], table])
