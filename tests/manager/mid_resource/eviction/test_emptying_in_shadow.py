"""No node is emptied, or named as one to be emptied, where nothing is published."""

import pytest

from tests.manager.mid_resource.eviction.test_mid_only_nodes import AT_ONCE, PLENTY, start


@pytest.mark.parametrize(("publish", "is_named"), [("shadow", False), ("node", True)])
async def test_a_node_in_shadow_is_not_advised_to_be_emptied(short, publish, is_named):
    advises = {"enable": True, "midPublish": publish, "midEviction": {**AT_ONCE["midEviction"], "mode": "advise"}}
    await start(short, advises)
    await short.minutes(3, per_round=20, **PLENTY)
    assert ("MidOnlyNode" in short.reasons()) is is_named
    assert (short.evicted, short.annotation()) == ([], None)


async def test_a_node_where_colocation_was_disabled_is_not_one_that_waits(short):
    await start(short, AT_ONCE)
    await short.minutes(1, **PLENTY)

    def waiting():
        return short.world.telemetry.registry.get_sample_value("koord_manager_mid_only_nodes", {"state": "waiting"})

    assert waiting() == 1
    short.world.configure({**AT_ONCE, "enable": False})
    await short.world.config.refresh()
    await short.world.settle()
    assert waiting() == 0
