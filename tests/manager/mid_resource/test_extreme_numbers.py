"""The smallest and the largest number of each key of `colocation-config`: nodes are still published and withdrawn."""

import json
import re

import pytest

from api_types.colocation import controller_config as slo
from api_types.colocation import document
from api_types.colocation.problem import refuses
from tests.manager.conftest import MID
from tests.manager.evictions import Short

NUMBERS = (0, 1, 5e-324, 1e308, 2**63 - 1)
"""Smallest and largest numbers that the decoder reads; where a key refuses one, its own limit is tried."""
BESIDE = {"enable": True, "midReclaimMode": "static", "midStaticCPUReservedPercent": 50, "midEmergency": "drain"}
"""Static mode, so that its percentages count, and a drain, which has a pace of its own."""


def extremes():
    """Return path and number for the smallest and largest accepted numbers of every key."""
    found = set()
    for key in slo.keys(slo.ColocationConfig):
        for number in NUMBERS if not key.path.startswith("nodeConfigs.") else ():
            problems = document.read_config(json.dumps(with_key({}, key.path, number))).problems
            if not refuses(problems):
                found.add((key.path, number))
            elif re.search("want (an integer|a number), ", wanted := str(problems[0])):
                found |= {(key.path, json.loads(limit)) for limit in re.findall(r"at (?:least|most) (\S+)", wanted)}
    return sorted(found)


def with_key(given, path, value):
    """Return the document with one more key."""
    parent, _, name = path.rpartition(".")
    return {**given, parent: {**given.get(parent, {}), name: value}} if parent else {**given, name: value}


@pytest.mark.parametrize(("path", "value"), extremes())
async def test_every_accepted_number_leaves_nodes_published_and_withdrawn(world, path, value):
    given = with_key(BESIDE, path, value)
    assert not refuses(document.read_config(json.dumps(given)).problems)
    short = await Short(world).start({"enable": True})
    short.add_pod("m0")
    await short.report(calculated=(8000, 10_000))
    assert world.mid_of() == (8000, 10_000)
    world.configure(given)
    await world.config.refresh()
    await short.report(calculated=(0, 0))
    await short.round()
    short.pass_seconds(3600)
    await world.settle()
    await short.round()
    assert len(world.mid_of()) in (0, len(MID))
    short.end_pods()
    world.configure({**given, "enable": False})
    await world.config.refresh()
    short.pass_seconds(3600)
    await world.settle()
    assert sum(world.mid_of()) == 0
