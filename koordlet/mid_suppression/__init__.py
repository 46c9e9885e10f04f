"""Suppression of Mid pods: lower their CPU limits while the node is busy, and raise them again when it is calm."""
