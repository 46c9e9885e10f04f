"""Byte code of modules, compiled by the Python of the images, which runs in a root of its own.

Byte code is the same on every architecture. It is never checked against its source: the file systems of the pods are
read-only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.images import debian, file_trees
from tools.images.file_trees import File, Tree
from tools.localcluster import content_cache, image_archives, progress
from tools.localcluster.host import commands

_TAG = f"cpython-{debian.PYTHON_VERSION.replace('.', '')}"
# A process for each module: what byte code refers to twice depends on the strings that the process already has.
_COMPILE = """
import json, os, py_compile
for source, path, optimize, target in json.load(open("/work/list")):
    child = os.fork()
    if child == 0:
        try:
            py_compile.compile(source, target, path, doraise=True, optimize=optimize,
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        except BaseException as problem:
            os.write(2, f"error: {path}: {problem}".encode())
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(1)
"""


class Module(NamedTuple):
    """A module to compile: where images have it, its source, and at which level of optimization."""

    path: str
    source: bytes
    optimize: int

    def byte_code_path(self) -> str:
        """Return where Python reads the byte code."""
        path, level = Path(self.path), f".opt-{self.optimize}" if self.optimize else ""
        return str(path.parent / "__pycache__" / f"{path.stem}.{_TAG}{level}.pyc")


def modules(tree: Tree, optimize: int) -> list[Module]:
    """Return the modules of a tree."""
    return [
        Module(path, file.content, optimize) for path, file in tree.items() if path.endswith(".py") and not file.link
    ]


def compiled(kind: str, wanted: Iterable[Module]) -> Mapping[Module, File]:
    """Return the byte code of modules. `kind` names the cache. Needs root. Raises ClusterProblem."""
    ordered = sorted(set(wanted))
    packages = debian.packages(image_archives.architecture())
    hashed = [f"{path} {hashlib.sha256(source).hexdigest()} {level}" for path, source, level in ordered]
    python = next(package for package in packages if package.name == "python3.11-minimal")

    def build(folder: Path) -> None:
        root = folder / "root"
        file_trees.write_to(debian.root(packages, image_archives.architecture()), root)
        (root / "work").mkdir()
        (root / "result").mkdir()
        listed = []
        for number, module in enumerate(ordered):
            (root / "work" / str(number)).write_bytes(module.source)
            listed.append([f"/work/{number}", f"/{module.path}", module.optimize, f"/result/{number}"])
        (root / "work" / "list").write_text(json.dumps(listed))
        with progress.step(f"compiling {len(ordered)} modules"):
            environment = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
            words = ["chroot", root, "/usr/bin/python3.11", "-S", "-c", _COMPILE]
            commands.run(words, environment=environment, timeout_seconds=None)
        (root / "result").rename(folder / "result")
        shutil.rmtree(root)

    key = content_cache.digest("\n".join(hashed), python.version, _COMPILE)
    folder = content_cache.folder(f"byte-code/{kind}", key, build) / "result"
    return {module: File((folder / str(number)).read_bytes()) for number, module in enumerate(ordered)}


def with_byte_code(tree: Tree, optimize: int, byte_code: Mapping[Module, File]) -> Tree:
    """Return a tree with the byte code of its modules."""
    return {**tree, **{module.byte_code_path(): byte_code[module] for module in modules(tree, optimize)}}
