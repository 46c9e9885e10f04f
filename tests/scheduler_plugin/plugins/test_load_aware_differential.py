"""The extender's answers over whole random clusters, against the plain reference: the same reasons, equal scores."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types import pods
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.plugins import load_aware_reference as reference
from tests.scheduler_plugin.plugins.random_clusters import RandomCluster


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
    return {"cpu": f"{vector.get('cpu', 0)}m", "memory": str(vector.get("memory", 0))}


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
        document = pod_document(
            pod.name, pod, uid=f"{name}-{pod.name}", node=name, scheduled=pod.timestamp - NOW, namespace=name
        )
        cluster.pod_changed(msgspec.convert(document, pods.Pod), NOW)
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
            factories.reported(pod, *quantities(vector).values(), "koord-prod" if is_prod else "koord-mid", name)
            for pod, (vector, is_prod) in report.pods.items()
        ],
    )


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**64))
def test_reasons_and_scores_are_those_of_the_reference(seed):
    drawn = RandomCluster(seed)
    args = drawn.arguments()
    parts = factories.parts(as_args(args))
    by_name = {name: drawn.host() for name in ("n1", "n2", "n3")}
    for name, host in by_name.items():
        feed(parts.cluster, name, host)
    pod, now = drawn.incoming(), NOW
    for index in range(3):
        document = pod_document(f"new-{index}", pod, owner_kind="DaemonSet" if pod.is_daemon else None)
        for name, host in by_name.items():
            reason, score = one_node(parts, document, name, now)
            assert reason == reference.rejection(args, host, pod, now)
            assert score == reference.score(args, host, pod, now)
        # A change between two pods of one class, so that kept answers are brought up to date, not computed anew.
        changed = drawn.random.choice(sorted(by_name))
        by_name[changed] = drawn.host()
        replace(parts.cluster, changed, by_name[changed])
        now += drawn.random.choice([0, 0, 1, 30, 150])
        pod = drawn.incoming() if drawn.one_in(3) else pod


def replace(cluster, name, host):
    cluster.metric_deleted(name)
    for held in list(cluster.entries[name].load.pods):
        cluster.pod_deleted(held)
    feed(cluster, name, host)


def one_node(parts, document, name, now):
    body = factories.request(document, [name])
    answer = json.loads(parts.extender.filter(body, now))
    reason = (answer.get("FailedAndUnresolvableNodes") or {}).get(name)
    assert (reason is None) == (answer["NodeNames"] == [name])
    return reason, json.loads(parts.extender.prioritize(body, now))[0]["Score"]
