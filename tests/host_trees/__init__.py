"""Hosts to measure: built of plain files in any layout, or of real cgroups with real processes in them."""
