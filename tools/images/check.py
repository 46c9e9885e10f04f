"""Check the content of OCI layouts: that nothing is missing, changed, of another architecture, or not listed.

Nothing of an image is executed, so images of all architectures are checked on any machine.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import json
import posixpath
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from tools.images import bill_of_materials, debian, distributions, elf, imports, layouts, recipes
from tools.images.file_trees import File, read_tar
from tools.images.recipes import Recipe

_MADE_HERE = re.compile(
    r"etc/(passwd|group|nsswitch\.conf|ssl/certs/ca-certificates\.crt)|var/lib/dpkg/status\.d/[^/]+|venv/pyvenv\.cfg"
)
_BUILT_BY_GO = b"\xff Go buildinf:"
_STATUS = "var/lib/dpkg/status.d/"
_SHELLS = ("usr/bin/sh", "usr/bin/dash", "usr/bin/bash", "usr/bin/busybox")


@dataclass(frozen=True)
class Image:
    """An image in a layout."""

    tag: str
    architecture: str
    configuration: Mapping[str, Any]
    compressed: int
    tree: dict[str, File]

    @property
    def user(self) -> str:
        """The user of its processes."""
        return str(self.configuration.get("config", {}).get("User", ""))

    def size(self) -> int:
        """Return the bytes of its files."""
        return sum(len(file.content) for file in self.tree.values())

    def has_shell(self) -> bool:
        """Return whether a shell is in it."""
        return any(path in self.tree for path in _SHELLS)

    def debian_packages(self) -> list[str]:
        """Return the names of its Debian packages."""
        return [path.removeprefix(_STATUS) for path in self.tree if path.startswith(_STATUS) and "md5sums" not in path]

    def distributions(self) -> list[str]:
        """Return the folders that describe its Python distributions."""
        pattern = re.compile(rf"{distributions.FOLDER}/[^/]+\.dist-info/METADATA")
        return [path.rpartition("/")[0] for path in self.tree if pattern.fullmatch(path)]

    def parts(self) -> set[str]:
        """Return the package URLs of its Debian packages, Python distributions and Go modules, as its files state."""
        controls = (self.tree[f"{_STATUS}{package}"].content.decode() for package in self.debian_packages())
        stated = {debian.Package(Path(), control).purl() for control in controls}
        for distribution in self.distributions():
            fields = HeaderParser().parsestr(self.tree[f"{distribution}/METADATA"].content.decode())
            stated.add(distributions.Distribution(Path(), str(fields["Name"]), str(fields["Version"])).purl())
        for file in self.tree.values():
            if _BUILT_BY_GO in file.content:
                with tempfile.NamedTemporaryFile() as program:
                    program.write(file.content)
                    program.flush()
                    stated |= {module.purl for module in bill_of_materials.go_modules(Path(program.name))}
        return stated


def problems_of_release(folder: Path) -> list[str]:
    """Return what is wrong in a folder with the layouts of all images of a release."""
    names, released = sorted(path.name for path in folder.glob("*")), sorted(recipes.released())
    if names != released:
        return [f"{folder}: seen {', '.join(names) or 'no image'}, want {', '.join(released)}; build the release again"]
    return [problem for name in names for problem in problems(folder / name)]


def problems(
    layout: Path,
    architectures: Sequence[str] = recipes.ARCHITECTURES,
    bills: Mapping[str, Mapping[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what is wrong in the layout of an image: `image: file: seen, want`. Nothing where all is well.

    bills: the bill of materials for an architecture. labels: version and revision. Each is compared where it is given.
    """
    wrong: list[str] = []
    try:
        by_tag: dict[str, list[str]] = {}
        for image in images(layout, wrong):
            by_tag.setdefault(image.tag, []).append(image.architecture)
            name = f"{layout.name}:{image.tag} {image.architecture}"
            recipe = _recipe(layout.name, image.tag)
            of_image = [*_problems(recipe, image), *_misconfigured(recipe, image, labels)]
            if bill := (bills or {}).get(image.architecture):
                of_image += _misstated(image.parts(), bill)
            wrong += [f"{name}: {problem}" for problem in of_image]
        if not by_tag:
            wrong.append(f"{layout.name}: seen no image, want {', '.join(architectures)}")
        for tag, present in by_tag.items():
            if sorted(present) != sorted(architectures):
                wrong.append(f"{layout.name}:{tag}: seen {', '.join(present)}, want {', '.join(architectures)}")
    except (OSError, KeyError, ValueError, EOFError, tarfile.TarError) as problem:
        wrong.append(f"{layout.name}: not an OCI layout of an image ({problem!r})")
    return wrong


