"""Cache of expensive results, under the hash of their inputs.

`.cache/<kind>/<digest>/` is either complete or absent: a build fills a temporary folder beside it, then renames it. An
interrupted build leaves a temporary folder, which the next build of the same kind removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / ".cache"
KEPT_PER_KIND = 2  # the current one, and the previous one or that of another branch


def digest(*parts: str | bytes | Path) -> str:
    """Return the hash of texts and of files or folders (names and contents, without byte code), 16 hex digits.

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
    """Return the folder `.cache/<kind>/<key>`; when absent, `build` fills a temporary folder that is then renamed.

    Of several processes that want a folder of one kind, one builds and the others wait.
    """
    finished = ROOT / kind / key
    finished.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{finished.parent}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if finished.is_dir():
            os.utime(finished)
            return finished
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
