"""What the handler changes; e2e/cases/admission/test_mid_limits_webhook.py runs it below an API server."""

import kopf
import pytest

from manager.cli.admission import webhook
from manager.cli.admission.settings import AdmissionSettings

PLAIN = {"cpu": "500m", "memory": "64Mi"}


def pod(*containers, **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"priorityClassName": "koord-mid", "containers": list(containers), **spec},
    }


WORK = {"name": "work", "resources": {"requests": PLAIN, "limits": PLAIN}}


def test_only_changed_fields_are_in_the_patch():
    given = pod(WORK, initContainers=[{"name": "i"}], schedulerName="volcano", nodeSelector={"a": "b"})
    (operation,), warnings = webhook.limits(given, "koord-scheduler")
    assert (operation["op"], operation["path"]) == ("add", "/spec/containers/0/resources")
    assert operation["value"]["requests"]["cpu"] == "0"
    assert [text.partition(" has no")[0] for text in warnings] == ["koord-mid: container i"]
    limited = pod({**WORK, "resources": operation["value"]}, schedulerName="volcano")
    assert webhook.limits(limited, "koord-scheduler") == ([], [])


def test_the_scheduler_is_replaced_by_the_setting():
    def changed(name):
        operations, _ = webhook.limits(pod(WORK), name)
        return {each["path"]: each["value"] for each in operations}.get("/spec/schedulerName")

    assert changed("mine") == "mine"
    assert changed("") is None


@pytest.mark.parametrize("spec", [{"resources": {"limits": PLAIN}}, {"containers": 3}])
def test_what_is_refused_passes_with_a_warning(spec):
    operations, (warning,) = webhook.limits(pod(WORK, **spec), "koord-scheduler")
    assert operations == []
    assert warning.startswith("this koord-mid pod gets no limits: spec.")


@pytest.mark.parametrize(
    "given", [{}, {"spec": None}, {"spec": {"priorityClassName": "koord-prod", "containers": [WORK]}}]
)
def test_other_pods_pass_as_they_are(given):
    assert webhook.limits(given, "koord-scheduler") == ([], [])


async def test_an_error_of_the_webhook_refuses_no_pod(monkeypatch, caplog):
    """kopf answers an exception of a handler with a refusal, which failurePolicy Ignore does not cover."""
    monkeypatch.setattr(webhook, "limits", lambda *_, **__: 1 / 0)
    (handler,) = webhook.registry(None, AdmissionSettings(), None)._webhooks.get_all_handlers()
    patch, warnings = kopf.Patch(), []
    await handler.fn(body=kopf.Body(pod(WORK)), patch=patch, warnings=warnings)
    assert patch.as_json_patch() == []
    assert warnings == ["this koord-mid pod gets no limits: the webhook failed; its log has the error"]
    assert "ZeroDivisionError" in caplog.text
