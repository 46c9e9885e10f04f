"""Build a release, push it to a registry, verify what is there.

    python -m tools.release build [--version X] [--folder dist] [--builder URI]
    python -m tools.release keys FOLDER
    python -m tools.release push --registry HOST/PATH (--key FILE | --keyless)
    python -m tools.release verify --registry HOST/PATH --builder URI (--key cosign.pub | --identity URI) [--commit X]
    python -m tools.release check-tag v1.2.3
    python -m tools.release notes

Results go to stdout, progress to stderr. The exit code is 1 after a problem, which is reported in one line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.localcluster import errors
from tools.release import building, provenance, publish, verify
from tools.release.version import CHANGELOG, check_tag, current, release_notes

GITHUB = "https://token.actions.githubusercontent.com"
"""Issuer of the identities of workflows."""


def _build(arguments: argparse.Namespace) -> None:
    version = arguments.version or current()
    building.build(arguments.folder, version, arguments.registry, arguments.home, arguments.builder)


def _push(arguments: argparse.Namespace) -> None:
    publish.push(arguments.folder, arguments.registry, arguments.version or current(), arguments.key)


def _verify(arguments: argparse.Namespace) -> int:
    version = arguments.version or current()
    who = (arguments.builder, arguments.key, arguments.identity, arguments.issuer)
    trust = verify.Trust(*who, arguments.commit)
    problems = verify.verify(arguments.registry, version, trust, verify.released(version))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _check_tag(arguments: argparse.Namespace) -> None:
    check_tag(arguments.tag, current())


def _notes(_: argparse.Namespace) -> None:
    print(release_notes(CHANGELOG.read_text(encoding="utf-8"), current()), end="")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.splitlines()[0])
    verbs = top.add_subparsers(required=True, metavar="VERB")
    build = verbs.add_parser("build", help="build everything of a release from the commit that is checked out")
    build.add_argument("--version", help="another version than that of the chart, for a rehearsal of an upgrade")
    build.add_argument("--folder", type=Path, default=Path("dist"), help="replaces a release in it (default: dist)")
    build.add_argument("--registry", metavar="HOST/PATH", default="", help="where the chart's page shows the images")
    build.add_argument("--home", metavar="URL", default="", help="repository that the chart names as home and sources")
    build.add_argument("--builder", metavar="URI", default="", help="who builds (default: the workflow that runs this)")
    build.set_defaults(act=_build)
    keys = verbs.add_parser("keys", help="make a pair of keys, of which cosign.pub is for users")
    keys.add_argument("folder", type=Path, metavar="FOLDER")
    keys.set_defaults(act=lambda arguments: publish.make_keys(arguments.folder))
    push = verbs.add_parser("push", help="push images and chart, with bills of materials, provenance and signatures")
    signer = push.add_mutually_exclusive_group(required=True)
    signer.add_argument("--key", type=Path, help="private key; its password is in COSIGN_PASSWORD")
    signer.add_argument("--keyless", action="store_true", help="sign as the workflow that runs this")
    push.add_argument("--folder", type=Path, default=Path("dist"), help="what `build` filled (default: dist)")
    push.set_defaults(act=_push)
    verifying = verbs.add_parser("verify", help="verify all that a registry has of a release")
    signer = verifying.add_mutually_exclusive_group(required=True)
    signer.add_argument("--key", type=Path, help="public key of who released")
    signer.add_argument("--identity", metavar="URI", default="", help="workflow that released without a key")
    verifying.add_argument("--issuer", metavar="URL", default=GITHUB, help="who vouches for it (default: %(default)s)")
    builders = f"who must have built it; {provenance.LOCAL_BUILDER} where you did"
    verifying.add_argument("--builder", metavar="URI", required=True, help=builders)
    verifying.add_argument("--commit", default="", help="of which it must be (default: any one commit)")
    verifying.set_defaults(act=_verify)
    for verb in (push, verifying):
        verb.add_argument("--registry", metavar="HOST/PATH", required=True, help="log in to it with docker or oras")
        verb.add_argument("--version", help="another version than that of the chart")
    checking = verbs.add_parser("check-tag", help="fail unless a tag is that of the version")
    checking.add_argument("tag", metavar="TAG")
    checking.set_defaults(act=_check_tag)
    verbs.add_parser("notes", help="print the section of the version in CHANGELOG.md").set_defaults(act=_notes)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    arguments = parser().parse_args(argv)
    return errors.exit_code(lambda: arguments.act(arguments) or 0, interrupted="run the same command again")


if __name__ == "__main__":
    sys.exit(main())
