"""kopf with empty handlers on the resources that the manager watches: the floor of an operator made with kopf.

Time-outs and page sizes are the manager's.

python -m benchmarks.kopf_floor KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kopf

from api_types import names
from apiserver_client import kubeconfig
from manager.cache import kopf_thread
from manager.settings import ManagerSettings


def main() -> None:
    to, settings = kubeconfig.find(sys.argv[1]), ManagerSettings()
    handlers = kopf_thread.new_registry(to)

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    @kopf.on.event(names.GROUP, names.VERSION, names.NODE_METRIC_PLURAL, registry=handlers)
    @kopf.on.event("", "v1", "configmaps", registry=handlers)
    async def nothing(**_: Any) -> None:
        pass

    chosen = kopf_thread.new_settings()
    chosen.watching.chunk_size = 100  # decoded, a page is several times as large as its bytes
    follow = kopf.operator(
        registry=handlers, settings=chosen, identity="floor", standalone=True, namespaces=[settings.namespace]
    )
    asyncio.run(follow)


if __name__ == "__main__":
    main()
