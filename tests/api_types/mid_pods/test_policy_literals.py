"""Texts of a profile in the CEL of its policy, whose escapes know no pairs of surrogates."""

import pytest

from api_types.mid_pods import policy, profile


@pytest.mark.parametrize("text", ["é", "日本", "😀"])
def test_letters_beyond_ascii_are_written_as_they_are(text):
    read = profile.read({"metadata": {"name": "jobs"}, "spec": {"annotations": {"a": text}}})
    made, _ = policy.profile_objects(read)
    assert f'"{text}"' in made["spec"]["mutations"][0]["jsonPatch"]["expression"]
