"""The web server: access, routes, templates and files of the browser."""
