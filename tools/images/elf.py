"""What the head of an ELF file states: its architecture, and the libraries that it needs."""

from __future__ import annotations

import struct

MACHINES = {62: "amd64", 183: "arm64"}
_DYNAMIC, _LOAD = 2, 1
_NEEDED, _STRINGS = 1, 5


def architecture(content: bytes) -> str | None:
    """Return the architecture of a file, None where it is no ELF file."""
    if not content.startswith(b"\x7fELF"):
        return None
    (machine,) = struct.unpack_from("<H", content, 18)
    return MACHINES.get(machine, f"machine {machine}")


def needed(content: bytes) -> list[str]:
    """Return the names of the libraries that a 64-bit ELF file needs."""
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", content, start + number * size) for number in range(count)]
    entries = [
        struct.unpack_from("<QQ", content, offset)
        for kind, _, begin, _, _, length, _, _ in segments
        if kind == _DYNAMIC
        for offset in range(begin, begin + length, 16)
    ]
    strings = next((value for tag, value in entries if tag == _STRINGS), 0)
    base = next((strings - address + begin for kind, _, begin, address, _, length, _, _ in segments
                 if kind == _LOAD and address <= strings < address + length), 0)  # fmt: skip
    names = [base + value for tag, value in entries if tag == _NEEDED]
    return [content[name : content.index(b"\0", name)].decode() for name in names]
