"""The thread of the leader election."""

import threading

from manager.leader_election.runner import LeaderElection
from tests.fakes import cluster
from tests.manager.leader_election.test_runner import SETTINGS


async def test_it_keeps_no_process_alive_whose_main_thread_has_ended():
    async with cluster.running() as server:
        election = LeaderElection(server.connection(), SETTINGS, "a", lambda _role: None, die=lambda _code: None)
        election.start()
        assert [each.daemon for each in threading.enumerate() if each.name == "leader-election"] == [True]
        election.stop()
    assert not election.is_alive()
