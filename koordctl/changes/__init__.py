"""Commands of koordctl that change the cluster; each shows what it would do, and asks."""
