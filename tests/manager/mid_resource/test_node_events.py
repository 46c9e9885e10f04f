"""An Event about a node names the values that it has from now on."""

import datetime as dt

from tests.manager.conftest import allocated, amounts

VALUES = "kubernetes.io/mid-cpu {}, kubernetes.io/mid-memory {}"


async def test_an_event_names_the_published_values_and_that_there_are_none(world):
    world.configure({"enable": True})
    await world.config.start()
    world.add_node()
    await world.settle()
    known = {"allocated": allocated(), "prodPeakMetric": amounts("2", "6k")}
    world.report(seconds_ago=5, **known)
    await world.settle()
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    about_node = [each for each in world.server.all("events") if each["involvedObject"]["name"] == "n1"]
    assert [(each["type"], each["message"].rpartition(": ")[2]) for each in about_node] == [
        ("Normal", VALUES.format(6000, 10000)),
        ("Warning", VALUES.format("none", "none")),
    ]
