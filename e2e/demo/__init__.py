"""Show the suite on a real cluster, step by step, with the commands a user would type: `python -m e2e.demo`."""
