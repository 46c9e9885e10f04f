"""Who provides the cluster: this machine's processes, kind in Docker, or someone else."""
