"""Prod over a day: Deployments that scale between night and day, the same for the same seed."""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple

from e2e.autoscaler import karpenter

STEPS: Final = 48
"""Changes of the replicas in a day: one each half hour."""
NIGHT_SHARE: Final = 0.3
_PEAK_SHARE: Final = 0.85  # of the nodes' cores: pods of several sizes do not fill a node
_CORES: Final = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


class Wave(NamedTuple):
    """One Deployment, with its most replicas; its peak is later than midday by a share of the day."""

    name: str
    cores: float
    most: int
    later: float


def waves(nodes: int, seed: int) -> list[Wave]:
    """Return Deployments that fill about so many nodes at midday."""
    chance = random.Random(seed)
    share = nodes * karpenter.NODE_CORES * _PEAK_SHARE / len(_CORES)
    return [
        Wave(f"prod-{index}", cores, max(round(share / cores), 1), chance.uniform(-0.06, 0.06))
        for index, cores in enumerate(_CORES)
    ]


def replicas(wave: Wave, step: int, seed: int) -> int:
    """Return the replicas in a step, the first of which is at midnight: a wave, and 5 % of chance."""
    height = (1 - math.cos(2 * math.pi * (step / STEPS - wave.later))) / 2
    wanted = wave.most * (NIGHT_SHARE + (1 - NIGHT_SHARE) * height)
    return max(round(wanted * random.Random(f"{seed} {wave.name} {step}").uniform(0.95, 1.05)), 1)
