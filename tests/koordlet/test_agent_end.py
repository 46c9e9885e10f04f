"""The end of the agent: whatever ends it, the last checkpoint is written and every file is closed."""

import asyncio

import prometheus_client
import pytest

from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.prediction import checkpoint
from koordlet.prediction.checkpointer import FILE_NAME
from koordlet.samples import NODE, UsageSample
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost

NODE_NAME = "n1"


class UnexpectedAnswer(Exception):
    """Anything that a decoder did not expect."""


@pytest.fixture
def agent(tmp_path):
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    observer = node_observer.NodeObserver(tmp_path / "host", 100)
    settings = KoordletSettings(node_name=NODE_NAME, state_dir=str(tmp_path))
    made = Agent(settings, observer, prometheus_client.CollectorRegistry())
    made.observer.server.train(1.7e9, {NODE: UsageSample(1.0, 1e9)})
    made.checkpointer.restore = lambda: None  # the models are trained already
    made.closed = []
    close = observer.collector.close
    observer.collector.close = lambda: (made.closed.append(True), close())
    return made


async def fail(_api=None):
    await asyncio.sleep(0)
    raise UnexpectedAnswer


async def run_until_it_fails(agent):
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(20):
            await agent.run(None)
    assert caught.group_contains(UnexpectedAnswer)


@pytest.mark.parametrize("failing", ["a watch", "the checkpointer", "the tick loop"])
async def test_the_last_checkpoint_is_written_also_when_a_task_of_the_agent_fails(agent, tmp_path, failing):
    async def forever(_api):
        await asyncio.Event().wait()

    agent.view.watch = fail if failing == "a watch" else forever
    if failing == "the checkpointer":
        agent.checkpointer.run = fail
    if failing == "the tick loop":
        agent.checkpointer.handle_reset = lambda _request: (_ for _ in ()).throw(UnexpectedAnswer)
    await run_until_it_fails(agent)
    assert checkpoint.load(tmp_path / FILE_NAME, NODE_NAME).models.keys == (NODE,)
    assert agent.closed == [True]


async def test_a_last_checkpoint_that_fails_does_not_hide_why_the_agent_ends(agent, caplog):
    agent.view.watch = fail
    agent.checkpointer.save = fail
    await run_until_it_fails(agent)
    assert "the last checkpoint is not written" in caplog.text
    assert agent.closed == [True]


async def test_a_cancelled_agent_writes_its_last_checkpoint(agent, tmp_path):
    async def forever(_api):
        await asyncio.Event().wait()

    agent.view.watch = forever
    task = asyncio.create_task(agent.run(None))
    while not agent.counts.ticks:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checkpoint.load(tmp_path / FILE_NAME, NODE_NAME).models.keys == (NODE,)
