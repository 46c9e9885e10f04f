"""Settings of the standalone load watcher, and its list of providers.

Providers come from upstream's environment variables (METRICS_PROVIDER_NAME and so on), with several names separated by
commas, or from `--providers-file`: a YAML list with the keys of `metricProvider`, in order of trust.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pydantic
import yaml

from api_types.kubernetes import yaml_text
from component_base import listening, settings
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec

ENV_PREFIX: Final = "KOORD_LOAD_WATCHER"
_OF_ONE_SERVER: Final = (
    "METRICS_PROVIDER_ADDRESS", "METRICS_PROVIDER_TOKEN", "METRICS_PROVIDER_TOKEN_FILE", "METRICS_PROVIDER_APP_KEY",
)  # fmt: skip
_SERVICE_ACCOUNT_CA: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


class LoadWatcherSettings(settings.ProcessSettings):
    """Settings of the process, validated once at start."""

    http_address: str = listening.ALL_ADDRESSES
    """Address of the REST API, /healthz, /readyz and /metrics. :: is every address of IPv6 and IPv4."""
    http_port: int = pydantic.Field(2020, ge=0, le=65535)
    """Port of the REST API, /healthz, /readyz and /metrics."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBE_CONFIG, KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    providers_file: str = ""
    """YAML list of providers, in order of trust; empty means METRICS_PROVIDER_NAME and related variables."""
    interval_seconds: float = pydantic.Field(60.0, ge=1, le=3600)
    """Pause between two refreshes, in seconds."""
    max_age_seconds: float = pydantic.Field(300.0, ge=1, le=86400)
    """Age of the end of a window up to which it is served, in seconds."""
    database_file: str = ""
    """SQLite file that preserves the windows after a crash; empty keeps them in memory only."""
    database_hours: float = pydantic.Field(1.0, gt=0, le=720)
    """Retention of the file, in hours."""
    data_center_label: str = provider.DATA_CENTER_LABEL
    """Node label whose value is served as dataCenter."""
    pool_label: str = provider.POOL_LABEL
    """Node label whose value is served as pool."""
    tag_labels: str = ""
    """Node labels, separated by commas, that are served as tags under their own names; empty serves none."""
    analysers: str = ""
    """Names of installed analysers, separated by commas, in the order of their calls; empty runs none."""


def provider_specs(chosen: LoadWatcherSettings, environ: Mapping[str, str] = os.environ) -> list[ProviderSpec]:
    """Return the configured providers, in order of trust. Raises SettingsError with every problem found."""
    specs = _from_file(chosen.providers_file) if chosen.providers_file else from_environment(environ)
    problems = [
        f"{chosen.providers_file or 'METRICS_PROVIDER_*'}: provider {place}: {problem}"
        for place, spec in enumerate(specs, start=1)
        for problem in provider_spec.problems(spec)
    ]
    if not specs:
        problems.append(f"{chosen.providers_file} lists no provider, want at least one")
    names = [spec.type for spec in specs]
    problems += [f"provider {name} is listed twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise settings.SettingsError(problems)
    return specs


def from_environment(environ: Mapping[str, str]) -> list[ProviderSpec]:
    """Read upstream's variables; the default provider is metrics-server, as upstream's.

    Raises SettingsError if the variables have one address or token for several servers.
    """
    names = settings.listed(environ.get("METRICS_PROVIDER_NAME", ""))
    servers = [name for name in names if name not in provider_spec.LOCAL]
    shared = [name for name in _OF_ONE_SERVER if environ.get(name)]
    if len(servers) > 1 and shared:
        raise settings.SettingsError(
            [f"{', '.join(shared)}: {' and '.join(servers)} would share it; list them in --providers-file"]
        )
    return [_spec_from_environment(name, environ) for name in names or [provider_spec.METRICS_SERVER]]


def _spec_from_environment(name: str, environ: Mapping[str, str]) -> ProviderSpec:
    company = {"SignalFx": "SIGNALFX", "Datadog": "DATADOG"}.get(name, "")
    return ProviderSpec(
        type=name,
        address=environ.get("METRICS_PROVIDER_ADDRESS", ""),
        token=pydantic.SecretStr(environ.get("METRICS_PROVIDER_TOKEN", "")),
        token_file=environ.get("METRICS_PROVIDER_TOKEN_FILE", ""),
        application_key=pydantic.SecretStr(environ.get("METRICS_PROVIDER_APP_KEY", "")),
        insecure_skip_verify=environ.get("INSECURE_SKIP_VERIFY", "").lower() == "true",
        ca_file=_SERVICE_ACCOUNT_CA if "ENABLE_OPENSHIFT_AUTH" in environ else "",
        queries=environ.get("METRICS_PROVIDER_QUERIES", "kube-prometheus"),
        org=environ.get("METRICS_PROVIDER_ORG", ""),
        bucket=environ.get("METRICS_PROVIDER_BUCKET", ""),
        host_name_suffix=environ.get(f"{company}_HOST_NAME_SUFFIX", ""),
        cluster_name=environ.get(f"{company}_CLUSTER_NAME", ""),
    )


def _from_file(file: str) -> list[ProviderSpec]:
    try:
        document: Any = yaml_text.load(Path(file).read_text(encoding="utf-8"))
        return pydantic.TypeAdapter(list[ProviderSpec]).validate_python(document)
    except (OSError, UnicodeDecodeError) as error:
        raise settings.SettingsError([f"cannot read the providers in {file}: {error}"]) from error
    except yaml.YAMLError as error:
        raise settings.SettingsError([f"the providers in {file} are not YAML: {error}"]) from error
    except pydantic.ValidationError as error:
        problems = [
            f"{file}: {'.'.join(str(part) for part in one['loc']) or 'the document'}: {one['msg']}"
            for one in error.errors()
        ]
        raise settings.SettingsError(problems) from error
