"""The images that the cluster runs: our components from the top-level Dockerfile, and a few small ones of the tests."""
