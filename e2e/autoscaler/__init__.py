"""Beside a real node autoscaler: Karpenter's core, with nodes that kwok keeps ready."""
