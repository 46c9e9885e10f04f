"""Faults of what a component is connected to: the API server, etcd, kube-scheduler, providers, credentials."""

from __future__ import annotations

from typing import Final

from tests.reliability.cells import Component, Fault, NotConcerned, Proof, Timeless, proof

AGENT, MANAGER, EXTENDER = Component.AGENT, Component.MANAGER, Component.EXTENDER
LOAD_WATCHER, WEBHOOK = Component.LOAD_WATCHER, Component.WEBHOOK
AT_ONCE, NOT_TIMED = Timeless.AT_ONCE, Timeless.NOT_TIMED

_LINKS = "e2e/cases/faults/test_links.py"
_VIEW = "tests/koordlet/cluster/test_view.py"
_WATCHES = "tests/apiserver_client/test_watching.py"
_CERTIFICATES = "tests/apiserver_client/test_connection.py"
_RENEWED = (
    f"{_CERTIFICATES}::test_a_new_authority_is_trusted_and_the_old_one_no_longer",
    f"{_CERTIFICATES}::test_a_new_client_certificate_is_used_from_the_next_request_on",
    f"{_CERTIFICATES}::test_half_replaced_files_leave_the_last_certificates_in_use",
)
_KOPF = "tests/manager/cache/test_kopf_thread.py"
_WITHOUT_PYTHON = "e2e/cases/scheduler/test_plugin_inside.py::test_without_python_only_mid_pods_wait"
_WEBHOOK = "e2e/cases/admission/test_mid_limits_webhook.py"
_TOKEN_FILE = "tests/scheduler_plugin/load_watcher/providers/test_token_file.py"
_INFORMER = "tests/scheduler_plugin/load_watcher/test_informer.py"
_STORE = "tests/manager/cli/admission/test_certificate.py"
_RESUMED_WATCHER = f"{_INFORMER}::test_a_watch_that_fails_is_resumed_and_every_change_since_is_followed"
_SILENCE_AND_RECOVERY = 110
"""Seconds to notice a silent peer, 90, and those in which a load watcher has followed what came since, 20."""
_WATCHER_RESUMES = proof(
    "its watches are resumed, and every change since is followed",
    _RESUMED_WATCHER,
    within=20,
)
_WATCHER_LISTS = proof(
    "a new list replaces the known nodes and reports",
    f"{_INFORMER}::test_after_an_expired_version_or_a_restore_of_etcd_a_new_list_replaces_what_is_known",
    within=20,
)
_WEBHOOK_SERVES = proof(
    "the certificate is served meanwhile, and a renewed one afterwards; without any it names the reason",
    f"{_STORE}::test_while_the_secret_cannot_be_read_the_certificate_is_served_and_a_renewed_one_afterwards",
    f"{_STORE}::test_a_replica_that_cannot_begin_names_the_reason_and_begins_by_itself",
    within=20,
)
_RESUMED_AGENT = f"{_VIEW}::test_watches_that_fail_are_resumed_and_every_edit_since_is_followed"
_RESUMED_MANAGER = (
    "tests/manager/cache/test_object_watches.py::test_a_watch_that_fails_is_resumed_and_every_change_since_is_followed"
)
_RESUMED_EXTENDER = (
    "tests/scheduler_plugin/state/test_informer.py::"
    "test_watches_that_fail_are_resumed_and_every_change_since_is_followed"
)
_LISTED_EXTENDER = (
    "tests/scheduler_plugin/state/test_informer.py::"
    "test_after_an_expired_version_or_a_restore_of_etcd_a_new_list_replaces_what_is_known"
)
_ETCD = "test_etcd_that_is_killed_and_comes_back_with_its_data_is_followed_again"
_RESTORE = "test_an_older_state_of_etcd_replaces_the_known_one"
_FOLLOWS = "it is noticed, and every edit since is followed"
_NOT_CALLED = "is not asked by kube-scheduler"


def _token(took_seconds: float) -> Proof:
    return proof(
        "the next request uses the token of the file",
        f"{_LINKS}::test_a_token_that_ends_is_replaced_by_the_one_in_the_file",
        "tests/apiserver_client/test_authentication.py::test_a_token_file_is_read_again_after_a_401_and_the_call_repeated_once",
        within=120,
        took_seconds=took_seconds,
    )


