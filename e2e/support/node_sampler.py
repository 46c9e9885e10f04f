"""Lines of files of a node, read there several times a second, with the time of the node's clock.

One program of the node reads them all, and starts no other: system calls may be slow there, and commands much slower.
"""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import NamedTuple

from tools.localcluster import running

EVERY_SECONDS = 0.25
_LONGEST_SECONDS = 3600
"""A session that was killed leaves a program behind for this long at most."""


class Sample(NamedTuple):
    """A line of each file."""

    at_seconds: float
    lines: list[str]


class NodeSampler:
    """Reads until it is closed, or a file is gone."""

    def __init__(self, node: str, *files: tuple[PurePosixPath | str, str]) -> None:
        """Begin to read of each file the first line that begins with a text."""
        self._node = node
        self._last: list[Sample] | None = None
        reads = "\n".join(
            f'while read -r line; do [[ $line == "{begin}"* ]] && break; done <"{file}" || exit; text+="|$line"'
            for file, begin in files
        )
        started = self._shell(f"""
folder=$(mktemp -d)
mkfifo "$folder/silence"
cat >"$folder/script" <<'end'
LC_ALL=C
exec 3<>"$1"
for ((count = 0; count < {math.ceil(_LONGEST_SECONDS / EVERY_SECONDS)}; count++)); do
text=$EPOCHREALTIME
{reads}
echo "$text"
read -rt {EVERY_SECONDS} -u 3
done
end
bash "$folder/script" "$folder/silence" </dev/null >"$folder/samples" 2>"$folder/errors" &
echo "$folder $!"
""")
        self._folder, self._pid = started.split()

    def samples(self) -> list[Sample]:
        """Return what was read so far."""
        return self._last if self._last is not None else self._read("")

    def close(self) -> None:
        """Stop reading, and keep what was read."""
        if self._last is None:
            self._last = self._read(f"kill {self._pid} 2>/dev/null; trap 'rm -r {self._folder}' EXIT")

    def _read(self, before: str) -> list[Sample]:
        texts = self._shell(f"{before}\ncat {self._folder}/samples {self._folder}/errors").splitlines()
        samples = [text.split("|") for text in texts if text[:1].isdigit()]
        if not samples:
            raise LookupError(f"node {self._node}: nothing is read: {' '.join(texts) or 'not begun'}")
        return [Sample(float(at), lines) for at, *lines in samples]

    def _shell(self, script: str) -> str:
        return running.provider().shell(self._node, script)


def now(node: str) -> float:
    """Return the time of the node's clock."""
    return float(running.provider().shell(node, "date +%s.%N"))
