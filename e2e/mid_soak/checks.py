"""What suppression and eviction must never do, checked on their records. Pure; times are seconds since 1970."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

MOST_PATCHES, PATCH_WINDOW_SECONDS = 20, 60.0
IN_FLIGHT_SECONDS = 2.0
"""Time for which a binding may still follow an eviction: kube-scheduler had decided before it."""
MOST_RATIO = 0.6


class Closed(NamedTuple):
    """A time in which the node had the eviction annotation."""

    since: float
    until: float
    """When the annotation was gone, infinite at the end of the run."""


class Pair(NamedTuple):
    """99th percentiles of the Prod service in microseconds, one after the other."""

    beside_mid: float
    beside_peer: float


def void_problems(seen: Mapping[str, int], least: Mapping[str, int]) -> Iterator[str]:
    """Yield a problem for each count that is so small that the run shows nothing of it."""
    for name, want in least.items():
        if seen[name] < want:
            yield f"the run shows too little: {name}: {seen[name]}, want at least {want}"


def most_within(times: Sequence[float], window_seconds: float = PATCH_WINDOW_SECONDS) -> int:
    """Return the largest number of times within any window of that length."""
    most, begin = 0, 0
    ordered = sorted(times)
    for end, at in enumerate(ordered):
        while at - ordered[begin] >= window_seconds:
            begin += 1
        most = max(most, end - begin + 1)
    return most


def patch_problems(patches: Sequence[float]) -> Iterator[str]:
    """Yield a problem if the agent sent more patches of pods than its budget."""
    most = most_within(patches)
    if most > MOST_PATCHES:
        yield f"{most} patches of pods within a minute, want at most {MOST_PATCHES}"


def rate_problems(evictions: Sequence[float], interval_seconds: float) -> Iterator[str]:
    """Yield each pair of evictions on the node that is closer than its interval."""
    for first, second in itertools.pairwise(evictions):
        if second - first < interval_seconds:
            yield f"two evictions within {second - first:.0f} s, want at least {interval_seconds:.0f}"


def loop_problems(
    evictions: Sequence[float], closed: Sequence[Closed], bindings: Mapping[str, float], readmit_seconds: float
) -> Iterator[str]:
    """Yield each Mid pod that came to a closed node, and each node that opened too early or never closed."""
    for at in evictions:
        if not any(each.since - IN_FLIGHT_SECONDS <= at <= each.until for each in closed):
            yield f"an eviction at {at:.0f} did not close the node"
    for each in closed:
        last = max((at for at in evictions if at <= each.until), default=each.since)
        if each.until - last < readmit_seconds:
            yield f"the node opened {each.until - last:.0f} s after an eviction, want at least {readmit_seconds:.0f}"
        for pod, bound in bindings.items():
            if each.since + IN_FLIGHT_SECONDS < bound < each.until:
                yield f"{pod} came to the node {bound - each.since:.0f} s after it was closed"


def valid_pairs(pairs: Sequence[Pair], least_peer_micros: float) -> Sequence[Pair]:
    """Return the pairs in which the peer filled the machine."""
    return [each for each in pairs if each.beside_peer >= least_peer_micros]


def ratio(pairs: Sequence[Pair], least_peer_micros: float) -> float | None:
    """Return the median of the ratios of the valid pairs; None where there is none."""
    ratios = [each.beside_mid / each.beside_peer for each in valid_pairs(pairs, least_peer_micros)]
    return statistics.median(ratios) if ratios else None


def latency_problems(pairs: Sequence[Pair], least_peer_micros: float) -> Iterator[str]:
    """Yield a problem if the service waits too long beside Mid."""
    seen = ratio(pairs, least_peer_micros)
    if seen is not None and seen > MOST_RATIO:
        yield f"p99 of Prod beside Mid is {seen:.2f} of that beside a peer, want {MOST_RATIO}"
