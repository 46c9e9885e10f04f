"""Names of recorded pods, and files of one object or of several documents."""

import json

import numpy as np
import yaml

from scheduler_plugin.simulation import recording
from tests.scheduler_plugin.factories import pod_document
from tests.scheduler_plugin.simulation.test_recorded_cluster import by_name, node, scenario


def test_a_pod_keeps_its_namespace_and_is_in_default_without_one():
    bare = pod_document("bare")
    del bare["metadata"]["namespace"]
    usage = {"shop/web": np.array([[1.0], [2.0]]), "default/bare": np.array([[3.0], [4.0]])}
    made = by_name(scenario([pod_document("web", namespace="shop"), bare], usage=usage))
    assert {name: each.pod.metadata.namespace for name, each in made.items()} == {"web": "shop", "bare": "default"}
    assert {name: each.usage.tolist() for name, each in made.items()} == {"web": [[1], [2]], "bare": [[3], [4]]}


def test_a_file_may_have_a_single_object_or_several_documents(tmp_path):
    single, several = tmp_path / "nodes.json", tmp_path / "pods.yaml"
    single.write_text("\n" + json.dumps(node("n1")))
    listed = {"kind": "List", "items": [pod_document("a"), pod_document("b")]}
    several.write_text(yaml.safe_dump_all([listed, None, pod_document("c")]))
    found = recording.from_files(str(several), str(single), None)
    assert [each["metadata"]["name"] for each in found.nodes] == ["n1"]
    assert [each["metadata"]["name"] for each in found.pods] == ["a", "b", "c"]
    assert found.metrics is None
