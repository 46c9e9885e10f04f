"""The contacts of the project: what a person has still to fill in is named, and what is filled in is published."""

import yaml

from tools.release import contacts

FILLED = {
    "security": "security@example.org",
    "conduct": "conduct@example.org",
    "maintainers": [{"name": "Ada", "email": "ada@example.org"}],
    "artifactHubRepositoryID": "2f0b3d1c-8a5e-4b7a-9d43-1c6f4e8d2a90",
}


def file_of(folder, **changes):
    file = folder / "contacts.yaml"
    file.write_text(yaml.safe_dump(FILLED | changes))
    return file


def test_every_placeholder_of_the_repository_is_named_once():
    named = [line.split(": ")[1] for line in contacts.problems()]
    assert len(named) == contacts.FILE.read_text().count(" FILL-IN\n")
    assert {"security", "conduct", "maintainers[0].email", "artifactHubRepositoryID"} <= set(named)


def test_what_is_filled_in_is_published_and_what_cannot_be_right_is_named(tmp_path):
    file = file_of(tmp_path)
    assert contacts.problems(file) == []
    assert contacts.maintainers(file) == FILLED["maintainers"]
    published = {"repositoryID": FILLED["artifactHubRepositoryID"], "owners": FILLED["maintainers"]}
    assert yaml.safe_load(contacts.artifact_hub(file)) == published
    assert contacts.problems(file_of(tmp_path, security="call me", maintainers=[])) == [
        "contacts.yaml: security: seen 'call me', want an e-mail address",
        "contacts.yaml: maintainers[0].email: seen None, want an e-mail address",
        "contacts.yaml: maintainers[0].name: seen None, want a name",
    ]
