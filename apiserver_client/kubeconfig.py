"""Find the credentials, and parse a kubeconfig, or several as in KUBECONFIG, into one Connection. Errors are one line.

As in kubectl, the first of several files that has an entry wins, relative paths are relative to their file, and missing
files of a list are skipped.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from api_types.kubernetes import yaml_text
from apiserver_client import connection, errors

if TYPE_CHECKING:  # loaded with the first kubeconfig: a pod has none
    from lightkube.config import kubeconfig as library
    from lightkube.config import models

_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the extension of a cluster that a credential program gets as its configuration."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    parsed: library.KubeConfig
    clusters: Mapping[str, Mapping[str, Any]]  # as written: the library drops some keys
    users: Mapping[str, Mapping[str, Any]]

    def absolute(self, path: str | None) -> Path | None:
        return self.path.parent / path if path else None


def load(paths: Sequence[Path], context: str | None = None) -> connection.Connection:
    """Return the connection of `context`, or of the current context.

    Raises NoCredentials for a file that is missing or invalid, and for an unknown context, cluster or user.
    """
    from lightkube.config import models  # noqa: PLC0415

    files = [_read(path) for path in paths if len(paths) == 1 or path.is_file()]
    where = ", ".join(str(path) for path in paths)
    if not files:
        raise errors.NoCredentials(f"none of the kubeconfig files exists: {where}")
    name = context or next((file.parsed.current_context for file in files if file.parsed.current_context), None)
    if name is None:
        raise errors.NoCredentials(f"{where}: current-context is not set; contexts: {_known(files, 'contexts')}")
    chosen = _find(files, "contexts", name, where)[1]
    origin = f"context {name!r} of {where}"
    cluster_file, cluster = _find(files, "clusters", chosen.cluster, origin)
    user_file, user = _find(files, "users", chosen.user, origin) if chosen.user else (cluster_file, models.User())
    to = _connection(origin, chosen.namespace or "default", (cluster_file, chosen.cluster, cluster), user_file, user)
    exec_as_written = user_file.users.get(chosen.user or "", {}).get("exec") or {}
    if to.exec_command is None or not exec_as_written.get("provideClusterInfo"):
        return to
    info = _cluster_info(to, cluster_file.clusters[chosen.cluster])
    return dataclasses.replace(to, exec_command=dataclasses.replace(to.exec_command, cluster=info))


def _read(path: Path) -> _File:
    from lightkube.config import kubeconfig as library  # noqa: PLC0415

    path = path.expanduser().absolute()
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise errors.NoCredentials(f"cannot read the kubeconfig {path}: {error}") from error
    except yaml.YAMLError as error:
        raise errors.NoCredentials(f"the kubeconfig {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not document.get("clusters"):
        raise errors.NoCredentials(f"{path} is not a kubeconfig: it has no clusters")
    for section in ("clusters", "contexts", "users"):
        document[section] = document.get(section) or []  # kubectl writes null for an empty list
    try:
        clusters = {entry["name"]: entry["cluster"] for entry in document["clusters"]}
        users = {entry["name"]: entry.get("user") or {} for entry in document["users"]}
        return _File(path, library.KubeConfig.from_dict(document, fname=path), clusters, users)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise errors.NoCredentials(f"{path} is not a kubeconfig: {error!r}") from error


def _find(files: Sequence[_File], section: str, name: str, where: str) -> tuple[_File, Any]:
    for file in files:
        entries = getattr(file.parsed, section)
        if name in entries:
            return file, entries[name]
    raise errors.NoCredentials(f"{where}: no {section[:-1]} named {name!r}; there are: {_known(files, section)}")


def _known(files: Sequence[_File], section: str) -> str:
    return ", ".join(sorted({name for file in files for name in getattr(file.parsed, section)})) or "none"


def _connection(
    origin: str, namespace: str, named_cluster: tuple[_File, str, models.Cluster], user_file: _File, user: models.User
) -> connection.Connection:
    cluster_file, cluster_name, cluster = named_cluster
    as_written = cluster_file.clusters[cluster_name]
    if user.auth_provider:
        raise errors.NoCredentials(f"{origin}: auth-provider is not supported (kubectl dropped it too): use exec")
    return connection.Connection(
        server=cluster.server.rstrip("/"),
        origin=origin,
        namespace=namespace,
        ca_path=None if cluster.certificate_auth_data else cluster_file.absolute(cluster.certificate_auth),
        ca_data=_pem(cluster.certificate_auth_data, f"{origin}: certificate-authority-data"),
        insecure=cluster.insecure,
        tls_server_name=as_written.get("tls-server-name"),
        proxy_url=as_written.get("proxy-url"),
        token=user.token,
        token_path=user_file.absolute(user.token_file),
        username=user.username,
        password=user.password,
        exec_command=_exec_command(user.exec),
        client_certificate_path=None if user.client_cert_data else user_file.absolute(user.client_cert),
        client_certificate_data=_pem(user.client_cert_data, f"{origin}: client-certificate-data"),
        client_key_path=None if user.client_key_data else user_file.absolute(user.client_key),
        client_key_data=_pem(user.client_key_data, f"{origin}: client-key-data"),
    )


def _cluster_info(to: connection.Connection, as_written: Mapping[str, Any]) -> str:
    """Return `spec.cluster` of an ExecCredential, whose paths are replaced by data."""
    authority = to.ca_data
    if to.ca_path is not None:
        try:
            authority = to.ca_path.read_bytes()
        except OSError as error:
            raise errors.NoCredentials(f"{to.origin}: cannot read {to.ca_path}: {error}") from error
    extensions = {entry.get("name"): entry.get("extension") for entry in as_written.get("extensions") or ()}
    info = {
        "server": to.server,
        "tls-server-name": to.tls_server_name,
        "insecure-skip-tls-verify": to.insecure,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": to.proxy_url,
        "config": extensions.get(_EXEC_EXTENSION),
    }
    return json.dumps({key: value for key, value in info.items() if value})


def _pem(text: str | None, what: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise errors.NoCredentials(f"{what} is not base64: {error}") from error


def _exec_command(entry: models.UserExec | None) -> connection.ExecCommand | None:
    if entry is None:
        return None
    return connection.ExecCommand(
        api_version=entry.apiVersion,
        argv=(entry.command, *(entry.args or ())),
        environment=tuple((variable.name, variable.value) for variable in entry.env or ()),
        install_hint=" ".join((entry.installHint or "").split()),
    )


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    home: Path | None = None,
) -> connection.Connection:
    """Return the connection of the first source: the given kubeconfig, KUBECONFIG, the pod's account, ~/.kube/config.

    `context` names one of a kubeconfig, so it excludes the service account. A source that exists and is invalid is an
    error, and the next one is not tried. Raises NoCredentials, which names everything that was tried.
    """
    variables = os.environ if environ is None else environ
    files = [Path(entry) for entry in ([path] if path else variables.get("KUBECONFIG", "").split(os.pathsep)) if entry]
    if files:
        return load(files, context)
    tried = ["no kubeconfig given", "KUBECONFIG is not set"]
    if not context:
        in_pod = in_cluster(variables, service_account)
        if isinstance(in_pod, connection.Connection):
            return in_pod
        tried.append(in_pod)
    default = (home or Path.home()) / ".kube" / "config"
    if default.is_file():
        return load([default], context)
    raise errors.NoCredentials(
        f"no credentials for a kube-apiserver: {'; '.join(tried)}; {default} does not exist. "
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
