"""A small virtual machine with cgroup v2, for tests on machines that have v1.

`image` makes what it boots from (once, kept by content), `machine` runs a pytest file in it, `guest_init` is what runs
inside. No network, no cluster, no KVM: qemu translates every instruction, so Python is some twelve times slower.
"""
