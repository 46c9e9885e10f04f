import msgspec
import pytest

from api_types.mid_pods import cpu_limits
from api_types.mid_pods.cpu_limits import MidContainer

MID = "kubernetes.io/mid-cpu"
DEEP_KEY = 'k:{"name":' + "[" * 5000 + "]" * 5000 + "}"
LIMITED = {"f:resources": {"f:limits": {"f:cpu": {}}}}


def container(name="one", mid="1000", cpu="1", request="0", **more):
    limits = {key: value for key, value in ((MID, mid), ("cpu", cpu)) if value is not None}
    return {"name": name, "resources": {"limits": limits, "requests": {"cpu": request}}, **more}


def writer(name, *containers, listed="containers", subresource="resize"):
    """Return an entry of managedFields as the API server writes it."""
    limited = {f'k:{{"name":"{each}"}}': {"f:resources": {"f:limits": {"f:cpu": {}}}} for each in containers}
    return {"manager": name, "subresource": subresource, "fieldsV1": {"f:spec": {f"f:{listed}": limited}}}


def mid_pod(*containers, **more):
    return cpu_limits.resizable_pod(written_pod(*containers, **more))


def written_pod(*containers, writers=(), priority=7000, status=None, of_pod=None, **metadata):
    spec = {"priority": priority, "containers": list(containers), "resources": of_pod}
    if inits := [each for each in containers if each.pop("init", False)]:
        spec = {**spec, "containers": [each for each in containers if each not in inits], "initContainers": inits}
    document = {
        "metadata": {"resourceVersion": "7", "managedFields": list(writers), **metadata},
        "spec": spec,
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", **(status or {})},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=cpu_limits.WrittenPod)


def only(*containers, **more):
    (found,) = mid_pod(*containers, **more).containers
    return found


def test_mid_cpu_is_the_original_of_a_container():
    assert only(container()) == MidContainer("c0", "one", 1000, 10, 1000, 1000, 1000)


@pytest.mark.parametrize(("requested", "counted"), [("400", 400), ("0", 0), ("5k", 1000)])
def test_the_request_of_mid_cpu_counts_at_most_its_limit(requested, counted):
    """The API server takes a limit above the request, refuses one below it, and defaults a missing request to it."""
    given = container()
    given["resources"]["requests"][MID] = requested
    assert only(given).requested_millis == counted


@pytest.mark.parametrize(
    "writers",
    [
        [],
        [writer("kubectl", "one")],
        [writer("koordlet-of-another", "one")],
        [writer("koordlet", "other")],
        [writer("koordlet", "one", subresource="")],
        [writer("koordlet", "one", listed="initContainers")],
        [{"manager": "koordlet", "subresource": "resize", "fieldsV1": {"f:spec": [1]}}],
        [{"manager": "koordlet", "subresource": "resize", "fieldsV1": {"f:spec": {"f:containers": {"k:[": {}}}}}],
        [
            {
                "manager": "koordlet",
                "subresource": "resize",
                "fieldsV1": {"f:spec": {"f:containers": {DEEP_KEY: LIMITED}}},
            }
        ],
        [{"manager": "koordlet", "subresource": "resize"}],
        [{"manager": "koordlet", "subresource": "resize", "fieldsV1": msgspec.Raw(b'{"f:\xff":{}}')}],
    ],
)
def test_a_limit_of_another_writer_is_the_original(writers):
    assert only(container(cpu="300m"), writers=writers).original_millis == 300


def test_the_stricter_limit_of_an_author_is_restored_and_not_exceeded():
    """Written, lowered, and read back by an agent that never saw the pod before."""
    before = only(container(cpu="300m"))
    name = cpu_limits.field_manager([before])
    assert name == "koordlet,c0=300"
    assert only(container(cpu="50m"), writers=[writer(name, "one")]).original_millis == 300


def test_an_author_who_changes_a_lowered_limit_gets_that_limit():
    """The API server then states the author as its writer, and the agent for the other container only."""
    found = mid_pod(
        container(cpu="20m"),
        container("two", "500", "50m"),
        writers=[writer("kubectl", "one"), writer("koordlet", "two")],
    )
    assert [each.original_millis for each in found.containers] == [20, 500]


@pytest.mark.parametrize("text", ["", "x", "-5", "99999999999999999999999999", "²"])
def test_a_forged_original_is_at_most_mid_cpu_and_at_least_the_limit(text):
    found = only(container(cpu="300m"), writers=[writer(f"koordlet,c0={text}", "one")])
    assert 300 <= found.original_millis <= 1000


def test_the_name_of_the_writer_has_room_for_as_many_originals_as_it_may_have_characters():
    containers = [MidContainer(f"c{index}", "x", 10_000, 10, 9_999, 9_999, 10_000) for index in range(40)]
    assert 100 < len(cpu_limits.field_manager(containers)) <= 128


def test_containers_without_mid_cpu_or_limit_are_left_alone():
    found = mid_pod(container(), container("two", mid=None), container("three", cpu=None), container("four", mid="0"))
    assert [each.name for each in found.containers] == ["one"]
    assert found.unlimited.startswith("a container without limits of cpu")
    assert mid_pod(container()).unlimited == ""


@pytest.mark.parametrize("cpu", ["0", "0m", "9"])
def test_a_limit_of_zero_means_unlimited_and_is_above_mid_cpu_like_a_larger_one(cpu):
    found = only(container(cpu=cpu), status={"qosClass": "Burstable"})
    assert found.limit_millis > found.original_millis == 1000
    assert found.floor_millis == 10
    assert not mid_pod(container(cpu=cpu), status={"qosClass": "Burstable"}).is_lowered


def test_a_best_effort_pod_gets_no_limit_as_its_qos_class_must_not_change():
    assert mid_pod(container(cpu="0")).containers == ()
    result = mid_pod(container(cpu="0"), status={"qosClass": "BestEffort"})
    assert (result.containers, result.unlimited) == ((), "BestEffort")


def test_a_container_that_restarts_when_its_cpu_is_resized_is_left_alone():
    def asked(name, **policies):
        listed = [{"resourceName": each, "restartPolicy": policy} for each, policy in policies.items()]
        return container(name, resizePolicy=listed)

    found = mid_pod(
        asked("one", cpu="RestartContainer", memory="NotRequired"),
        asked("two", cpu="NotRequired", memory="RestartContainer"),
        asked("side", cpu="RestartContainer") | {"init": True, "restartPolicy": "Always"},
        asked("three"),
    )
    assert [each.name for each in found.containers] == ["two", "three"]
    assert "restarts at a new limit" in found.unlimited


def test_sidecars_are_resized_and_other_init_containers_are_not():
    found = mid_pod(
        container(),
        container("init", init=True),
        container("side", cpu="40m", init=True, restartPolicy="Always"),
        writers=[writer("koordlet", "side", listed="initContainers")],
    )
    assert [(each.key, each.is_sidecar, each.original_millis) for each in found.containers] == [
        ("c0", False, 1000),
        ("i1", True, 1000),
    ]


@pytest.mark.parametrize(
    ("of_pod", "resized"),
    [
        (None, 1),
        ({}, 1),
        ({"limits": {}, "requests": {}}, 1),
        ({"limits": {"cpu": "1"}}, 0),
        ({"requests": {"cpu": "1"}}, 0),
    ],
)
def test_the_api_server_resizes_no_pod_with_amounts_of_the_pod_as_a_whole(of_pod, resized):
    """An empty field is none: it exempts no pod from suppression."""
    result = mid_pod(container(), of_pod=of_pod)
    assert (len(result.containers), bool(result.unlimited)) == (resized, not resized)


@pytest.mark.parametrize(("cpu_request", "floor"), [("0", 10), ("5m", 10), ("100m", 101)])
def test_limits_stay_above_requests_as_the_qos_class_must_not_change(cpu_request, floor):
    result = mid_pod(container(request=cpu_request))
    assert result.containers[0].floor_millis == floor
    assert result.unlimited == ("native requests of cpu" if floor > 10 else "")


@pytest.mark.parametrize(("mid", "cpu", "cpu_request"), [("5", "5m", "0"), ("1000", "1", "1")])
def test_a_container_that_cannot_be_lowered_has_its_limit_as_floor(mid, cpu, cpu_request):
    found = only(container(mid=mid, cpu=cpu, request=cpu_request))
    assert found.floor_millis == found.limit_millis


@pytest.mark.parametrize("priority", [None, 9000, 5000, 6999, 8000])
def test_labels_make_no_pod_mid(priority):
    assert mid_pod(container(), priority=priority, labels={"koordinator.sh/priority-class": "koord-mid"}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"status": {"startTime": None}},
        {"status": {"phase": "Succeeded"}},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
    ],
)
def test_pods_that_do_not_run_and_static_pods_are_not_resized(more):
    assert mid_pod(container(), **more).containers == ()


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (("PodResizePending", "Infeasible", "True"), "Infeasible"),
        (("PodResizePending", "Deferred", "True"), "Deferred"),
        (("PodResizeInProgress", "Error", "True"), "Error"),
        (("PodResizeInProgress", "", "True"), ""),
        (("PodResizePending", "Infeasible", "False"), ""),
    ],
)
def test_the_reason_of_a_resize_that_is_not_done(condition, problem):
    fields = dict(zip(("type", "reason", "status"), condition, strict=True))
    assert mid_pod(container(), status={"conditions": [fields]}).resize_problem == problem