FAULTS: Final = (
    Fault(
        "watch expired (410)",
        "the API server has compacted the version of a watch",
        {
            AGENT: proof(
                _FOLLOWS,
                f"{_LINKS}::test_versions_that_were_compacted_are_listed_again",
                f"{_WATCHES}::test_an_expired_version_means_a_new_list",
                within=120,
                took_seconds=44.6,
            ),
            MANAGER: proof(
                "what was deleted meanwhile is dropped, and every edit is followed",
                f"{_LINKS}::test_versions_that_were_compacted_are_listed_again",
                "tests/manager/cache/test_object_watches.py::test_an_object_that_was_deleted_while_the_watch_was_expired_is_dropped_and_a_later_one_stays",
                "tests/manager/test_leader.py::test_continues_after_a_list_that_expires_between_two_pages",
                within=120,
                took_seconds=30.0,
            ),
            EXTENDER: proof(
                _FOLLOWS,
                f"{_LINKS}::test_versions_that_were_compacted_are_listed_again",
                _LISTED_EXTENDER,
                within=120,
                took_seconds=4.2,
            ),
            LOAD_WATCHER: _WATCHER_LISTS,
            WEBHOOK: NotConcerned("watches nothing"),
        },
    ),
    Fault(
        "silent peer",
        "the connection stays open, and nothing comes any more",
        {
            AGENT: proof(
                _FOLLOWS,
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                _RESUMED_AGENT,
                within=120,
                took_seconds=88.4,
            ),
            MANAGER: proof(
                _FOLLOWS,
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                _RESUMED_MANAGER,
                within=120,
                took_seconds=64.3,
            ),
            EXTENDER: proof(
                _FOLLOWS,
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                _RESUMED_EXTENDER,
                within=120,
                took_seconds=88.4,
            ),
            LOAD_WATCHER: proof(
                "after 90 s of silence its watches are resumed; a provider fails after the time-out, and others count",
                _RESUMED_WATCHER,
                "tests/scheduler_plugin/load_watcher/test_watcher.py::test_a_hanging_provider_fails_after_the_time_out",
                "tests/component_base/test_http_client.py::test_a_slow_response_fails_after_the_time_out",
                within=_SILENCE_AND_RECOVERY,
            ),
            WEBHOOK: _WEBHOOK_SERVES._replace(within=NOT_TIMED),
        },
    ),
    Fault(
        "API server restart",
        "the API server is killed, and comes back",
        {
            AGENT: proof(
                "no sample is missing, training goes on, and reports are in time again",
                "e2e/cases/faults/test_apiserver_outage.py",
                f"{_LINKS}::test_an_apiserver_that_is_killed_and_comes_back_is_followed_again",
                _RESUMED_AGENT,
                within=120,
                took_seconds=62.3,
            ),
            MANAGER: proof(
                _FOLLOWS,
                f"{_LINKS}::test_an_apiserver_that_is_killed_and_comes_back_is_followed_again",
                _RESUMED_MANAGER,
                within=120,
                took_seconds=36.5,
            ),
            EXTENDER: proof(
                _FOLLOWS,
                f"{_LINKS}::test_an_apiserver_that_is_killed_and_comes_back_is_followed_again",
                _RESUMED_EXTENDER,
                "tests/scheduler_plugin/state/test_cluster.py::test_a_pod_re_created_during_a_watch_outage_replaces_the_old_one",
                within=120,
                took_seconds=0.3,
            ),
            LOAD_WATCHER: _WATCHER_RESUMES,
            WEBHOOK: _WEBHOOK_SERVES,
        },
    ),
    Fault(
        "API server overload",
        "the API server answers 429 or 500 only",
        {
            AGENT: proof(
                "few requests, and every edit is followed afterwards",
                f"{_LINKS}::test_an_apiserver_that_returns_only_errors_gets_few_requests",
                _RESUMED_AGENT,
                within=120,
                took_seconds=45.1,
            ),
            MANAGER: proof(
                "few requests, and every edit is followed afterwards",
                f"{_LINKS}::test_an_apiserver_that_returns_only_errors_gets_few_requests",
                _RESUMED_MANAGER,
                "tests/manager/cache/test_work_queue.py::test_events_do_not_end_a_backoff",
                within=120,
                took_seconds=19.0,
            ),
            EXTENDER: proof(
                "few requests, and every edit is followed afterwards",
                f"{_LINKS}::test_an_apiserver_that_returns_only_errors_gets_few_requests",
                _RESUMED_EXTENDER,
                within=120,
                took_seconds=14.3,
            ),
            LOAD_WATCHER: _WATCHER_RESUMES,
            WEBHOOK: _WEBHOOK_SERVES,
        },
    ),
    Fault(
        "etcd restart",
        "etcd ends and starts with its data",
        {
            AGENT: proof(_FOLLOWS, f"{_LINKS}::{_ETCD}", _RESUMED_AGENT, within=120, took_seconds=25.8),
            MANAGER: proof(_FOLLOWS, f"{_LINKS}::{_ETCD}", _RESUMED_MANAGER, within=120, took_seconds=0.7),
            EXTENDER: proof(_FOLLOWS, f"{_LINKS}::{_ETCD}", _RESUMED_EXTENDER, within=120, took_seconds=0.1),
            LOAD_WATCHER: _WATCHER_RESUMES,
            WEBHOOK: _WEBHOOK_SERVES,
        },
    ),
    Fault(
        "etcd restore",
        "etcd goes back to an older state",
        {
            AGENT: proof(
                "the older state replaces the known one",
                f"{_LINKS}::{_RESTORE}",
                f"{_VIEW}::test_after_etcd_was_restored_the_older_state_replaces_the_known_one",
                f"{_WATCHES}::test_after_a_restore_of_etcd_a_list_of_an_older_version_replaces_what_is_known",
                within=330,
            ),
            MANAGER: proof(
                "it restarts, reads the older state, and follows edits and reports",
                f"{_LINKS}::{_RESTORE}",
                "tests/manager/cache/test_object_watches.py::test_a_list_of_an_older_version_ends_the_watch_for_a_restart",
                within=330,
            ),
            EXTENDER: proof(
                "the older state replaces the known one",
                f"{_LINKS}::{_RESTORE}",
                _LISTED_EXTENDER,
                within=330,
            ),
            LOAD_WATCHER: _WATCHER_LISTS._replace(within=NOT_TIMED),
            WEBHOOK: proof(
                "it serves the older certificate, and the API server trusts it",
                f"{_STORE}::test_after_etcd_was_restored_the_older_certificate_is_served_and_trusted",
                within=AT_ONCE,
            ),
        },
    ),
    Fault(
        "network partition",
        "two parts do not reach one another",
        {
            AGENT: proof(
                "away from the API server it measures on, and reports once it is back",
                "e2e/cases/faults/test_apiserver_outage.py",
                "e2e/cases/nodes/test_link_cut.py",
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                _RESUMED_AGENT,
                within=120,
                took_seconds=88.4,
            ),
            MANAGER: proof(
                "away from the API server it has ended before another leads; without an agent Mid is withdrawn",
                "tests/manager/test_lease.py::test_a_leader_that_is_cut_off_has_ended_before_another_leads",
                _RESUMED_MANAGER,
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                "e2e/cases/faults/test_agent_away.py",
                "e2e/cases/nodes/test_node_dies.py",
                within=120,
                took_seconds=64.3,
            ),
            EXTENDER: proof(
                "kube-scheduler places pods without it; away from the API server, nodes pass rather than none",
                _WITHOUT_PYTHON,
                "tests/scheduler_plugin/plugins/load_aware/test_plugin.py::test_expired_nodes_pass_while_this_process_does_not_see_the_reports",
                _RESUMED_EXTENDER,
                f"{_LINKS}::test_silent_connections_are_detected_within_two_minutes",
                within=120,
                took_seconds=88.4,
            ),
            LOAD_WATCHER: proof(
                "its watches are resumed after 90 s of silence; without any provider the last windows keep their age",
                _RESUMED_WATCHER,
                "tests/scheduler_plugin/load_watcher/test_watcher.py::test_b2_if_every_provider_fails_the_last_snapshot_keeps_its_age",
                within=_SILENCE_AND_RECOVERY,
            ),
            WEBHOOK: proof(
                "pods are created without it, and limited again once it is back",
                f"{_WEBHOOK}::test_pods_are_created_while_the_webhook_is_away",
                within=30,
            ),
        },
    ),
    Fault(
        "slow scheduler plugin",
        "Python answers later than kube-scheduler waits",
        {
            EXTENDER: proof(
                "pods are placed without it, but Mid pods wait until it answers",
                _WITHOUT_PYTHON,
                within=20,
            ),
            **dict.fromkeys((AGENT, MANAGER, LOAD_WATCHER, WEBHOOK), NotConcerned(_NOT_CALLED)),
        },
    ),
    Fault(
        "garbage on the socket",
        "kube-scheduler or Python gets a torn frame, or one of another version",
        {
            EXTENDER: proof(
                "pods are placed without it, but Mid pods wait until it answers",
                "e2e/cases/scheduler/test_plugin_faults.py::test_a_peer_tears_a_frame",
                "e2e/cases/scheduler/test_plugin_faults.py::test_python_has_another_version",
                within=20,
            ),
            **dict.fromkeys((AGENT, MANAGER, LOAD_WATCHER, WEBHOOK), NotConcerned(_NOT_CALLED)),
        },
    ),
    Fault(
        "provider loss",
        "a source of measurements or a database is away",
        {
            AGENT: proof(
                "without its InfluxDB no report changes and no tick waits",
                "e2e/cases/agent/test_influxdb_history.py::test_a_server_that_never_answers_blocks_no_tick_and_no_shutdown",
                "e2e/cases/agent/test_influxdb_history.py::test_an_outage_longer_than_the_queue_changes_no_report_and_blocks_no_tick",
                within=120,
            ),
            MANAGER: NotConcerned("has no provider"),
            EXTENDER: proof(
                "nodes fall back to requests, and are measured again once the provider is back",
                "e2e/cases/scheduler/test_trimaran_fallback_levels.py::test_nodes_change_their_fallback_level_and_return",
                within=60,
            ),
            LOAD_WATCHER: proof(
                "another provider replaces it; one whose server has stopped fails with its address",
                "tests/scheduler_plugin/load_watcher/test_watcher.py::test_g7_one_provider_replaces_another_that_is_down",
                "e2e/cases/load_watcher/test_prometheus.py::test_it_returns_the_values_of_proc_and_nothing_without_prometheus",
                within=AT_ONCE,
            ),
            WEBHOOK: NotConcerned("has no provider"),
        },
    ),
    Fault(
        "token expiry",
        "the token ends, and its file has another one",
        {
            AGENT: _token(23.4),
            MANAGER: _token(0.9),
            EXTENDER: _token(1.5),
            LOAD_WATCHER: proof(
                "the next request to a provider uses the renewed token, and no log shows either",
                f"{_TOKEN_FILE}::test_a_renewed_token_is_used_by_the_next_request",
                f"{_TOKEN_FILE}::test_without_its_file_a_provider_fails_until_the_file_exists",
                "e2e/cases/load_watcher/test_installed_provider.py",
                within=240,
            ),
            WEBHOOK: _WEBHOOK_SERVES,
        },
    ),
    Fault(
        "certificate rotation",
        "an authority or a certificate is replaced",
        {
            AGENT: proof(
                "the next connection uses it; half replaced files leave the last ones in use", *_RENEWED, within=AT_ONCE
            ),
            MANAGER: proof(
                "its own connections use it at once. kopf's watch of the ConfigMap uses it within 12 minutes, or after "
                "the first 401; the hourly read of the ConfigMap shows edits meanwhile",
                *_RENEWED,
                f"{_KOPF}::test_with_a_token_file_a_new_authority_is_trusted_from_the_next_login_on",
                f"{_KOPF}::test_without_a_token_file_too_a_new_authority_is_trusted_from_the_next_login_on",
                f"{_KOPF}::test_a_new_client_certificate_is_used_where_the_old_one_is_refused",
                "tests/manager/test_assembly.py::test_reads_an_edit_of_the_configuration_that_no_watch_delivered",
                within=720,
            ),
            EXTENDER: proof(
                "it serves new connections with a renewed certificate, and trusts no removed authority",
                "tests/scheduler_plugin/extender/test_server.py::"
                "test_renewed_files_count_for_new_connections_and_unusable_ones_change_nothing",
                f"{_CERTIFICATES}::test_a_new_authority_is_trusted_and_the_old_one_no_longer",
                within=AT_ONCE,
            ),
            LOAD_WATCHER: proof(
                "the next request uses a renewed authority",
                "tests/component_base/test_http_client.py::test_a_renewed_authority_counts_from_the_next_request_on",
                within=AT_ONCE,
            ),
            WEBHOOK: proof(
                "it renews its certificate in time; the one before stays trusted, and no pod is missed",
                "tests/manager/cli/admission/test_certificate.py::test_it_is_renewed_90_days_before_its_end",
                f"{_WEBHOOK}::test_the_certificate_is_kept_and_a_lost_one_is_made_again",
                f"{_WEBHOOK}::test_a_bundle_that_was_overwritten_is_restored",
                within=30,
            ),
        },
    ),
    Fault(
        "RBAC lost and back",
        "a rule of its role is removed, and granted again",
        {
            AGENT: proof(
                "the missing rule is named, patches are tried once in five minutes, and watches go on with the rule",
                _RESUMED_AGENT,
                "tests/koordlet/mid_suppression/test_suppressor.py::test_without_the_right_one_patch_in_five_minutes_and_a_condition",
                "e2e/cases/chart/test_newcomer_errors.py::test_a_service_account_without_rbac",
                within=314,
            ),
            MANAGER: proof(
                "Mid is withdrawn in time, the missing rule is named, and it goes on once the rule is back",
                "tests/manager/test_leader.py::test_reports_a_missing_permission_with_its_rule_and_waits_for_it",
                "tests/manager/slo_config/test_controller.py::test_leads_on_while_the_config_maps_cannot_be_read_and_restores_the_last_good_one_later",
                "e2e/cases/faults/test_withdrawal_under_faults.py",
                within=120,
            ),
            EXTENDER: proof(
                "the missing rule is named, and its watches go on once the rule is back",
                _RESUMED_EXTENDER,
                "e2e/cases/chart/test_newcomer_errors.py::test_a_service_account_without_rbac",
                within=20,
            ),
            LOAD_WATCHER: _WATCHER_RESUMES,
            WEBHOOK: _WEBHOOK_SERVES,
        },
    ),
)
