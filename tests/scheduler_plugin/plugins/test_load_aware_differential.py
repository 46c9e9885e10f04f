"""The extender's answers over whole random clusters, against the plain reference: the same reasons, equal scores."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.plugins import load_aware_reference as reference
from tests.scheduler_plugin.plugins.load_aware_reference import Host, Incoming, Report, Running

RESOURCES = ["cpu", "memory"]
POD_NAMES = ["a", "b", "c"]
STATISTICS = ["avg", "p95"]
amounts = st.integers(0, 1200) | st.sampled_from([0, 145, 155, 649, 650, 655, 1000])
vectors = st.fixed_dictionaries({"cpu": amounts, "memory": amounts})
percents = st.sampled_from([0, 14, 15, 60, 65, 66, 95, 100])
limits = st.dictionaries(st.sampled_from(RESOURCES), percents)


def block(minutes):
    given_limits = st.dictionaries(st.sampled_from(RESOURCES), percents, min_size=1)
    return st.fixed_dictionaries({"limits": given_limits, "type": st.sampled_from(STATISTICS), "minutes": minutes})


@st.composite
def arguments(draw):
    dominant = draw(st.sampled_from([0, 0, 7]))
    weights = draw(st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 100)))
    return {
        "resources": RESOURCES,
        "filterExpiredNodeMetrics": draw(st.booleans()),
        "enableScheduleWhenNodeMetricsExpired": draw(st.booleans()),
        "nodeMetricExpirationSeconds": draw(st.sampled_from([1, 180])),
        "resourceWeights": weights or ({} if dominant else {"cpu": 1, "memory": 1}),
        "dominantResourceWeight": dominant,
        "usageThresholds": draw(limits) or {"cpu": 65, "memory": 95},
        "prodUsageThresholds": draw(limits),
        "prodUsageIncludeSys": draw(st.booleans()),
        "scoreAccordingProdUsage": draw(st.booleans()),
        "aggregated": draw(st.none() | block(st.sampled_from([0, 5, 10]))),
        "scoreAggregation": draw(st.none() | st.tuples(st.sampled_from(STATISTICS), st.sampled_from([0, 5]))),
    }


reports = st.builds(
    Report,
    update_time=st.none() | st.sampled_from([-181, -180, -179, -60, 0, 30]).map(lambda age: NOW + age),
    interval=st.sampled_from([30, 60]),
    usage=st.none() | vectors,
    system=vectors,
    aggregated=st.dictionaries(st.tuples(st.sampled_from(STATISTICS), st.sampled_from([5, 10])), vectors, max_size=3),
    pods=st.dictionaries(st.sampled_from(POD_NAMES), st.tuples(vectors, st.booleans())),
)
running = st.lists(
    st.builds(
        Running,
        name=st.sampled_from(POD_NAMES),
        estimate=vectors,
        is_prod=st.booleans(),
        timestamp=st.sampled_from([-300, -90, -60, -59, 0]).map(lambda age: NOW + age),
    ),
    max_size=3,
    unique_by=lambda pod: pod.name,
)
customs = st.fixed_dictionaries(
    {}, optional={"plain": limits, "prod": limits, "aggregated": block(st.sampled_from([0, 5]))}
)
hosts = st.builds(
    Host,
    allocatable=st.fixed_dictionaries(
        {"cpu": st.sampled_from([0, 1000, 1001]), "memory": st.sampled_from([0, 997, 1000])}
    ),
    report=st.none() | reports,
    running=running,
    custom=customs,
)
incoming = st.builds(Incoming, estimate=vectors, is_prod=st.booleans(), is_daemon=st.sampled_from([False, False, True]))


def as_args(args):
    """Our arguments. Factors of 100 make an estimate what the pod requests."""
    document = {key: value for key, value in args.items() if key not in ("resources", "aggregated", "scoreAggregation")}
    document["estimatedScalingFactors"] = {"cpu": 100, "memory": 100}
    document["aggregated"] = {}
    if args["aggregated"]:
        document["aggregated"] |= {
            "usageThresholds": args["aggregated"]["limits"],
            "usageAggregationType": args["aggregated"]["type"],
            "usageAggregatedDuration": f"{args['aggregated']['minutes']}m",
        }
    if args["scoreAggregation"]:
        statistic, minutes = args["scoreAggregation"]
        document["aggregated"] |= {"scoreAggregationType": statistic, "scoreAggregatedDuration": f"{minutes}m0s"}
    return document


def quantities(vector):
    return {"cpu": f"{vector['cpu']}m", "memory": str(vector["memory"])}


def floored(vector, *, is_prod):
    """What the product estimates for such requests: without any, the floor of the class (Mid has none)."""
    return {r: vector[r] or ({"cpu": 250, "memory": 209715200}[r] if is_prod else 0) for r in vector}


def pod_document(name, pod, **more):
    requests = quantities(pod.estimate)
    if not pod.is_prod:
        requests = {"kubernetes.io/mid-cpu": str(pod.estimate["cpu"]), "kubernetes.io/mid-memory": requests["memory"]}
    return factories.pod_document(name, priority=9500 if pod.is_prod else 7500, requests=requests, **more)


def annotation(custom):
    document = {"usageThresholds": custom.get("plain"), "prodUsageThresholds": custom.get("prod")}
    if "aggregated" in custom:
        given_block = custom["aggregated"]
        document["aggregatedUsage"] = {
            "usageThresholds": given_block["limits"],
            "usageAggregationType": given_block["type"],
            "usageAggregatedDuration": f"{given_block['minutes']}m",
        }
    return json.dumps(document)


def feed(cluster, name, host):
    enough_mid = {"kubernetes.io/mid-cpu": "1M", "kubernetes.io/mid-memory": "1G"}
    allocatable = {**quantities(host.allocatable), **enough_mid}
    annotations = {"scheduling.koordinator.sh/usage-thresholds": annotation(host.custom)} if host.custom else {}
    cluster.node_changed(factories.node(name, annotations=annotations, **allocatable))
    for pod in host.running:
        document = pod_document(pod.name, pod, uid=f"{name}-{pod.name}", node=name, scheduled=pod.timestamp - NOW)
        cluster.pod_changed(factories.msgspec.convert(document, factories.pods.Pod), NOW)
    if host.report is not None:
        cluster.metric_changed(metric(name, host.report))


def metric(name, report):
    return factories.metric(
        name,
        usage=None if report.usage is None else quantities(report.usage),
        system=quantities(report.system),
        updated=None if report.update_time is None else report.update_time - NOW,
        interval=report.interval,
        aggregated=[
            {"duration": f"{minutes}m0s", "usage": {statistic: {"resources": quantities(vector)}}}
            for (statistic, minutes), vector in report.aggregated.items()
        ],
        pods_metric=[
            factories.reported(pod, *quantities(vector).values(), "koord-prod" if is_prod else "koord-mid")
            for pod, (vector, is_prod) in report.pods.items()
        ],
    )


def for_reference(host):
    """Without `status.nodeMetric` a report carries no aggregates and no system usage either."""
    if host.report is not None and host.report.usage is None:
        host.report.aggregated, host.report.system = {}, {}
    for pod in host.running:
        pod.estimate = floored(pod.estimate, is_prod=pod.is_prod)
    return host


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arguments(), st.tuples(hosts, hosts, hosts), st.tuples(incoming, incoming), st.data())
def test_reasons_and_scores_are_those_of_the_reference(args, cluster_hosts, incoming_pods, data):
    parts = factories.parts(as_args(args))
    by_name = {f"n{index}": host for index, host in enumerate(cluster_hosts)}
    for name, host in by_name.items():
        feed(parts.cluster, name, host)
    now = NOW
    for index, pod in enumerate(incoming_pods):
        document = pod_document(f"new-{index}", pod, owner_kind="DaemonSet" if pod.is_daemon else None)
        expected = Incoming(floored(pod.estimate, is_prod=pod.is_prod), pod.is_prod, pod.is_daemon)
        for name, host in by_name.items():
            reason, score = one_node(parts, document, name, now)
            assert reason == reference.rejection(args, for_reference(host), expected, now)
            assert score == reference.score(args, host, expected, now)
        # A change between two pods, so that kept answers are brought up to date rather than computed anew.
        changed = data.draw(st.sampled_from(sorted(by_name)))
        by_name[changed] = data.draw(hosts)
        parts.cluster.metric_deleted(changed)
        for held in list(parts.cluster.entries[changed].load.pods):
            parts.cluster.pod_deleted(held)
        feed(parts.cluster, changed, by_name[changed])
        now += data.draw(st.sampled_from([0, 1, 150]))


def one_node(parts, document, name, now):
    body = factories.request(document, [name])
    answer = json.loads(parts.extender.filter(body, now))
    reason = (answer.get("FailedAndUnresolvableNodes") or {}).get(name)
    assert (reason is None) == (answer["NodeNames"] == [name])
    return reason, json.loads(parts.extender.prioritize(body, now))[0]["Score"]