@pytest.mark.parametrize(
    ("running", "condition", "in_force"),
    [
        ([("one", "1"), ("side", "1000m")], {}, True),
        ([("one", "300m"), ("side", "1")], {}, False),
        ([("one", "1"), ("side", "300m")], {}, False),
        ([("one", "300m")], {"type": "PodResizePending", "status": "True", "reason": "Deferred"}, False),
        ([("one", "300m")], {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}, True),
        ([("one", "0")], {}, False),
        ([("one", None)], {}, True),
        ([], {}, True),
    ],
)
def test_limits_are_in_force_once_every_container_runs_with_its_own(running, condition, in_force):
    statuses = [
        {"name": name} | ({"resources": {"limits": {"cpu": limit}}} if limit else {}) for name, limit in running
    ]
    status = {
        "containerStatuses": [each for each in statuses if each["name"] != "side"],
        "initContainerStatuses": [each for each in statuses if each["name"] == "side"],
        "conditions": [condition] if condition else [],
    }
    pod = written_pod(container(), container("side", init=True, restartPolicy="Always"), status=status)
    assert cpu_limits.is_in_force(pod) is in_force


UPDATED = "Pod resources updated by web: container 0: "


@pytest.mark.parametrize(
    ("annotations", "autoscaler"),
    [
        ({}, ""),
        ({"vpaUpdates": UPDATED + "cpu request, memory request"}, "VerticalPodAutoscaler shop/web"),
        ({"vpaUpdates": UPDATED + "memory request"}, ""),
        ({"vpaUpdates": UPDATED + "memory request", "vpaInPlaceUpdated": "true"}, ""),
        (
            {"vpaUpdates": "Pod resources updated by web: ", "vpaInPlaceUpdated": "true"},
            "VerticalPodAutoscaler shop/web",
        ),
        ({"vpaInPlaceUpdated": "true"}, "a VerticalPodAutoscaler"),
        ({"vpaInPlaceUpdated": "false"}, ""),
        ({"vpaObservedContainers": "one"}, ""),
        ({"vpaUpdates": f"Pod resources updated by {'x' * 300}: container 0: cpu request"}, ""),
        ({"vpaUpdates": "Pod resources updated by WEB\nlog line: container 0: cpu request"}, ""),
    ],
)
def test_an_autoscaler_of_cpu_is_known_by_its_annotations(annotations, autoscaler):
    assert mid_pod(container(), namespace="shop", annotations=annotations).autoscaler == autoscaler


def test_a_patch_names_the_version_of_the_pod_and_the_limits_of_the_chosen_containers():
    sidecar = container("proxy", init=True, restartPolicy="Always")
    found = mid_pod(container("web"), container("logs"), sidecar)
    assert cpu_limits.patch("u1", found, {"c1": 250, "i0": 1000}) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "spec": {
            "containers": [{"name": "logs", "resources": {"limits": {"cpu": "250m"}}}],
            "initContainers": [{"name": "proxy", "resources": {"limits": {"cpu": "1"}}}],
        },
    }


def test_a_pod_is_lowered_with_one_of_its_containers_and_its_original_is_known():
    found = mid_pod(container("web"), container("logs", cpu="300m"), writers=[writer("koordlet", "logs")])
    assert found.is_lowered
    assert found.originals() == {"c1": 1000}
    untouched = mid_pod(container("web"), container("logs"))
    assert not untouched.is_lowered
    assert untouched.originals() == {}


def test_the_quota_that_refuses_a_resize_is_named():
    refused = 'pods "web" is forbidden: exceeded quota: team-a, requested: limits.cpu=1, used: limits.cpu=9'
    assert cpu_limits.refusing_quota(refused) == "team-a"
    assert cpu_limits.refusing_quota("node has no room") == ""
