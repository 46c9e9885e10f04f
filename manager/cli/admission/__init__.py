"""Admission webhook for new Mid pods, for clusters that serve no MutatingAdmissionPolicy: a process of its own."""
