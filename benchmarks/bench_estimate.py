"""Measure `koordctl estimate` in one process: a cluster of 1,000 nodes with 14 days in a real Prometheus.

    python -m benchmarks.bench_estimate [--nodes 1000] [--pods 30] [--days 14]

Only the nodes of the sample have series of pods, which are all that is read of pods. The rows after the first are parts
of it: a read of one node alone, and its replay.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks import bench_fleet, bench_koordctl, replay_apiserver, synthetic_cluster
from benchmarks.bench_koordctl import START, STEP
from koordctl.backtest import prometheus, results
from koordctl.backtest.cluster_history import Names
from koordctl.backtest.prometheus import Server
from koordctl.backtest.sources import PrometheusSource
from koordctl.estimate import forecast

CORES = synthetic_cluster.CPU_MILLIS // 1000


def write(folder, nodes, chosen, options, steps):
    for number, node in enumerate(chosen):
        bench_koordctl.write_node(folder, number, options.pods, steps, node, CORES)
    file, end = folder / "nodes.txt", START + STEP * (steps - 1)
    with file.open("w") as out:
        for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            for node in nodes:
                out.write(f'{name}{{node="{node}",resource="cpu"}} {CORES} {end}\n')
                out.write(f'{name}{{node="{node}",resource="memory"}} {CORES * 2**32} {end}\n')
        out.write("# EOF\n")
    bench_koordctl.make_block(folder, file)


def parts(url, node, end):
    """Return the CPU seconds of this process for one node: its series, and its replay."""
    steps = prometheus.steps_between(START, end, forecast.LONGEST_STEP)
    source = PrometheusSource(Server(url), Names(), steps, time.time(), (node,), in_days=False)
    began = time.process_time()
    history = source.load(node)
    read = time.process_time()
    span = results.Span(3600, 3600, results.warm_up_seconds(source.seconds))
    names = (forecast.DEFAULT, forecast.EVICTING)
    candidates = [of for of in results.all_candidates(3600) if of.name in names]
    results.replay_with_last(history, candidates, span, None)
    return read - began, time.process_time() - read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, default in (("--nodes", 1_000), ("--pods", 30), ("--days", 14)):
        parser.add_argument(flag, type=int, default=default)
    options = parser.parse_args()
    steps = options.days * 86_400 // STEP
    nodes = synthetic_cluster.node_names(options.nodes)
    chosen = forecast.sample(dict.fromkeys(nodes, "pool"))
    served = replay_apiserver.running(nodes=options.nodes, pods_per_node=0)
    with tempfile.TemporaryDirectory() as name, served as api:
        folder, end = Path(name), START + STEP * (steps + 2)
        write(folder, nodes, chosen, options, steps)
        file = folder / "kubeconfig"
        file.write_text(bench_fleet.KUBECONFIG.format(url=api))
        server = bench_koordctl.started(folder)
        try:
            words = f"estimate --prometheus {server.url} --from {START} --to {end} --workers 1".split()
            of_server = bench_koordctl.cpu_seconds(server)
            wall, cpu, memory, code = bench_fleet.run(words, file)
            of_server = bench_koordctl.cpu_seconds(server) - of_server
            of_read, of_replay = parts(server.url, chosen[0], end)
        finally:
            server.stop()
    print(f"\n| what | nodes | s | CPU s | CPU s of Prometheus | RSS MiB | exit code |\n|{'---|' * 7}")
    whole = f"`koordctl estimate` of {options.nodes} nodes"
    print(f"| {whole} | {len(chosen)} | {wall:.1f} | {cpu:.1f} | {of_server:.1f} | {memory:.0f} | {code} |")
    for what, seconds in (("series of a node", of_read), ("replay of a node", of_replay)):
        print(f"| {what} | 1 | | {seconds:.2f} | | | |")


if __name__ == "__main__":
    main()
