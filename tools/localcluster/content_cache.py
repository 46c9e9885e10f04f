"""Results that cost minutes, kept under the hash of what they are made from.

`.cache/<kind>/<digest>/` is either complete or absent: work happens in a temporary folder beside it, and a rename ends
it. An interrupted build leaves a temporary folder that the next build of the same kind removes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / ".cache"
KEPT_PER_KIND = 2  # the current one, and the one before or of another branch


def digest(*parts: str | bytes | Path) -> str:
    """Hash of texts and of files or folders (their names and contents; byte-code aside), 16 hex digits.

    A path that does not exist counts as absent, which differs from empty.
    """
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in sorted(_files_of(part)):
                total.update(f"file {file.relative_to(part.parent)} ".encode())
                total.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            total.update(b"text ")
            total.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return total.hexdigest()[:16]


def _files_of(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]


def folder(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder `.cache/<kind>/<key>`; when absent, `build` fills a temporary folder that then takes its place."""
    finished = ROOT / kind / key
    if finished.is_dir():
        os.utime(finished)
        return finished
    finished.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in finished.parent.glob(f".{key}-*"):
        shutil.rmtree(abandoned)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=finished.parent))
    try:
        build(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(finished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _prune(finished.parent)
    return finished


def _prune(kind: Path) -> None:
    by_last_use = sorted((entry for entry in kind.iterdir() if not entry.name.startswith(".")), key=_last_use)
    for stale in by_last_use[:-KEPT_PER_KIND]:
        shutil.rmtree(stale, ignore_errors=True)


def _last_use(entry: Path) -> float:
    return entry.stat().st_mtime
