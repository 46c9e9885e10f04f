"""A small virtual machine with cgroup v2, for tests on machines that have v1.

`image` makes kernel and root file system (once, cached by content), `machine` runs a pytest file in it, `guest_init` is
its first process. No network, no cluster, no KVM: qemu translates every instruction, so Python is some twelve times
slower.
"""