def images(layout: Path, wrong: list[str]) -> Iterator[Image]:
    """Return the images of a layout, and add to `wrong` each blob that is missing or not what its digest states."""
    for tagged in json.loads((layout / "index.json").read_text())["manifests"]:
        index = _document(layout, tagged, wrong)
        for described in index.get("manifests", []):
            tag = str(tagged.get("annotations", {}).get(layouts.TAG, ""))
            platform = {"architecture": str(described["platform"]["architecture"]), "os": "linux"}
            name = f"{layout.name}:{tag} {platform['architecture']}"
            manifest = _document(layout, described, wrong)
            configuration = _document(layout, manifest["config"], wrong) if manifest else {}
            tree: dict[str, File] = {}
            diff_ids = configuration.get("rootfs", {}).get("diff_ids", [])
            for layer, digest in zip(manifest.get("layers", []), diff_ids, strict=bool(configuration)):
                content = _blob(layout, layer, wrong)
                if content is None:
                    continue
                unpacked = gzip.decompress(content)
                if (seen := _sha256(unpacked)) != digest:
                    wrong.append(f"{layout.name}: layer {layer['digest']}: seen {seen} unpacked, want {digest}")
                with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
                    tree |= dict(read_tar(archive))
            stated = {key: configuration.get(key) for key in platform}
            if configuration and not stated == described["platform"] == platform:
                wrong.append(
                    f"{name}: configuration: seen {stated}, in the index {described['platform']}, want {platform}"
                )
            size = sum(layer["size"] for layer in manifest.get("layers", []))
            yield Image(tag, platform["architecture"], configuration, size, tree)


def _sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(layout: Path, described: Mapping[str, Any], wrong: list[str]) -> bytes | None:
    digest = described["digest"]
    file = layout / "blobs" / digest.replace(":", "/")
    if not file.is_file():
        wrong.append(f"{layout.name}: blob {digest}: missing, want {described['size']} bytes")
        return None
    content = file.read_bytes()
    if (seen := _sha256(content)) != digest:
        wrong.append(f"{layout.name}: blob {digest}: seen {seen}, want the digest of its name")
        return None
    return content


def _document(layout: Path, described: Mapping[str, Any], wrong: list[str]) -> dict[str, Any]:
    content = _blob(layout, described, wrong)
    return dict(json.loads(content)) if content is not None else {}


def _recipe(name: str, tag: str) -> Recipe:
    """Return how a released image is made. Raises ValueError for a name or tag that is none of a release."""
    for recipe in recipes.released().get(name, []):
        if tag.endswith(recipe.tag("")):
            return recipe
    raise ValueError(f"{name}:{tag} is no image of a release")


def _problems(recipe: Recipe, image: Image) -> Iterator[str]:
    if image.has_shell():
        yield "a shell: want none"
    if recipe.most_bytes and image.size() > recipe.most_bytes:
        yield f"seen {image.size() / 1e6:.1f} MB unpacked, want at most {recipe.most_bytes / 1e6:.0f}"
    yield from _foreign(image)
    yield from _unlisted(recipe, image)
    for distribution in image.distributions():
        yield from _unfit(image, distribution)
    words = [*recipe.entrypoint]
    starts = [f"{word}.__main__" for word in words[2:3] if words[1:2] == ["-m"]]
    if starts:
        starts += recipe.runs
        starts += [f"{path.rpartition('/')[2]}.__main__" for path in recipe.files if path.startswith("usr/local/bin/")]
    yield from (
        f"{path}: imports {module}: want it in the image" for path, module in imports.missing(image.tree, starts)
    )


