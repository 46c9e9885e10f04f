"""What of a text is taken for a manifest, and what for the document itself."""

import pytest

from manager.cli import manifests


@pytest.mark.parametrize(
    "text", ['{"kind": "ConfigMap"}', '{"data": {"other": "x"}}', "kind: Node\n---\nenable: true\n"]
)
def test_an_object_without_the_key_is_no_document(text):
    with pytest.raises(manifests.Unusable, match="found no ConfigMap with the key"):
        manifests.document_in(text)


@pytest.mark.parametrize("text", ['{"enable": true}', "enable: true\n", "{"])
def test_any_other_text_is_the_document(text):
    assert manifests.document_in(text) == text
