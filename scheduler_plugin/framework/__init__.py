"""Plugin interface, and the scheduling cycle that runs plugins for one pod."""
