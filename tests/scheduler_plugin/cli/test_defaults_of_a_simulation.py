"""Defaults of the command simulate."""

import argparse

from scheduler_plugin.cli import simulate


def test_the_default_seed_is_the_documented_one():
    parser = argparse.ArgumentParser()
    simulate.add_arguments(parser)
    assert parser.get_default("seed") == 1
    assert "(default: 1)" in parser.format_help()
