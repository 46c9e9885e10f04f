"""Kinds of the rules for new Mid pods, and the certificates that the API server trusts of their webhook. Pure."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import ssl
from typing import Final

from apiserver_client import resources
from fleet import wire


def _kind(kind: str, version: str = "v1") -> resources.Resource:
    plural = f"{kind.lower()}s".replace("policys", "policies")
    return resources.Resource("admissionregistration.k8s.io", version, plural, kind, namespaced=False)


WEBHOOKS: Final = _kind("MutatingWebhookConfiguration")
POLICY_BINDINGS: Final = [_kind("MutatingAdmissionPolicyBinding", version) for version in ("v1", "v1beta1")]
RULES: Final = [
    WEBHOOKS,
    *(_kind(f"{kind}AdmissionPolicy{end}") for kind in ("Validating", "Mutating") for end in ("", "Binding")),
]
"""Every kind of rule that the chart installs."""


def valid_until(configuration: wire.WireWebhooks) -> dt.datetime | None:
    """Return the end of the newest certificate that the API server trusts; None without one that can be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for webhook in configuration.webhooks or ():
        with contextlib.suppress(ssl.SSLError, ValueError):
            bundle = base64.b64decode(webhook["clientConfig"].get("caBundle") or "")
            context.load_verify_locations(cadata=bundle.decode())
    ends = [ssl.cert_time_to_seconds(str(trusted["notAfter"])) for trusted in context.get_ca_certs()]
    return dt.datetime.fromtimestamp(max(ends), dt.UTC) if ends else None
