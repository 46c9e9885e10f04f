"""States of package predictors in the checkpoint: a JSON object of base64 texts, each valid or lost on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from koordlet.prediction.packages.guard import MOST_STATE_BYTES

MOST_TOTAL_BYTES: Final = 4 * MOST_STATE_BYTES


def encode(states: Mapping[str, bytes]) -> tuple[bytes, list[str]]:
    """Return the JSON of the states, and the names of those that are left out because all together are too large."""
    kept: dict[str, bytes] = {}
    left_out = []
    for name, state in states.items():
        if sum(map(len, kept.values())) + len(state) > MOST_TOTAL_BYTES:
            left_out.append(name)
        else:
            kept[name] = state
    return msgspec.json.encode(kept), left_out


def decode(stored: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return the states, and a problem for each that cannot be read. Raises nothing."""
    try:
        found = msgspec.json.decode(stored, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return {}, [f"the states of all packages: {error}"]
    states, problems = {}, []
    for name, each in found.items():
        try:
            state = msgspec.json.decode(each, type=bytes)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            problems.append(f"the state of {name[:128]!r}: {error}")
            continue
        if len(state) > MOST_STATE_BYTES:
            problems.append(f"the state of {name[:128]!r} has {len(state)} bytes, want at most {MOST_STATE_BYTES}")
            continue
        states[name] = state
    return states, problems
