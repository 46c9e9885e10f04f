"""Hosts to measure: of plain files in any layout, or of real cgroups with real processes."""
