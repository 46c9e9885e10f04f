"""Start, show, fill and end a Kubernetes cluster.

    python -m tools.localcluster up [--provider local|kind|existing|nodes] [--nodes N] [--fake-nodes N]
    eval "$(python -m tools.localcluster env)" && kubectl get nodes

Results go to stdout, progress to stderr. The exit code is 1 after a problem, which is reported in one line.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.localcluster import errors, fake_nodes, go_binaries, image_archives, progress, remembered, running
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.providers.nodes import Nodes
from tools.localcluster.providers.registry import PROVIDERS


def up(arguments: argparse.Namespace) -> int:
    """Start a cluster, or repair the one that is up."""
    already = remembered.name()
    name = arguments.provider or already or running.default_name()
    if already is not None and name != already:
        raise ClusterProblem(f"a {already} cluster is up; end it first: python -m tools.localcluster down")
    progress.report(f"provider: {name}")
    provider = PROVIDERS[name]
    remembered.remember(name)
    try:
        cluster = provider.up() if arguments.nodes is None else _several(name).up(arguments.nodes)
    except ClusterProblem:
        if not provider.exists():
            remembered.forget()
        raise
    if arguments.fake_nodes is not None:
        fake_nodes.set_count(cluster, arguments.fake_nodes)
    progress.report('the cluster is up; to use it: eval "$(python -m tools.localcluster env)"')
    print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    return 0


def _several(name: str) -> Nodes:
    provider = PROVIDERS[name]
    if not isinstance(provider, Nodes):
        raise ClusterProblem(f"--nodes: a {name} cluster has the nodes that it has; want --provider nodes")
    return provider


def down(_: argparse.Namespace) -> int:
    """End the cluster and list what could not be removed."""
    name = remembered.name()
    if name is None:
        progress.report("no cluster is up")
        return 0
    fake_nodes.stop_heartbeats()
    remaining = PROVIDERS[name].down()
    remembered.forget()
    for line in remaining:
        print(f"left over: {line}")
    progress.report("left over: see above" if remaining else "nothing is left over")
    return 1 if remaining else 0


def status(_: argparse.Namespace) -> int:
    """Show the parts of the cluster."""
    parts = running.provider().status()
    for part, state in parts.items():
        print(f"{part:26} {state}")
    return 0 if all(state == "ok" for state in parts.values()) else 1


def env(_: argparse.Namespace) -> int:
    """Print exports for a shell."""
    for name, value in running.cluster().environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def shell(arguments: argparse.Namespace) -> int:
    """Run a script on a node: the further words, or what stdin holds."""
    script = " ".join(arguments.words) or sys.stdin.read()
    print(running.provider().shell(arguments.node, script), end="")
    return 0


def load(arguments: argparse.Namespace) -> int:
    """Load docker-archives onto the nodes and print the references of their images."""
    archives = [image_archives.read(file) for file in arguments.files]
    running.provider().load(archives)
    for archive in archives:
        print(archive.reference)
    return 0


def set_fake_nodes(arguments: argparse.Namespace) -> int:
    """Set the number of fake nodes."""
    fake_nodes.set_count(running.cluster(), arguments.count)
    return 0


def client(arguments: argparse.Namespace) -> int:
    """Print the path of a client program, which is built where there is none."""
    print(go_binaries.client(arguments.name))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.localcluster", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")

    starting = verbs.add_parser("up", help="start a cluster, or repair the one that is up")
    starting.add_argument("--provider", choices=list(PROVIDERS), help="default: kind where Docker runs, else nodes")
    starting.add_argument("--nodes", type=int, metavar="N", help="number of nodes, with --provider nodes (default: 2)")
    starting.add_argument("--fake-nodes", type=int, metavar="N", help="add N tainted nodes without a machine")
    starting.set_defaults(act=up)
    for verb, act, text in (
        ("down", down, "end the cluster and leave nothing behind"),
        ("status", status, "show the parts of the cluster; exit 1 unless all are healthy"),
        ("env", env, "print exports of KUBECONFIG and PATH for a shell"),
    ):
        verbs.add_parser(verb, help=text).set_defaults(act=act)
    entering = verbs.add_parser(
        "sh", help="run a shell script on a node, and print its output; without words that of stdin"
    )
    entering.add_argument("node", metavar="NODE")
    entering.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD")
    entering.set_defaults(act=shell)
    loading = verbs.add_parser("load", help="load images from docker-archives (`docker save`) onto the nodes")
    loading.add_argument("files", type=Path, nargs="+", metavar="FILE")
    loading.set_defaults(act=load)
    faking = verbs.add_parser("fake-nodes", help="set the number of fake nodes")
    faking.add_argument("count", type=int, metavar="N")
    faking.set_defaults(act=set_fake_nodes)
    finding = verbs.add_parser("client", help="print the path of helm or kubectl, which is built where there is none")
    finding.add_argument("name", choices=go_binaries.CLIENTS)
    finding.set_defaults(act=client)
    return top


def main(argv: Sequence[str]) -> int:
    """Run one verb and return its exit code."""
    arguments = parser().parse_args(argv)
    return errors.exit_code(
        lambda: int(arguments.act(arguments)),
        interrupted="run the same command again to continue, or `python -m tools.localcluster down` to end the cluster",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
