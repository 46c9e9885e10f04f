"""kopf with empty handlers on the resources that the manager watches: the floor of an operator made with kopf.

Time-outs and page sizes are the manager's. The diff-base storage is kopf's default, which the manager replaces.

python -m benchmarks.kopf_floor KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kopf

from api_types import names
from apiserver_client import credentials
from component_base import clock
from manager.cache import kopf_watches
from manager.settings import ManagerSettings


def main() -> None:
    to, settings = credentials.find(sys.argv[1]), ManagerSettings()
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return kopf_watches.connection_info(to, clock.utc_now())

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    @kopf.on.event(names.GROUP, names.VERSION, names.NODE_METRIC_PLURAL, registry=handlers)
    @kopf.on.event("", "v1", "configmaps", registry=handlers)
    async def nothing(**_: Any) -> None:
        pass

    chosen = kopf_watches.operator_settings(settings)
    chosen.persistence = kopf.OperatorSettings().persistence
    chosen.watching.chunk_size = 100  # decoded, a page is several times as large as its bytes
    follow = kopf.operator(
        registry=handlers, settings=chosen, identity="floor", standalone=True, namespaces=[settings.namespace]
    )
    asyncio.run(follow)


if __name__ == "__main__":
    main()
