"""Answers for the plugin KoordSuite inside kube-scheduler (Go, in `plugin`), over a Unix socket."""
