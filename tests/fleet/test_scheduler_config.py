"""What is read of the scheduler plugin's configuration is what the plugin itself reads."""

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet import scheduler_config
from fleet.node_state import UNKNOWN, Amounts
from fleet.scheduler_config import SchedulerConfig
from scheduler_plugin.config import loader
from scheduler_plugin.plugins import registry

OWN = "{name: LoadAwareScheduling}"
QUOTA = {"cpu": "20", "memory": "64Gi"}
PROFILE = {
    "pluginConfig": [
        {"name": "MidGuard", "args": {"defaultQuota": QUOTA}},
        {"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 50}}},
    ]
}


def of_plugin(document):
    """Return the same of the configuration that the plugin makes of a document. Raises InvalidConfiguration."""
    found = loader.parse(document)
    thresholds = found.args["LoadAwareScheduling"].usage_thresholds
    limits = {item: thresholds[item] for item in ("cpu", "memory") if thresholds.get(item)}
    quotas = found.args.get("MidGuard")
    return SchedulerConfig(
        Amounts(*quotas.quota()) if quotas else UNKNOWN,
        limits if "LoadAwareScheduling" in found.filters else {},
        quotas.namespace_quotas if quotas else True,
    )


@pytest.mark.parametrize(
    "document",
    [
        PROFILE,
        {"profiles": [PROFILE]},
        {"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "koord-scheduler", **PROFILE}]},
    ],
)
def test_it_is_what_the_plugin_reads(document):
    found = scheduler_config.read(yaml.safe_dump(document))
    assert found == (Amounts(20_000, 64 * 2**30), {"cpu": 50}, True)
    assert found == of_plugin(document)


@pytest.mark.parametrize(
    ("args", "counts"), [({}, True), ({"namespaceQuotas": True}, True), ({"namespaceQuotas": False}, False)]
)
def test_whether_annotations_count_is_what_the_plugin_reads(args, counts):
    document = {"pluginConfig": [{"name": "MidGuard", "args": args}]}
    found = scheduler_config.read(yaml.safe_dump(document))
    assert found == of_plugin(document)
    assert found.namespace_quotas is counts


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("plugins: {}", 65),
        ("plugins: {score: {disabled: [{name: '*'}]}}", 65),
        ("plugins: {filter: {disabled: [{name: '*'}]}}", None),
        ("plugins: {filter: {disabled: [{name: '*'}], enabled: [{name: LoadAwareScheduling}]}}", 65),
        ("plugins: {score: {enabled: [{name: LoadAwareScheduling}]}}", None),
        (f"plugins: {{multiPoint: {{enabled: [{OWN}]}}}}", 65),
        (f"plugins: {{multiPoint: {{enabled: [{OWN}]}}, filter: {{disabled: [{OWN}]}}}}", None),
        ("pluginConfig: [{name: LoadAwareScheduling, args: {usageThresholds: {cpu: 0}}}]", None),
        ("pluginConfig: [{name: LoadAwareScheduling, args: {usageThresholds: {memory: 80}}}]", None),
    ],
)
def test_the_limit_is_that_of_the_filter(text, limit):
    assert scheduler_config.read(text).usage_limits.get("cpu") == limit
    assert of_plugin(yaml.safe_load(text)).usage_limits.get("cpu") == limit


@pytest.mark.parametrize(
    "text",
    ["", "{", "a", "[]", "pluginConfig: 3", "pluginConfig: [3]", "profiles: 3", "&a [*a]", "plugins: 3",
     "pluginConfig: [{name: MidGuard, args: {defaultQuota: {cpu: many}}}]",
     "pluginConfig: [{name: LoadAwareScheduling, args: {usageThresholds: {cpu: many}}}]"],
)  # fmt: skip
def test_of_a_wrong_document_nothing_is_known(text):
    assert scheduler_config.read(text) == SchedulerConfig()


NAMES = st.sampled_from(["LoadAwareScheduling", "MidGuard", "Peaks", "NodeAffinity"])
PERCENTS = st.none() | st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(-1, 101))
ENTRIES = st.lists(st.fixed_dictionaries({"name": NAMES | st.just("*")}), max_size=2)
POINTS = st.sampled_from(["filter", "score", "multiPoint", "preFilter"])
LISTS = st.none() | st.dictionaries(st.sampled_from(["enabled", "disabled"]), ENTRIES)
ARGS = st.fixed_dictionaries({"name": st.just("LoadAwareScheduling"), "args": st.fixed_dictionaries({"usageThresholds": PERCENTS})})  # fmt: skip  # noqa: E501
PROFILES = st.fixed_dictionaries(
    {}, optional={"plugins": st.dictionaries(POINTS, LISTS, max_size=3), "pluginConfig": st.lists(ARGS, max_size=1)}
)


@given(PROFILES | st.fixed_dictionaries({"profiles": st.lists(PROFILES, max_size=2)}))
def test_whatever_the_plugin_accepts_is_read_in_the_same_way(document):
    found = scheduler_config.read(yaml.safe_dump(document))
    with contextlib.suppress(loader.InvalidConfiguration):
        assert found == of_plugin(document)


KEYS = st.sampled_from(["profiles", "pluginConfig", "plugins", "filter", "enabled", "name", "args", "defaultQuota"])
DOCUMENTS = st.recursive(
    st.none() | st.text(max_size=3) | st.integers(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=3),
)


@given(DOCUMENTS)
def test_no_document_is_an_error(document):
    scheduler_config.read(yaml.safe_dump(document))


def test_every_plugin_is_known():
    assert registry.SPELLINGS.keys() == scheduler_config.PLUGINS
