"""Collect wheels and front-end files, build images, load them into the cluster that is up.

    python -m tools.images wheels [FOLDER] [--python-version 3.12]     # for `docker build`, into dist/wheels
    python -m tools.images front-end [FOLDER]                          # for `docker build`, into dist/front-end
    python -m tools.images kube-scheduler 1.36 [FOLDER]                # for `docker build`, into dist/kube-scheduler
    python -m tools.images layouts FOLDER                              # of a release, for all architectures
    python -m tools.images contents FOLDER                             # prints a table of what is in them
    python -m tools.images check FOLDER                                # exits with 1 where something is wrong in them
    python -m tools.images build                                       # prints name, reference and archive of each
    python -m tools.images load                                        # prints name and reference of each

Results go to stdout, progress to stderr. The exit code is 1 after a problem, which is reported in one line.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.images import building, check, contents, front_end, layouts, loading, recipes, wheels
from tools.localcluster import errors, go_binaries


def collect(arguments: argparse.Namespace) -> int:
    """Fill a folder with the wheels that the Dockerfile installs."""
    wheels.copy_into(arguments.folder, arguments.python_version)
    print(arguments.folder)
    return 0


def collect_front_end(arguments: argparse.Namespace) -> int:
    """Fill a folder with the front-end files of the console."""
    front_end.copy_into(arguments.folder)
    print(arguments.folder)
    return 0


def collect_scheduler(arguments: argparse.Namespace) -> int:
    """Put kube-scheduler with the plugin, of the build for a version of Kubernetes, into a folder."""
    folder = arguments.folder or Path("dist") / "kube-scheduler" / f"1.{arguments.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(go_binaries.scheduler_with_plugin(arguments.minor), folder)
    print(folder)
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
    problems = [
        problem for layout in sorted((arguments.folder / "images").iterdir()) for problem in check.problems(layout)
    ]
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


def _minor(text: str) -> int:
    return int(text.removeprefix("1."))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")
    collecting = verbs.add_parser("wheels", help="collect the wheels that the Dockerfile installs")
    collecting.add_argument("folder", type=Path, nargs="?", default=Path("dist/wheels"))
    collecting.add_argument("--python-version", default=building.DOCKER_BASE_PYTHON, help="of the base image")
    collecting.set_defaults(act=collect)
    fetching = verbs.add_parser("front-end", help="fetch the front-end files of the console")
    fetching.add_argument("folder", type=Path, nargs="?", default=Path("dist/front-end"))
    fetching.set_defaults(act=collect_front_end)
    compiling = verbs.add_parser("kube-scheduler", help="build kube-scheduler with the plugin")
    compiling.add_argument("minor", metavar="VERSION", type=_minor, help="of Kubernetes, such as 1.36")
    compiling.add_argument("folder", type=Path, nargs="?")
    compiling.set_defaults(act=collect_scheduler)
    writing = verbs.add_parser("layouts", help="write the images of a release as OCI layouts")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--version", default=layouts.version(), help="the chart's where there is none")
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
