"""Steps of a release that a program can do; RELEASE.md lists all of them."""
