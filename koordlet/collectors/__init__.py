"""What runs on the node, read from /proc and cgroup files, once a tick, into one `samples.Snapshot`.

Readers (`node_usage`, `pod_usage`, `cgroup_layout`, `cgroup_discovery`, `kept_files`) touch files and nothing else: no
subprocess, no network, no write. What text and counters mean is in `cgroup_names`, `cgroup_files` and `counter_rates`,
which touch nothing. `catalog` lists the collectors and makes the snapshot.
"""
