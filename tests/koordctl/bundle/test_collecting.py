"""No secret reaches a bundle, wherever it is planted."""

import json

import pytest

from koordctl.bundle import collecting

SECRET = "s3cr3t-Value/123456"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"

PLANTED = [
    {"spec": {"containers": [{"env": [{"name": "INFLUX", "value": SECRET}]}]}},
    {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"value":"{SECRET}"}}'}}},
    {"metadata": {"managedFields": [{"x": SECRET}]}},
    {"spec": {"containers": [{"args": [f"--influxdb-token={SECRET}"]}]}},
    {"spec": {"containers": [{"command": ["sh", "-c", f"PASSWORD={SECRET} run"]}]}},
    {"data": {"config": f'{{"provider": {{"token": "{SECRET}", "url": "x"}}}}'}},
    {"data": {"config.yaml": f"provider:\n  password: {SECRET}\n"}},
    {"data": {"url": f"https://user:{SECRET}@influx:8086/x"}},
    {"message": f"401 for Authorization: Bearer {SECRET}"},
    {"token": SECRET},
    {"nested": [{"clientSecret": SECRET}]},
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: json.dumps(each)[:40])
def test_a_planted_secret_is_taken_out_of_an_object(planted):
    assert SECRET in json.dumps(planted)
    assert SECRET not in json.dumps(collecting.scrubbed_item(planted))


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {SECRET}",
        f"requested with token={SECRET}&x=1",
        f'{{"password": "{SECRET}"}}',
        f"using https://admin:{SECRET}@proxy:3128",
        f"api-key: {SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    ],
)
def test_a_planted_secret_is_taken_out_of_a_log(line):
    assert SECRET not in collecting.scrubbed(f"before\n{line}\nafter")


def test_tokens_of_service_accounts_are_taken_out():
    assert JWT not in collecting.scrubbed(f"sent {JWT} to it")


def test_what_an_issue_needs_stays():
    pod = {
        "metadata": {
            "name": "koordlet-x",
            "annotations": {"koordinator.sh/mid-resource-status": '{"reason":"Shadow"}'},
        },
        "spec": {
            "containers": [
                {
                    "args": ["run", "--http-port=9316"],
                    "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "influx", "key": "t"}}}],
                }
            ]
        },
        "status": {"usage": {"cpu": "3", "memory": "4Gi"}, "ready": True, "count": 5},
    }
    assert collecting.scrubbed_item(pod) == pod
    log = "2026-11-24T10:00:00Z WARNING GET https://10.0.0.1:443/api/v1/nodes: 403 Forbidden: cannot list nodes"
    assert collecting.scrubbed(log) == log


def test_a_long_hostile_text_takes_no_long_time():
    for part in ("token", "a://", "eyJ-", "eyJ.", "-", "password=", 'token="', "bearer ", "-----BEGIN A-----", " "):
        collecting.scrubbed(part * 50_000)
