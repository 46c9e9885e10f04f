"""`python -m e2e.demo`: the main job on a real cluster, told step by step, with the commands a user would type."""
