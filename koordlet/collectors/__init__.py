"""Collectors: usage of node, pods and NUMA nodes from /proc and cgroup files, once a tick, as one `samples.Snapshot`.

Collectors read files and do nothing else: no subprocess, no network, no write. `snapshot` has the list of
collectors and the tick over them. Parsers of file contents and `rates` do no I/O.
"""
