"""Objects that the chart renders, without a cluster, and how to create them on an API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.support.installation import CHART, RELEASE
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import go_binaries
from tools.localcluster.apiserver_requests import Connection

_REGISTRY = {"global": {"imageRegistry": "registry.example"}}
_RBAC, _ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
_COLLECTIONS: Final = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}


def rendered(binaries: Path, values: Mapping[str, Any], *templates: str) -> list[dict[str, Any]]:
    """Return the objects of some templates, such as `scheduler/config`, for the Kubernetes version of the programs."""
    words = [str(binaries / "helm"), "template", RELEASE, str(CHART), "--namespace", SUITE_NAMESPACE, "--values=-"]
    words += [f"--show-only=templates/{template}.yaml" for template in templates]
    words.append(f"--kube-version={go_binaries.version()}")
    done = subprocess.run(words, input=json.dumps({**_REGISTRY, **values}), capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def path(document: Mapping[str, Any]) -> str:
    """Return the path of a rendered object on the API server."""
    metadata = document["metadata"]
    return f"{_COLLECTIONS[document['kind']].format(namespace=metadata.get('namespace', ''))}/{metadata['name']}"


def apply(api: Connection, *documents: Mapping[str, Any]) -> None:
    """Create rendered objects, or let those that exist be as rendered."""
    for document in documents:
        address = f"{path(document)}?fieldManager=case&force=true"
        api.send("PATCH", address, document, content="application/apply-patch+yaml")