def _misconfigured(recipe: Recipe, image: Image, labels: Mapping[str, str] | None) -> Iterator[str]:
    """Return where the configuration is not that of the recipe: layers, user, entry point, and labels if given."""
    layers = image.configuration.get("rootfs", {}).get("diff_ids", [])
    if len(layers) != len(recipe.kinds()):
        yield f"seen {len(layers)} layers, want {len(recipe.kinds())}: {', '.join(recipe.kinds())}"
    wanted = json.loads(layouts.configuration(recipe, image.architecture, [], labels))["config"]
    seen = image.configuration.get("config", {})
    for key in sorted({*wanted, *seen} - (set() if labels else {"Labels"})):
        if seen.get(key) != wanted.get(key):
            yield f"configuration: seen {key} {seen.get(key, 'none')}, want {wanted.get(key, 'none')}"


def _misstated(parts: set[str], bill: Mapping[str, Any]) -> Iterator[str]:
    """Return what only one of image and bill of materials has; files of npm packages state nothing in an image."""
    listed = {part["purl"] for part in bill["components"] if not part["purl"].startswith("pkg:npm/")}
    yield from (f"{part}: seen in the image, want it in the bill of materials" for part in sorted(parts - listed))
    yield from (f"{part}: seen in the bill of materials, want it in the image" for part in sorted(listed - parts))


def _foreign(image: Image) -> Iterator[str]:
    """Return the programs and libraries of another architecture, and the libraries that they miss."""
    names = {posixpath.basename(path) for path in image.tree}
    for path, file in sorted(image.tree.items()):
        seen = elf.architecture(file.content)
        if seen is None:
            continue
        if seen != image.architecture:
            yield f"{path}: seen an ELF file of {seen}, want {image.architecture}"
            continue
        yield from (
            f"{path}: needs {name}: want it in the image" for name in elf.needed(file.content) if name not in names
        )


def _unfit(image: Image, distribution: str) -> Iterator[str]:
    """Return the tags of a wheel where none of them fits the image."""
    path = f"{distribution}/WHEEL"
    tags = HeaderParser().parsestr(image.tree[path].content.decode()).get_all("Tag", [])
    machine = distributions.MACHINES.get(image.architecture, image.architecture)
    if not any(tag.endswith((f"_{machine}", "-none-any")) for tag in tags):
        yield f"{path}: seen tags {' '.join(tags)}, want one of {machine} or of any platform"


def _unlisted(recipe: Recipe, image: Image) -> Iterator[str]:
    """Return files that are of no package, no distribution and not of this project, or that are not as these state."""
    packages, owned = image.debian_packages(), dict[str, str]()
    programs = {*recipe.files, recipe.entrypoint[0].removeprefix("/")}
    for package in packages:
        if package not in recipe.debian_packages:
            yield f"Debian package {package}: want only those of the image in tools/images/recipes.py"
        lines = image.tree[f"{_STATUS}{package}.md5sums"].content.decode().splitlines()
        owned |= {path: f"md5:{digest}" for digest, _, path in (line.partition("  ") for line in lines)}
    for distribution in image.distributions():
        record = image.tree[f"{distribution}/RECORD"].content.decode().splitlines()
        owned |= {f"{distributions.FOLDER}/{path}": digest for path, digest, _ in csv.reader(record)}
    for path, file in sorted(image.tree.items()):
        if file.link and path in owned:
            yield f"{path}: seen a link to {file.link}, want {owned[path]} of its package"
        if file.is_folder or file.link or path in programs or _MADE_HERE.fullmatch(path):
            continue
        source = re.sub(r"__pycache__/(.+)\.cpython-311(\.opt-2)?\.pyc$", r"\1.py", path)
        if source.startswith("app/"):
            if source.split("/")[1] not in (*recipes.COMMON, *recipe.packages):
                yield f"{path}: want only the image's packages of this project"
        elif source not in owned or (source != path and source not in image.tree):
            yield f"{path}: of no listed package and no distribution"
        elif source == path and (wanted := owned[path]) and _digest(file.content, wanted) != wanted:
            yield f"{path}: seen {_digest(file.content, wanted)}, want {wanted} of its package"


def _digest(content: bytes, like: str) -> str:
    if like.startswith("md5:"):
        return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"
