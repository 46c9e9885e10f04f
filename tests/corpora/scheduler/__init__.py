"""Corpus of the scheduler plugins: a configuration, events with a clock and pods -> verdict and score of each node.

Each `.jsonl` has one case a line. They are frozen: the product at e711f118 gave the answers. An answer changes only in
a commit that does nothing else and names the rule.
"""
