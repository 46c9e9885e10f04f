"""Build programs of Koordinator and Kueue: `python -m tools.peers koord-manager kueue`."""

from __future__ import annotations

import sys

from tools.peers import programs

for _name in sys.argv[1:]:
    print(programs.program(_name))
