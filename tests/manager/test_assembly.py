"""What a whole look at a node says and does, over a cluster in memory."""

import pytest

from manager import assembly
from manager.cache.watch_health import WatchAges
from manager.metrics import WATCHED
from manager.settings import ManagerSettings
from tests.manager.conftest import allocated, amounts, worked_off


@pytest.fixture
async def parts(world):
    made = assembly.assemble(
        world.api, ManagerSettings(workers=1), world.telemetry, WatchAges(WATCHED, lambda: 0.0), clock=world.clock
    )
    world.picture = made.picture
    world.configure({"enable": True})
    world.add_node()
    await made.config.start()
    return made


async def look(world, parts, times=1):
    for _ in range(times):
        world.see()
        await parts.reconciler.reconcile("n1")
    world.see()


async def test_a_reservation_that_cannot_be_right_is_told_once_on_the_node_and_again_when_it_changes(world, parts):
    def annotate(text):
        world.server.patch("nodes", "n1", {"metadata": {"annotations": {"node.koordinator.sh/reservation": text}}})

    annotate("x")
    await look(world, parts, times=3)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 1
    annotate('{"reservedCPUs": "4-2"}')
    await look(world, parts, times=2)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 2
    annotate('{"reservedCPUs": "2-4"}')
    await look(world, parts)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 2


async def test_a_node_is_urgent_while_something_is_to_be_withdrawn_from_it_and_not_after(world, parts):
    await look(world, parts)
    assert not parts.reconciler.is_urgent("n1")
    world.report(allocated=allocated(mid_cpu=1), prodPeakMetric=amounts("2", "6k"))
    await look(world, parts)
    assert world.mid_of() == (6_000, 10_000)
    assert not parts.reconciler.is_urgent("n1")
    world.configure({"enable": False})
    await parts.config.refresh()
    assert parts.reconciler.is_urgent("n1")
    await look(world, parts)
    assert world.mid_of() == ()
    assert not parts.reconciler.is_urgent("n1")
    assert not parts.reconciler.is_urgent("unknown")


async def test_a_withdrawal_is_written_before_the_rises_that_wait(world, parts):
    names = [f"n{number}" for number in range(1, 9)]
    for name in names[1:]:
        world.add_node(name, labels={"pool": name})
    world.see()
    for name in names:
        await parts.reconciler.reconcile(name)
    world.report("n8", allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    world.see()
    await parts.reconciler.reconcile("n8")
    assert world.mid_of("n8") == (6_000, 10_000)
    for name in names[:-1]:
        world.report(name, allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    off = {"name": "off", "nodeSelector": {"matchLabels": {"pool": "n8"}}, "enable": False}
    world.configure({"enable": True, "nodeConfigs": [off]})
    world.see()
    await parts.config.refresh()  # marks all
    writes = len(world.server.writes)
    await worked_off(parts.queue)
    written = [path for _, path, _ in world.server.writes[writes:] if path.endswith("/status")]
    assert written[0] == "/api/v1/nodes/n8/status"
    assert len(written) == 8
