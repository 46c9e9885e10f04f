"""What is read of the suite in its namespace: its workloads, the leader of the manager, and the versions."""

from api_types.kubernetes import times
from fleet.reading import Reader
from tests.fakes import apiserver
from tests.fleet import cluster
from tests.fleet.test_reading import NOW

NAMESPACE = "/apis/apps/v1/namespaces/suite"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/suite/leases/suite-koord-manager"
RENEWED = "2026-11-21T10:00:25Z"


async def installation(**spec):
    """Read an installation without a scheduler, whose Lease has this spec."""
    async with apiserver.running() as server, server.session() as api:
        for path, document in (
            (f"{NAMESPACE}/daemonsets?app.kubernetes.io/name=koordlet", cluster.installed("koordlet", "0.1.0", 3, 2)),
            (
                f"{NAMESPACE}/deployments?app.kubernetes.io/name=koord-manager",
                cluster.installed("suite-koord-manager", "0.2.0"),
            ),
            (LEASE, {"metadata": {"name": "suite-koord-manager"}, "spec": spec}),
            ("/version", {"gitVersion": "v1.34.4"}),
        ):
            server.on("GET", path, apiserver.Answer(document))
        reader = Reader(api, NOW)
        return await reader.installation("suite"), reader.unread


async def test_an_installation_has_its_workloads_by_label_its_leader_and_the_version_of_kubernetes():
    found, unread = await installation(holderIdentity="koord-manager-1", renewTime=RENEWED)
    assert {name: (each.ready, each.wanted) for name, each in found.workloads.items()} == {
        "koordlet": (2, 3), "koord-manager": (2, 2),
    }  # fmt: skip
    assert found.versions() == {"koordlet": "0.1.0", "koord-manager": "0.2.0"}
    assert (found.leader, found.renewed) == ("koord-manager-1", times.parse_rfc3339(RENEWED))
    assert (found.kubernetes, found.namespace, found.config_map) == ("1.34.4", "suite", "slo-controller-config")
    assert not any(each.is_right for each in unread)


async def test_a_lease_without_a_holder_names_no_leader():
    found, _ = await installation()
    assert (found.leader, found.renewed) == ("", None)
