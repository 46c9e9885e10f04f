"""What each training does besides learning, and that a fault of one step leaves the others."""

import logging

import pytest

STEPS = ("train", "calibrate", "inform_packages", "evaluate")


def followed(agent, monkeypatch, failing=""):
    """Return a list to which each step of a training adds its name; one of them fails."""
    done = []

    def follow(name, real):
        def step(*given):
            done.append(name)
            if name == failing:
                raise ValueError("broken")
            return real(*given)

        monkeypatch.setattr(agent.observer, name, step)

    for name in STEPS:
        follow(name, getattr(agent.observer, name))
    return done


def test_a_training_calibrates_informs_packages_and_evaluates(agent, monkeypatch, caplog):
    done = followed(agent, monkeypatch)
    agent._train()
    assert done == list(STEPS)
    assert agent.counts.trainings == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(("failing", "done", "trainings"), [("train", 1, 0)] + [(name, 4, 1) for name in STEPS[1:]])
def test_a_step_that_fails_is_logged_and_leaves_the_others(agent, monkeypatch, caplog, failing, done, trainings):
    steps = followed(agent, monkeypatch, failing)
    agent._train()
    assert (len(steps), agent.counts.trainings) == (done, trainings)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1
