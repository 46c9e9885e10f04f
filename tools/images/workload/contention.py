"""A service whose latency is measured, and an antagonist that fills the machine: two programs that meet on its CPUs.

The service is an open loop: a request arrives every period whether the one before is done or not, and its latency
counts from the time at which it should have begun. So a service that is starved shows all that its clients wait for.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import sys
import time

CALIBRATIONS = 200
HEAD_START_SECONDS = 0.3
"""Time for which the antagonist runs before the first request: it has no advantage of a newcomer left."""
PAUSE_SECONDS = 0.002
"""Pause between calibrations, so that the best of them had a CPU of its own."""


def work(iterations: int) -> None:
    """Use the CPU as long as so many iterations take."""
    for _ in range(iterations):
        pass


def iterations_of(work_micros: float) -> int:
    """Return how many iterations take that much CPU time, by the fastest of many tries."""
    probe = 20_000
    fastest = float("inf")
    for _ in range(CALIBRATIONS):
        begin = time.thread_time()
        work(probe)
        fastest = min(fastest, time.thread_time() - begin)
        time.sleep(PAUSE_SECONDS)
    return round(probe * work_micros / 1e6 / fastest)


def latencies(begin: float, seconds: float, period_seconds: float, iterations: int) -> list[float]:
    """Return the latency in seconds of each request that arrives within the time, on the monotonic clock."""
    gc.disable()
    found = []
    for number in range(round(seconds / period_seconds)):  # counted: a sum of periods drifts by rounding
        due = begin + number * period_seconds
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        work(iterations)
        found.append(time.monotonic() - due)
    return found


def serve(chosen: argparse.Namespace) -> dict[str, float]:
    """Serve requests with several workers, and return percentiles of the latency in microseconds."""
    begin = time.monotonic() + chosen.at - time.time()
    period = chosen.period_millis / 1000
    with multiprocessing.Pool(chosen.workers) as pool:
        pool.map(abs, range(chosen.workers))
        if time.monotonic() > begin:
            sys.exit("late: the first request arrived before the workers ran; want a later --at")
        shifts = [period * index / chosen.workers for index in range(chosen.workers)]
        arguments = [(begin + shift, chosen.seconds, period, chosen.iterations) for shift in shifts]
        found = sorted(latency * 1e6 for each in pool.starmap(latencies, arguments, chunksize=1) for latency in each)
    percentiles = {f"p{percent}": found[int(len(found) * percent / 100)] for percent in (50, 90, 99)}
    return {"requests": len(found), **percentiles, "longest": found[-1]}


def fill_until(end: float) -> float:
    """Use the CPU until a time, and return the CPU seconds that it got."""
    while time.time() < end:
        work(10_000)
    return time.process_time()


def fill(chosen: argparse.Namespace) -> dict[str, float]:
    """Use all CPUs until the service has served, and return the CPU seconds of all workers."""
    with multiprocessing.Pool(chosen.workers) as pool:
        time.sleep(max(chosen.at - HEAD_START_SECONDS - time.time(), 0.0))
        ends = [chosen.at + chosen.seconds] * chosen.workers
        return {"cpu_seconds": sum(pool.map(fill_until, ends, chunksize=1))}


def main() -> None:
    """Parse arguments, run one of the programs, and print its result as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", choices=["calibrate", "serve", "fill"])
    parser.add_argument("--at", type=float, default=0.0, help="when the first request arrives, in seconds since 1970")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long requests arrive")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--period-millis", type=float, default=2.0, help="time between two requests of a worker")
    parser.add_argument("--work-micros", type=float, default=400.0, help="CPU time of a request, for calibrate")
    parser.add_argument("--iterations", type=int, default=0, help="work of a request, as calibrate prints it")
    chosen = parser.parse_args()
    if chosen.program == "calibrate":
        print(json.dumps({"iterations": iterations_of(chosen.work_micros)}))
    else:
        print(json.dumps(serve(chosen) if chosen.program == "serve" else fill(chosen)))


if __name__ == "__main__":
    main()
