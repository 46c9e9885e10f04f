"""Workload with a known usage: it burns a number of cores and holds an amount of memory until SIGTERM.

Every worker keeps its own CPU clock on target, so usage is exact over seconds as long as the machine has idle CPU time.
More than one second of missed time (throttling) is not caught up.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import signal
import sys
import time

PERIOD_SECONDS = 0.05
PAGE_BYTES = 4096
MIB = 2**20


def burn(levels: list[float], phase_seconds: float, of: int) -> None:
    """Use `level / of` of a core, the levels taking turns, `phase_seconds` each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = before = time.monotonic()
    owed = 0.0  # CPU seconds
    while True:
        now = time.monotonic()
        level = levels[int((now - started) // phase_seconds) % len(levels)]
        owed = min(owed + (now - before) * level / of, 1.0)
        before = now
        used_before = time.thread_time()
        while time.thread_time() - used_before < owed:
            pass
        owed -= time.thread_time() - used_before
        time.sleep(max(PERIOD_SECONDS - (time.monotonic() - now), 0.0) if level < of else 0.0)


def main() -> None:
    """Parse arguments, hold the memory, start the workers, and wait for the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu-cores", default="0", help="cores to use; several, comma-separated, take turns")
    parser.add_argument("--phase-seconds", type=float, default=30.0, help="how long each of several levels lasts")
    parser.add_argument("--memory-mib", type=int, default=0, help="MiB to hold beyond what Python itself needs")
    chosen = parser.parse_args()
    levels = [float(level) for level in chosen.cpu_cores.split(",")]
    if min(levels) < 0 or not all(math.isfinite(level) for level in levels):
        parser.error(f"--cpu-cores {chosen.cpu_cores}: want numbers of cores, 0 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    workers = math.ceil(max(levels))
    arguments = (levels, chosen.phase_seconds, workers)
    for _ in range(workers):
        multiprocessing.Process(target=burn, args=arguments, daemon=True).start()
    held = bytearray(chosen.memory_mib * MIB)
    held[::PAGE_BYTES] = b"x" * len(range(0, len(held), PAGE_BYTES))
    print(f"holding {chosen.memory_mib} MiB, using {chosen.cpu_cores} cores", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
