"""Run a command beside a Docker engine and kind that need no container registry. Needs root, on Debian.

    python -m tools.kind_offline run -- make e2e PROVIDER=kind
    python -m tools.kind_offline run -- docker ps
    python -m tools.kind_offline end                                   # after `run --keep`

`run` downloads and builds what is missing, the first time for a quarter of an hour; the command itself has no network.
It finds `docker`, `kind` and the image of a node. The engine ends with the command, unless --keep is given.
The exit code is that of the command, or 1 after a problem, which is reported in one line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from tools.images import loading
from tools.kind_offline import engine, node_image
from tools.localcluster import errors
from tools.localcluster.providers import kind, local


def run(arguments: argparse.Namespace) -> int:
    """Run a command and return its exit code."""
    local.require_root_on_linux()
    node_image.version()  # another one is refused before anything is built
    loading.build()
    node_image.prepare()
    engine.start()
    try:
        node = node_image.ensure()
        folders = f"{kind.kind().parent}:{os.environ.get('PATH', '')}"
        variables = {kind.NODE_IMAGE_VARIABLE: node, "PATH": folders}
        ended = subprocess.run(
            engine.enter(*arguments.command), env={**os.environ, **engine.environment(), **variables}, check=False
        )
    finally:
        if not arguments.keep:
            engine.stop()
    return ended.returncode


def end(_: argparse.Namespace) -> int:
    """End the engine."""
    engine.stop()
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.kind_offline", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")
    running = verbs.add_parser("run", help="run a command, with the engine around it")
    running.add_argument("--keep", action="store_true", help="leave the engine and its containers running")
    running.add_argument("command", nargs="+", metavar="COMMAND", help="the command and its arguments, after `--`")
    running.set_defaults(act=run)
    verbs.add_parser("end", help="end an engine that `run --keep` left running").set_defaults(act=end)
    return top


def main(argv: Sequence[str]) -> int:
    """Run one verb and return its exit code."""
    arguments = parser().parse_args(argv)
    return errors.exit_code(lambda: int(arguments.act(arguments)), interrupted="the engine has ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
