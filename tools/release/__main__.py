"""Build, and on request push, the artifacts of a release.

    python -m tools.release --registry REGISTRY/PATH [--home URL] [--push] [--dry-run]
    python -m tools.release --check-tag v1.2.3
    python -m tools.release --notes

Artifacts go to dist/release: the wheel, the chart archive, images.txt with the pushed digests, SHA256SUMS.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.release import steps
from tools.release.version import CHANGELOG, CHART, REPOSITORY, ReleaseProblem, app_version, check_tag, release_notes

FOLDER = Path("dist") / "release"


def run(step: steps.Step, *, dry_run: bool) -> None:
    """Print a command, and run it unless this is a dry run. Raises ReleaseProblem if it fails."""
    redirection = f" > {step.output}" if step.output else ""
    print(f"+ {shlex.join(step.argv)}{redirection}", flush=True)
    if dry_run:
        return
    try:
        output = subprocess.PIPE if step.output else None
        ended = subprocess.run(step.argv, cwd=REPOSITORY, stdout=output, text=True, check=False)
    except FileNotFoundError as missing:
        raise ReleaseProblem(f"{step.argv[0]}: no such program; install it or add it to PATH") from missing
    if ended.returncode != 0:
        raise ReleaseProblem(f"`{shlex.join(step.argv)}` exit {ended.returncode}")
    if step.output:
        (REPOSITORY / step.output).write_text(ended.stdout, encoding="utf-8")


def release(registry: str, version: str, home: str = "", *, push: bool, dry_run: bool) -> None:
    """Build all artifacts, push them if requested, and write the checksums."""
    if "://" in registry or registry.endswith("/") or not registry:
        raise ReleaseProblem(f"registry {registry!r}: want HOST/PATH without a scheme and a final slash")
    if not dry_run:
        shutil.rmtree(REPOSITORY / FOLDER, ignore_errors=True)
        (REPOSITORY / FOLDER).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        chart = Path(temporary) / "koord-suite"
        steps.copy_chart(CHART, chart, registry, home)
        for step in steps.build(registry, version, chart, FOLDER):
            run(step, dry_run=dry_run)
    if push:
        for step in steps.push(registry, version, FOLDER):
            run(step, dry_run=dry_run)
    run(steps.checksums(FOLDER), dry_run=dry_run)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.release", description="Build and push the release artifacts.")
    action = top.add_mutually_exclusive_group(required=True)
    action.add_argument("--registry", metavar="HOST/PATH", help="build the artifacts, with images named HOST/PATH/NAME")
    action.add_argument("--check-tag", metavar="TAG", help="fail unless the tag matches the version")
    action.add_argument("--notes", action="store_true", help="print the section of the version in CHANGELOG.md")
    top.add_argument("--home", metavar="URL", default="", help="repository that the chart names as home and sources")
    top.add_argument("--push", action="store_true", help="push images and chart as well")
    top.add_argument("--dry-run", action="store_true", help="print the commands and run none of them")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 and print one line if something prevents the release."""
    arguments = parser().parse_args(argv)
    try:
        version = app_version((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        if arguments.check_tag is not None:
            check_tag(arguments.check_tag, version)
        elif arguments.notes:
            print(release_notes(CHANGELOG.read_text(encoding="utf-8"), version), end="")
        else:
            release(arguments.registry, version, arguments.home, push=arguments.push, dry_run=arguments.dry_run)
    except ReleaseProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
