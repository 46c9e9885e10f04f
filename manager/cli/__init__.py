"""Programs that the chart runs beside the manager: uninstall, restore-limits, and the admission webhook."""
