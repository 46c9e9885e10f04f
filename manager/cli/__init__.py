"""Commands: check-config, check-install, explain-config, explain-mid, uninstall."""
