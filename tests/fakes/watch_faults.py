"""Answers to a watch after which it continues from where it was, and no list is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.fakes import apiserver

RESUMED: Final[Mapping[str, Sequence[Any]]] = {
    "the API server restarts": [apiserver.Stream(apiserver.ABORT)],
    "overload": [apiserver.status(429, "TooManyRequests"), apiserver.status(500, "InternalError")],
    "etcd restarts": [apiserver.status(500, "InternalError", "etcdserver: request timed out")],
    "a right is lost": [apiserver.status(403, "Forbidden", "cannot watch")],
    "the token ends": [apiserver.status(401, "Unauthorized")],
    "the peer is silent": [apiserver.Stream(apiserver.HANG)],
}
"""Fault -> the answers of a scripted apiserver (`tests.fakes.apiserver`), of which the last precedes the recovery.

Their tests use the fixture `short_silence`.
"""
SILENCE_SECONDS: Final = 1.5
"""Silence after which a watch is resumed in these tests: longer than the recovery from each other fault, 0.6 s."""
