"""The file between agent and limiter, of an agent and of an attacker."""

import json

import pytest

from koordlet.cli.limiter import feed, input_file
from koordlet.cli.limiter.input_file import Amounts, Refused
from tests.koordlet.cli.limiter import mid_pods

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
STATIC = "0123456789abcdef0123456789abcdef"


def content(uid=UID, version=1, **amounts):
    pods = {uid: {"midCpu": 500, "midMemory": 2**20, **amounts}}
    return json.dumps({"version": version, "atSeconds": 1.0, "pods": pods}).encode()


def test_what_an_agent_writes_is_read_again():
    pods = {UID: Amounts(500, 2**20), STATIC: Amounts(0, 1)}
    found = input_file.decoded(input_file.encoded(7.5, pods))
    assert (found.at_seconds, found.pods) == (7.5, pods)
    assert input_file.decoded(content()).pods == {UID: Amounts(500, 2**20)}


@pytest.mark.parametrize(
    "uid",
    ["", ".", "..", "../x", f"{UID}/..", f"/{UID}", f"{UID}\n", f"{UID}\0", UID.upper(), UID.replace("-", "_"),
     "kubepods", "\u0660" * 32, STATIC + "0", f"{UID[:-1]}é"],
)  # fmt: skip
def test_anything_but_a_uid_refuses_the_whole_file_and_is_never_written(uid):
    with pytest.raises(Refused):
        input_file.decoded(content(uid))
    assert input_file.decoded(input_file.encoded(1.0, {uid: Amounts(1, 1), UID: Amounts(2, 2)})).pods == {
        UID: Amounts(2, 2)
    }


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b'{"version": 1}',
        b" " * (input_file.MOST_BYTES + 1),
        content(version=2),
        content(midCpu=-1),
        content(midCpu=2**70),
        content(midCpu=0.5),
        content(midCpu="500"),
        content(midCpu=True),
        content(midMemory=None),
        content(midMemory=2**51),
        content(path="/etc"),
        content()[:-1] + b', "folder": "/"}',
        content().replace(b"1.0", b"NaN"),
        content().replace(b"1.0", b"1e999"),
        json.dumps(
            {"version": 1, "atSeconds": 1, "pods": {f"{i:032x}": {"midCpu": 1, "midMemory": 1} for i in range(1001)}}
        ).encode(),
    ],
)
def test_a_hostile_file_is_refused(hostile):
    with pytest.raises(Refused):
        input_file.decoded(hostile)


def test_a_full_node_fits_into_the_file():
    pods = {f"{i:08x}-0000-0000-0000-000000000000": Amounts(10**7, 2**50) for i in range(1200)}
    encoded = input_file.encoded(1e10, pods)
    assert len(encoded) < input_file.MOST_BYTES
    assert len(input_file.decoded(encoded).pods) == input_file.MOST_PODS


def test_the_agent_names_the_best_effort_pods_with_a_mid_priority():
    assert feed.amounts([mid_pods.pod()]) == {mid_pods.UID: Amounts(500, 64 * 2**20)}
    assert feed.amounts([mid_pods.pod(priority=9000)]) == {}
    assert feed.amounts([mid_pods.pod(priority=5000, label="koord-mid")]) == {}, "its author may write the label"
    assert feed.amounts([mid_pods.pod(native={"cpu": "500m"})]) == {}, "Burstable: its own limits hold"
    assert feed.amounts([mid_pods.pod(phase="Succeeded")]) == {}
    assert feed.amounts([mid_pods.pod(mid={})]) == {}


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [("kubernetes.io/mid-cpu", "500", Amounts(500, 0)), ("kubernetes.io/mid-memory", "64Mi", Amounts(0, 64 * 2**20))],
)
def test_a_pod_with_one_of_the_mid_resources_is_named_too(name, amount, expected):
    assert feed.amounts([mid_pods.pod(mid={name: amount})]) == {mid_pods.UID: expected}


def test_requests_count_and_not_the_limits_above_them():
    above = {"kubernetes.io/mid-cpu": "64000", "kubernetes.io/mid-memory": "1Ti"}
    assert feed.amounts([mid_pods.pod(limits=above)]) == {mid_pods.UID: Amounts(500, 64 * 2**20)}


def test_the_feed_writes_changes_at_once_and_refreshes_otherwise(tmp_path):
    file = tmp_path / "mid-pods.json"
    table, writer = mid_pods.table(mid_pods.pod()), feed.Feed(str(file))
    writer.write(table, 0.0, 100.0)
    assert input_file.decoded(file.read_bytes()).pods == {mid_pods.UID: Amounts(500, 64 * 2**20)}
    assert file.stat().st_mode & 0o777 == 0o644
    writer.write(table, 5.0, 105.0)
    assert input_file.decoded(file.read_bytes()).at_seconds == 100.0
    writer.write(table, 31.0, 131.0)
    assert input_file.decoded(file.read_bytes()).at_seconds == 131.0
    table.drop("jobs", "mid")
    writer.write(table, 32.0, 132.0)
    assert input_file.decoded(file.read_bytes()).pods == {}
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_the_feed_keeps_the_old_file_until_it_knows_all_pods_and_where_it_cannot_write(tmp_path, caplog):
    file = tmp_path / "mid-pods.json"
    feed.Feed(str(file)).write(mid_pods.table(mid_pods.pod(), synced=False), 0.0, 100.0)
    assert not file.exists()
    writer = feed.Feed(str(tmp_path / "missing" / "file"))
    for second in range(3):
        writer.write(mid_pods.table(mid_pods.pod()), second, second)
    assert len(caplog.records) == 1
    feed.Feed("").write(mid_pods.table(mid_pods.pod()), 0.0, 100.0)
