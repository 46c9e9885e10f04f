"""kopf as it comes, with empty handlers on what the manager follows: the floor of an operator that is made with it.

The time-outs and page sizes are the manager's. Its way to store what objects were is kopf's default, which the manager
has no use for.

python -m benchmarks.kopf_floor KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kopf

from api_types import names
from apiserver_client import credentials
from manager import leader
from manager.cache import kopf_watches
from manager.settings import ManagerSettings


def main() -> None:
    to, settings = credentials.find(sys.argv[1]), ManagerSettings()
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return kopf_watches.connection_info(to, leader.now())

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    @kopf.on.event(names.GROUP, names.VERSION, names.NODE_METRIC_PLURAL, registry=handlers)
    @kopf.on.event("", "v1", "configmaps", registry=handlers)
    async def nothing(**_: Any) -> None:
        pass

    chosen = kopf_watches.operator_settings(settings)
    chosen.persistence = kopf.OperatorSettings().persistence
    follow = kopf.operator(
        registry=handlers, settings=chosen, identity="floor", standalone=True, namespaces=[settings.namespace]
    )
    asyncio.run(follow)


if __name__ == "__main__":
    main()
