"""Worker processes, one node each at a time. They end with their parent, even when it is killed.

Imports of the standard library only: a worker imports this module before it ignores Ctrl-C.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

NodeT = TypeVar("NodeT")
ResultT = TypeVar("ResultT")


class WorkerEnded(Exception):
    """A worker ended without a result; the text names the likely cause and the fix."""


def each_node(work: Callable[[NodeT], ResultT], nodes: Sequence[NodeT], workers: int) -> Iterator[ResultT]:
    """Yield the result of each node, in their order. Raises WorkerEnded, and what `work` raises.

    `work` is pickled where there is more than one worker.
    """
    if workers == 1 or len(nodes) < 2:
        yield from map(work, nodes)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(nodes)), mp_context=context, initializer=_begin) as pool:
        try:
            yield from pool.map(work, nodes)
        except BrokenProcessPool:
            raise WorkerEnded(
                "a worker process was killed, as the kernel does where memory is short; use fewer --workers, or more "
                "memory"
            ) from None


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone: it would wait for work without a time limit."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
