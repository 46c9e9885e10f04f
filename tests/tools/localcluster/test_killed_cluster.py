"""A cluster whose processes were all killed, with its checkout or without it: the next `up` removes what is left.

Runs in a network and a mount namespace of its own, so that nothing of this machine is touched.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.localcluster.providers import local

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))), reason="needs root, unshare and ip"
)

REPOSITORY = Path(local.__file__).parents[3]
SCENARIO = """
import shutil, subprocess, sys
from pathlib import Path
from tools.localcluster.host import leftovers, network
from tools.localcluster.layout import Layout
from tools.localcluster.providers.local import Local

top, checkout_is_gone = Path(sys.argv[1]), sys.argv[2] == "gone"
for folder in ("/var/lib", "/run"):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
killed, fresh = Layout(top / "killed", top / "run"), Layout(top / "fresh", top / "run")
Local(killed)._record_the_machine()
network.make_bridge()
if shutil.which("iptables"):  # not yet on a new machine
    subprocess.run(["iptables", "-N", "KUBE-SERVICES"], check=True)
volumes = killed.run / "volume"
volumes.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", volumes], check=True)
if checkout_is_gone:
    killed.machine_before.unlink()

Local(fresh)._record_the_machine()

assert "cni0" not in network.links(), network.links()
assert str(volumes) not in leftovers.mount_points()
assert not any("KUBE" in rule for rules in leftovers.observe().rules.values() for rule in rules)
assert fresh.machine_before.exists() and not killed.machine_before.exists()
assert fresh.state_record.read_text().strip() == str(fresh.state)
"""


@pytest.mark.parametrize("checkout", ["kept", "gone"])
def test_the_next_up_removes_what_a_killed_cluster_left(tmp_path: Path, checkout: str) -> None:
    ended = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", SCENARIO, str(tmp_path), checkout],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_link_of_another_cluster_is_named_with_the_way_out() -> None:
    script = (
        "from tools.localcluster.host import network; network.make_bridge(); network.require_free_subnet()"  # ours here
    )
    ended = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", script], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert "address 10.244.0.1 of cni0 lies in the pod network" in ended.stderr
    assert "ip link delete cni0" in ended.stderr
