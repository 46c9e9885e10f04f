"""Starts, shows, fills and ends a cluster for demos and end-to-end tests.

    python -m tools.localcluster up [--provider local|kind|existing] [--fake-nodes N]
    eval "$(python -m tools.localcluster env)" && kubectl get nodes

Results go to stdout, progress to stderr; exit code 1 means trouble, told in one line.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.images import building, wheels
from tools.localcluster import fake_nodes, progress, running
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.providers.catalog import PROVIDERS


def up(arguments: argparse.Namespace) -> int:
    """Start a cluster, or see that the one that is up is well."""
    already = running.name()
    name = arguments.provider or already or running.default_name()
    if already is not None and name != already:
        raise ClusterProblem(f"a {already} cluster is up; end it first: python -m tools.localcluster down")
    progress.say(f"provider: {name}")
    provider = PROVIDERS[name]
    running.remember(name)
    try:
        cluster = provider.up()
    except ClusterProblem:
        if not provider.exists():
            running.forget()
        raise
    if arguments.fake_nodes is not None:
        fake_nodes.set_count(cluster, arguments.fake_nodes)
    progress.say('the cluster is up; to use it: eval "$(python -m tools.localcluster env)"')
    print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    return 0


def down(_: argparse.Namespace) -> int:
    """End the cluster and show what could not be taken away."""
    name = running.name()
    if name is None:
        progress.say("no cluster is up")
        return 0
    fake_nodes.stop_heartbeats()
    remaining = PROVIDERS[name].down()
    running.forget()
    for line in remaining:
        print(f"left over: {line}")
    progress.say("left over: see above" if remaining else "nothing is left over")
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


def load_images(_: argparse.Namespace) -> int:
    """Build and load all images, print `name reference` lines."""
    for name, reference in running.load_images().items():
        print(name, reference)
    return 0


def set_fake_nodes(arguments: argparse.Namespace) -> int:
    """Have that many fake nodes."""
    fake_nodes.set_count(running.cluster(), arguments.count)
    return 0


def copy_wheels(arguments: argparse.Namespace) -> int:
    """Fill a folder with wheels for a `docker build` by hand."""
    wheels.copy_into(arguments.folder, arguments.python_version)
    print(arguments.folder)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tools.localcluster", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")

    starting = verbs.add_parser("up", help="start a cluster, or check the one that is up")
    starting.add_argument("--provider", choices=list(PROVIDERS), help="default: kind where Docker answers, else local")
    starting.add_argument("--fake-nodes", type=int, metavar="N", help="have N tainted nodes without a machine")
    starting.set_defaults(act=up)
    for verb, act, text in (
        ("down", down, "end the cluster and leave nothing behind"),
        ("status", status, "show the parts of the cluster; exit 1 unless all are well"),
        ("env", env, "print exports of KUBECONFIG and PATH for a shell"),
        ("load-images", load_images, "build images from this checkout, load them, print their references"),
    ):
        verbs.add_parser(verb, help=text).set_defaults(act=act)
    faking = verbs.add_parser("fake-nodes", help="have N fake nodes from now on")
    faking.add_argument("count", type=int, metavar="N")
    faking.set_defaults(act=set_fake_nodes)
    collecting = verbs.add_parser("wheels", help="collect the wheels that the Dockerfile installs")
    collecting.add_argument("folder", type=Path, nargs="?", default=Path("dist/wheels"))
    collecting.add_argument("--python-version", default=building.DOCKER_BASE_PYTHON, help="of the base image")
    collecting.set_defaults(act=copy_wheels)
    return top


def main(argv: Sequence[str]) -> int:
    """Act, and turn a problem into one line."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.act(arguments))
    except ClusterProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except PermissionError as refused:
        print(f"error: {refused.filename}: permission denied; it is root's, run this with sudo", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it was, `down` ends what runs", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
