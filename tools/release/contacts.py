"""Read contacts.yaml, the one file in which a person fills in who answers for the project.

python -m tools.release.contacts     # name what is not filled in; exit code 1 if there is any
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "contacts.yaml"
_PLACEHOLDER = "FILL-IN"
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def problems(file: Path = FILE) -> list[str]:
    """Return one line for each entry that is not filled in, or that cannot be right; empty if none is."""
    contacts = _read(file)
    return [f"{file.name}: {path}: seen {value!r}, want {wanted}" for path, value, wanted in _wrong(contacts)]


def maintainers(file: Path = FILE) -> list[dict[str, str]]:
    """Return the maintainers as Chart.yaml has them; a chart that is no release names none of the placeholders."""
    return [person for person in _read(file)["maintainers"] if _PLACEHOLDER not in person.values()]


def artifact_hub(file: Path = FILE) -> str:
    """Return the text of artifacthub-repo.yml, the metadata of the repository on Artifact Hub."""
    contacts = _read(file)
    metadata = {"repositoryID": contacts["artifactHubRepositoryID"], "owners": contacts["maintainers"]}
    return yaml.safe_dump(metadata, sort_keys=False)


def _read(file: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def _wrong(contacts: dict[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield the path, the value and what is wanted in its place."""
    emails = {key: contacts.get(key) for key in ("security", "conduct")}
    people = contacts.get("maintainers") or [{}]
    emails |= {f"maintainers[{index}].email": person.get("email") for index, person in enumerate(people)}
    names = {f"maintainers[{index}].name": person.get("name") for index, person in enumerate(people)}
    yield from ((path, value, "an e-mail address") for path, value in emails.items() if not _is_email(value))
    yield from ((path, value, "a name") for path, value in names.items() if value in (None, "", _PLACEHOLDER))
    identity = contacts.get("artifactHubRepositoryID")
    if not _is_uuid(identity):
        yield "artifactHubRepositoryID", identity, "the UUID in Artifact Hub's control panel"


def _is_email(value: object) -> bool:
    return isinstance(value, str) and _EMAIL.fullmatch(value) is not None


def _is_uuid(value: object) -> bool:
    try:
        return bool(uuid.UUID(str(value)))
    except ValueError:
        return False


if __name__ == "__main__":
    unfilled = problems()
    print("\n".join(unfilled))
    sys.exit(bool(unfilled))
