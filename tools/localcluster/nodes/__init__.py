"""Nodes that are machines of their own: user-mode Linux (a kernel that is a program), with systemd and cgroup v2.

Their kernel and their disk are built here, from Debian packages and Go modules; `providers.nodes` starts them.
"""
