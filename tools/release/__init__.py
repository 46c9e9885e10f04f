"""Build, push and verify a release; RELEASE.md lists the steps."""
