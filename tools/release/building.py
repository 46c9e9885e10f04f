"""Build everything of a release into one folder, from a clone of the commit: what is not committed is in no release."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.images import layouts as assembled
from tools.localcluster import content_cache, progress
from tools.localcluster.host import commands
from tools.localcluster.image_archives import sha256
from tools.release import bundle, chart, contacts, layouts, provenance
from tools.release.publish import SUMS
from tools.release.version import CHANGELOG, REPOSITORY, ReleaseProblem, release_notes


def build(folder: Path, version: str, registry: str = "", home: str = "", builder: str = "") -> None:
    """Fill `folder`, in place of an earlier release in it, and print a table. Raises ReleaseProblem."""
    folder = folder.resolve()
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SUMS).exists():
        raise ReleaseProblem(f"{folder}: has files of others, which are kept; remove them or name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / SUMS).touch()
    epoch = assembled.epoch()
    with _source(version) as source:
        environment = {**os.environ, assembled.EPOCH: str(epoch), "PIP_CONSTRAINT": str(source / "constraints.txt")}

        def run(what: str, *words: object) -> None:
            command = [sys.executable, "-m", *map(str, words)]
            with progress.step(what):
                ended = subprocess.run(command, env=environment, cwd=source, stdout=subprocess.DEVNULL, check=False)
            if ended.returncode != 0:
                raise ReleaseProblem(f"{what}: `{shlex.join(command)}` exit {ended.returncode}, see above")

        run("images", "tools.images", "layouts", folder, "--version", version)
        run("check of the images", "tools.images", "check", folder)
        images = layouts.listed(folder / "images")
        people = contacts.maintainers(source / contacts.FILE.name)
        described = chart.Described(version, images, _notes(source, version), registry, home, people)
        archive = chart.package(source / "charts" / "koord-suite", folder, described, epoch)
        run("front-end files for the wheel", "tools.images", "front-end", "console/front-end")
        run("wheel of the suite", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ".")
        run("wheel of koordctl", "tools.release.koordctl_distribution", folder)
        url = ("--url", f"{home}/releases/download/v{version}") if home else ()
        run(
            "archives of koordctl", "tools.release.koordctl_archives", next(folder.glob("koordctl-*.whl")), folder, *url
        )
        with progress.step("offline bundle"):
            bundle.write(folder, version, images, archive, source, epoch)
        _write_contacts(source / contacts.FILE.name, folder)
    chart_parameters = {name: text for name, text in (("registry", registry), ("home", home)) if text}
    provenance.write(folder, version, builder, chart_parameters)
    _write_sums(folder)
    print(table(folder, version), end="")


@contextlib.contextmanager
def _source(version: str) -> Iterator[Path]:
    """Clone the commit, set its version where that is another one, and share the cache of builds."""
    with tempfile.TemporaryDirectory(prefix="koord-suite-") as temporary:
        source = Path(temporary) / "koord-suite"
        _git("clone", "--quiet", "--shared", REPOSITORY, source)
        progress.report(f"building {version} from {_git('rev-parse', 'HEAD').strip()}")
        (source / ".cache").symlink_to(content_cache.ROOT)
        described = source / "charts" / "koord-suite" / "Chart.yaml"
        text = described.read_text(encoding="utf-8")
        changed = re.sub(r"^(version|appVersion): .*$", rf"\1: {version}", text, flags=re.MULTILINE)
        if changed != text:
            described.write_text(changed, encoding="utf-8")
            module = source / "component_base" / "version.py"
            program = re.sub(r'(?<== )"[^"]*"$', f'"{version}"', module.read_text(encoding="utf-8"), flags=re.MULTILINE)
            module.write_text(program, encoding="utf-8")
        yield source


def _notes(source: Path, version: str) -> str:
    """Return the section of the version in the changelog, else that of what is not released."""
    changelog = (source / CHANGELOG.name).read_text(encoding="utf-8")
    try:
        return release_notes(changelog, version)
    except ReleaseProblem:
        return release_notes(changelog, "Unreleased")


def _write_contacts(file: Path, folder: Path) -> None:
    """Write Artifact Hub's metadata of the repository, or report what a person has still to fill in."""
    problems = contacts.problems(file)
    for problem in problems:
        progress.report(f"warning: {problem}")
    if not problems:
        (folder / "artifacthub-repo.yml").write_text(contacts.artifact_hub(file), encoding="utf-8")


def _git(*words: object) -> str:
    return commands.run(["git", "-C", REPOSITORY, *words])


def _write_sums(folder: Path) -> None:
    """Write SHA256SUMS of the files that are downloaded as such; what a registry has is named by digests there."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name != SUMS]
    sums = "".join(f"{sha256(file)}  {file.name}\n" for file in files)
    (folder / SUMS).write_text(sums, encoding="utf-8")


def table(folder: Path, version: str) -> str:
    """Return lines of name, digest and MB of what a release has."""
    images = [
        (f"image {image.title(version)}", image.digest, image.size()) for image in layouts.listed(folder / "images")
    ]
    sums = (line.split() for line in (folder / SUMS).read_text(encoding="utf-8").splitlines())
    files = [(name, f"sha256:{digest}", (folder / name).stat().st_size) for digest, name in sums]
    rows = [*images, *files]
    width = max(len(name) for name, _, _ in rows)
    return "".join(f"{name:{width}}  {digest}  {size / 1e6:7.1f} MB\n" for name, digest, size in rows)
