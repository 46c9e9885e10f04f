"""The cluster and the identity that flags name for a child kubectl."""

from argparse import Namespace

from fleet.port_forward import Caller
from koordctl.cli import command


def test_the_caller_has_the_values_of_the_flags():
    given = Namespace(kubeconfig="/some/config", context="prod", user="jane", groups=["viewers"])
    assert command.caller(given) == Caller("/some/config", "prod", "jane", ("viewers",))


def test_flags_that_are_not_given_are_empty_for_the_caller():
    given = Namespace(kubeconfig=None, context=None, user="", groups=[])
    assert command.caller(given) == Caller("", "", "", ())
