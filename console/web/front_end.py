"""Find the front-end files of npm, and load all files that a browser may request.

They are pinned by `front-end.lock.json` and fetched by `python -m tools.images front-end`: into the image or the
wheel, or into the cache of a checkout. Without them the pages work as they do without JavaScript.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_HERE: Final = Path(__file__).parent
_PACKAGE: Final = _HERE.parent
LOCK: Final = _PACKAGE / "front-end.lock.json"
_IN_IMAGE: Final = _PACKAGE / "front-end"
_IN_CHECKOUT: Final = _PACKAGE.parent / ".cache" / "front-end"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class File(NamedTuple):
    """A file with its media type."""

    content_type: str
    content: bytes


@functools.cache
def load() -> Mapping[str, File]:
    """Return all files by name: those of the console, and those of npm where they are there."""
    files = {path.name: _file(path) for path in sorted((_HERE / "static").iterdir()) if path.suffix in _TYPES}
    folder = folder_of_npm()
    if folder is None:
        return files
    packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    shipped = [name for package in packages if package["shipped"] for name in package["files"].values()]
    return files | {name: _file(folder / name) for name in shipped}


def folder_of_npm() -> Path | None:
    """Return the folder with the files of npm that the lock file names, None where there is none."""
    lock_file = LOCK.read_bytes()
    for folder in (_IN_IMAGE, *_IN_CHECKOUT.glob("[!.]*")):
        lock = folder / LOCK.name
        if lock.is_file() and lock.read_bytes() == lock_file:
            return folder
    return None


def _file(path: Path) -> File:
    return File(_TYPES[path.suffix], path.read_bytes())
