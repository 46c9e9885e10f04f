"""Find the credentials: the given kubeconfig, KUBECONFIG, the pod's service account, ~/.kube/config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from apiserver_client import connection, errors, kubeconfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    home: Path | None = None,
) -> connection.Connection:
    """Return the connection of the first source that exists, in the order of this module's title.

    `context` names one of a kubeconfig, so it excludes the service account. A source that exists and is invalid is an
    error, and the next one is not tried. Raises NoCredentials, which names everything that was tried.
    """
    variables = os.environ if environ is None else environ
    if path:
        return kubeconfig.load([Path(path)], context)
    if listed := [Path(entry) for entry in variables.get("KUBECONFIG", "").split(os.pathsep) if entry]:
        return kubeconfig.load(listed, context)
    tried = ["no kubeconfig given", "KUBECONFIG is not set"]
    if not context:
        in_pod = in_cluster(variables, service_account)
        if isinstance(in_pod, connection.Connection):
            return in_pod
        tried.append(in_pod)
    default = (home or Path.home()) / ".kube" / "config"
    if default.is_file():
        return kubeconfig.load([default], context)
    tried.append(f"{default} does not exist")
    raise errors.NoCredentials(
        f"no credentials for a kube-apiserver: {'; '.join(tried)}. "
        "Set a kubeconfig, or run as a pod with a service account"
    )


def in_cluster(variables: Mapping[str, str], service_account: Path) -> connection.Connection | str:
    """Return the connection of the pod's service account, or the reason why there is none."""
    host, port = variables.get("KUBERNETES_SERVICE_HOST"), variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return "not in a pod (KUBERNETES_SERVICE_HOST is not set)"
    token, ca = service_account / "token", service_account / "ca.crt"
    if not token.is_file():
        return f"in a pod without a token ({token} does not exist: is automountServiceAccountToken false?)"
    namespace = service_account / "namespace"
    return connection.Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        origin=f"service account in {service_account}",
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
        ca_path=ca,
        token_path=token,
    )
