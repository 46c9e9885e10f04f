"""Collectors: usage of node, pods and NUMA nodes from /proc and cgroup files, once a tick, as one `samples.Snapshot`.

Collectors read files and do nothing else: no subprocess, no network, no write. `registry` is the list of collectors and
`snapshot` the tick over them. Parsers of file contents (`cgroup.files`, `cgroup.names`, `cgroup.cpu_stat`,
`numa.files`, `pressure_files`) and `rates` do no I/O.
"""
