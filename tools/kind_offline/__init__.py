"""A Docker engine and the image of a kind node, on a Debian machine without Docker and without a container registry.

`engine` runs Debian's Docker engine in a network and a mount namespace of its own. `node_image` makes the image of a
node from Debian packages and Go modules. `python -m tools.kind_offline run -- COMMAND ...` runs a command beside both.
"""
