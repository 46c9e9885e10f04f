"""The console in a real browser: a fleet to show, the browser, and the pictures of the documentation."""
