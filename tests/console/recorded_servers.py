"""Servers of pages that a program makes, to end them without a signal to the tests."""

from console.web import server as web


def record(monkeypatch):
    """Return a list of the servers that are made from now on."""
    made, make = [], web.server

    def recorded(app):
        made.append(make(app))
        return made[-1]

    monkeypatch.setattr(web, "server", recorded)
    return made
