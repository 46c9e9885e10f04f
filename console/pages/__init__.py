"""Contents of the pages, without their layout: each module turns what was read into the values of one template."""
