"""What a configuration says of one provider: upstream's keys of `metricProvider`, and ours beside them."""

from __future__ import annotations

from pathlib import Path

import pydantic
from pydantic import alias_generators

from scheduler_plugin.load_watcher.providers.provider import ProviderFailed


class ProviderSpec(pydantic.BaseModel):
    """Keys are in camel case on the wire."""

    model_config = pydantic.ConfigDict(
        alias_generator=alias_generators.to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    type: str
    """Name in the catalog of providers."""
    address: str = ""
    """URL; empty means the provider's usual one."""
    token: str = pydantic.Field(default="", repr=False)
    """Token or API key. Better in a file."""
    insecure_skip_verify: bool | None = None
    """Do not check the server's certificate."""
    token_file: str = ""
    """File with the token, of a Secret; read when the provider is built."""
    ca_file: str = ""
    """Certificate authorities (PEM) of the server; empty means the system's."""
    queries: str = "kube-prometheus"
    """Preset of Prometheus queries."""
    node_label: str = ""
    """Label of a Prometheus series that holds the node's name; empty means `node`, else `instance`."""
    org: str = ""
    """Organization of InfluxDB."""
    bucket: str = ""
    """Bucket of InfluxDB."""
    application_key: str = pydantic.Field(default="", repr=False)
    """Datadog's second key."""
    host_name_suffix: str = ""
    """SignalFx and Datadog: what follows the node's name in the host's."""
    cluster_name: str = ""
    """SignalFx and Datadog: the cluster whose hosts are meant."""

    def secret(self) -> str:
        """Return the token, from the file where one is named. Raises ProviderFailed."""
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderFailed(f"cannot read the token of {self.type} in {self.token_file}: {error}") from error
