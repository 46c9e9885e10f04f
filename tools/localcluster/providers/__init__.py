"""Providers of the cluster: processes of this machine, kind in Docker, or a cluster that exists already."""
