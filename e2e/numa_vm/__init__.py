"""A small virtual machine with two NUMA nodes, which neither CI machines nor the nodes of `tools.localcluster` have.

`image` makes kernel and root file system (once, cached by content), `machine` runs `test_live_numa.py` in it,
`guest_init` is its first process. No network, no cluster, no KVM: qemu translates every instruction, so Python is some
twelve times slower.
"""
