"""The default quota is that of the scheduler plugin; a document that the plugin refuses has none."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet import default_quota
from fleet.node_state import UNKNOWN, Amounts
from scheduler_plugin.config import loader

QUOTA = {"cpu": "20", "memory": "64Gi"}
PROFILE = {"pluginConfig": [{"name": "MidGuard", "args": {"defaultQuota": QUOTA}}]}


@pytest.mark.parametrize("document", [PROFILE, {"kind": "KubeSchedulerConfiguration", "profiles": [PROFILE]}])
def test_it_is_what_the_plugin_reads(document):
    found = default_quota.find(yaml.safe_dump(document))
    assert found == Amounts(20_000, 64 * 2**30)
    assert found == tuple(loader.parse(document).args["MidGuard"].quota())


@pytest.mark.parametrize(
    "text",
    ["", "{", "a", "[]", "pluginConfig: 3", "pluginConfig: [3]", "profiles: 3", "&a [*a]",
     "pluginConfig: [{name: MidGuard, args: {defaultQuota: {cpu: many}}}]", "pluginConfig: [{name: MidGuard}]"],
)  # fmt: skip
def test_without_a_valid_one_nothing_is_limited(text):
    assert default_quota.find(text) == UNKNOWN


KEYS = st.sampled_from(["profiles", "pluginConfig", "name", "args", "defaultQuota", "cpu"])
DOCUMENTS = st.recursive(
    st.none() | st.text(max_size=3) | st.integers(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=3),
)


@given(DOCUMENTS)
def test_no_document_is_an_error(document):
    default_quota.find(yaml.safe_dump(document))
