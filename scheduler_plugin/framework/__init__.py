"""What a plugin implements, and the cycle that runs plugins for one pod."""
