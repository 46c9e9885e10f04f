"""Find and remove the rules that kube-proxy and the CNI plugins add to iptables, and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tools.localcluster.host import commands

NFT_FAMILIES = {"iptables": "ip", "ip6tables": "ip6"}
CLUSTER_RULE = re.compile(r"(?:^:|-A |-j |-g )(?:KUBE-|CNI-)|comment \"?(?:kubernetes|name: \\?\"koord-suite)")
COUNTERS = re.compile(r" ?\[\d+:\d+\]")


def saved() -> dict[str, str]:
    """Return the output of `-save` for each command. A family that this kernel lacks is left out."""
    found = {}
    for command in NFT_FAMILIES:
        if commands.succeeds([f"{command}-save"]):
            found[command] = commands.run([f"{command}-save"])
    return found


def without_cluster_rules(rules: str) -> str:
    """Return rules in `iptables-save` form, without the chains of kube-proxy and CNI and the rules that name them."""
    return "\n".join(line for line in rules.splitlines() if not CLUSTER_RULE.search(line)) + "\n"


def significant(rules: str) -> list[str]:
    """Return the rules with an effect, as `table: rule`, without counters and built-in chains that only accept."""
    table, found = "", []
    for line in rules.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A") or (line.startswith(":") and " ACCEPT " not in line):
            found.append(f"{table}: {COUNTERS.sub('', line)}")
    return found


def tables(rules: str) -> list[str]:
    """Return the names of the tables in `iptables-save` form."""
    return [line[1:] for line in rules.splitlines() if line.startswith("*")]


def remove_cluster_rules(tables_before: Mapping[str, Sequence[str]]) -> None:
    """Remove the cluster's rules, then the tables that came with them; keep all other rules. Needs root."""
    for command, rules in saved().items():
        if without_cluster_rules(rules).split() != rules.split():
            commands.run([f"{command}-restore"], stdin=without_cluster_rules(rules))
    for command, rules in saved().items():
        in_use = {rule.split(":")[0] for rule in significant(rules)}
        for table in set(tables(rules)) - set(tables_before.get(command, ())) - in_use:
            # iptables itself cannot delete a table; the older one, without nftables, does not have to
            commands.succeeds(["nft", "delete", "table", NFT_FAMILIES[command], table])
