"""Commands of the manager: check-config, check-install, explain-config, explain-mid, uninstall."""
