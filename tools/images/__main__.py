"""Build images, load them into the cluster that is up, write those of a release, fetch the console's front-end files.

    python -m tools.images front-end [FOLDER]                          # for the console of a checkout, or of a wheel
    python -m tools.images layouts FOLDER --version X                  # of a release, for all architectures
    python -m tools.images contents FOLDER                             # prints a table of what is in them
    python -m tools.images check FOLDER                                # exits with 1 where something is wrong in them
    python -m tools.images build                                       # prints name, reference and archive of each
    python -m tools.images load                                        # prints name and reference of each

Results go to stdout, progress to stderr. The exit code is 1 after a problem, which is reported in one line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.images import check, contents, front_end, layouts, loading, recipes
from tools.localcluster import errors


def collect_front_end(arguments: argparse.Namespace) -> int:
    """Fetch the front-end files of the console, and copy them into a folder where one is named."""
    if arguments.folder:
        front_end.copy_into(arguments.folder)
    print(arguments.folder or front_end.folder())
    return 0


def write_layouts(arguments: argparse.Namespace) -> int:
    """Write the images of a release, with what they are made of."""
    layouts.write(arguments.folder, arguments.version, arguments.architecture or recipes.ARCHITECTURES)
    print(arguments.folder)
    return 0


def contents_of(arguments: argparse.Namespace) -> int:
    """Print what is in the images of a release."""
    print("\n".join(contents.table(arguments.folder)))
    return 0


def check_layouts(arguments: argparse.Namespace) -> int:
    """Check the images of a release, and print each problem."""
    problems = check.problems_of_release(arguments.folder / "images")
    print("\n".join(problems) or "every image is as it has to be")
    return 1 if problems else 0


def build(_: argparse.Namespace) -> int:
    """Build the images and print `name reference archive` lines."""
    for archive in loading.build():
        print(archive.name, archive.reference, archive.file)
    return 0


def load(_: argparse.Namespace) -> int:
    """Build and load the images, and print `name reference` lines."""
    for name, reference in loading.load().items():
        print(name, reference)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")
    fetching = verbs.add_parser("front-end", help="fetch the front-end files of the console")
    fetching.add_argument("folder", type=Path, nargs="?", help="copy them there")
    fetching.set_defaults(act=collect_front_end)
    writing = verbs.add_parser("layouts", help="write the images of a release as OCI layouts")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--version", required=True, help="of the release")
    writing.add_argument(
        "--architecture", action="append", choices=recipes.ARCHITECTURES, help="all where there is none"
    )
    writing.set_defaults(act=write_layouts)
    for name, act, text in (
        ("contents", contents_of, "print what is in the images of a release"),
        ("check", check_layouts, "check the content of the images of a release"),
    ):
        reading = verbs.add_parser(name, help=text)
        reading.add_argument("folder", type=Path)
        reading.set_defaults(act=act)
    verbs.add_parser("build", help="build all images from this checkout").set_defaults(act=build)
    verbs.add_parser("load", help="build and load all images into the cluster that is up").set_defaults(act=load)
    return top


def main(argv: Sequence[str]) -> int:
    """Run one verb and return its exit code."""
    arguments = parser().parse_args(argv)
    return errors.exit_code(lambda: int(arguments.act(arguments)), interrupted="run the same command again to continue")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
