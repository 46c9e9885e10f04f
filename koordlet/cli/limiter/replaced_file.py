"""Replace a file as a whole, so that a reader and a killed writer leave either the old content or the new one."""

from __future__ import annotations

from pathlib import Path


def replace(file: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file beside it, with `mode` where given, and rename it. Raises OSError."""
    temporary = Path(f"{file}.new")
    temporary.write_bytes(content)
    if mode is not None:
        temporary.chmod(mode)
    temporary.replace(file)
