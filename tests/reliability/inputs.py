"""Faults of what a component reads: configuration, the CRD, and stale, hostile or foreign inputs."""

from __future__ import annotations

from typing import Final

from tests.reliability.cells import Component, Fault, NotConcerned, Timeless, proof

AGENT, MANAGER, EXTENDER = Component.AGENT, Component.MANAGER, Component.EXTENDER
LOAD_WATCHER, WEBHOOK = Component.LOAD_WATCHER, Component.WEBHOOK
UNINTERRUPTED, AT_ONCE, NOT_TIMED = Timeless.UNINTERRUPTED, Timeless.AT_ONCE, Timeless.NOT_TIMED

_OBSERVER = "tests/koordlet/test_node_observer.py"
_VIEW = "tests/koordlet/cluster/test_view.py"
_CONFIG_MAP = "e2e/cases/faults/test_config_map_faults.py"
_CRD = "e2e/cases/faults/test_crd_missing.py"
_HTTP_SOURCE = "tests/component_base/test_http_client.py"
_DEEP = "tests/apiserver_client/test_decoding.py::test_a_deep_object_does_not_affect_the_others_of_its_page"
_WATCHER = "tests/scheduler_plugin/load_watcher/test_watcher.py"
_EMERGENCY = "tests/scheduler_plugin/state/test_mid_watches.py"
_BY_FLAGS = NotConcerned("configured by its flags alone")

FAULTS: Final = (
    Fault(
        "broken configuration",
        "a document, a NodeMetric's spec or a file is not valid",
        {
            AGENT: proof(
                "the spec before stays in force, and a condition names the field",
                f"{_VIEW}::test_an_invalid_spec_leaves_the_previous_one_in_force",
                "tests/koordlet/report/test_builder.py::test_what_is_wrong_with_the_spec_is_a_condition",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "the last good one stays in force, also over a restart, and an Event names the key",
                f"{_CONFIG_MAP}::test_a_broken_one_is_reported_with_path_value_and_expected_range",
                f"{_CONFIG_MAP}::test_the_last_good_one_stays_in_force_over_a_restart_of_the_manager",
                "e2e/cases/manager/test_config_reaches_agents_and_nodes.py::test_an_invalid_edit_changes_nothing_and_is_reported_by_an_event",
                within=60,
            ),
            EXTENDER: proof(
                "an emergency that is not valid is ignored; thresholds of a node that are nonsense change nothing",
                f"{_EMERGENCY}::test_freezes_and_thaws_within_a_moment_and_ignores_what_is_not_valid",
                "e2e/cases/scheduler/test_load_aware_node_thresholds.py::test_nonsense_changes_nothing",
                within=UNINTERRUPTED,
            ),
            LOAD_WATCHER: proof(
                "every problem of the file is named with its path, at the start",
                "tests/scheduler_plugin/load_watcher/test_settings.py::test_reports_every_problem_of_the_file_with_its_path",
                within=AT_ONCE,
            ),
            WEBHOOK: _BY_FLAGS,
        },
    ),
    Fault(
        "replaced configuration",
        "the ConfigMap is deleted and created",
        {
            AGENT: NotConcerned("reads the NodeMetric that the manager writes"),
            MANAGER: proof(
                "nothing is switched off; a deletion counts after a minute, and a restored one is followed",
                "e2e/cases/faults/test_config_map_replaced.py",
                f"{_CONFIG_MAP}::test_a_deleted_one_is_reported_and_changes_nothing_also_over_a_restart",
                f"{_CONFIG_MAP}::test_with_a_restored_one_mid_is_published_again",
                "tests/manager/slo_config/test_config_replacements.py",
                within=60,
            ),
            EXTENDER: proof(
                "without the document nothing is frozen any more",
                f"{_EMERGENCY}::test_freezes_and_thaws_within_a_moment_and_ignores_what_is_not_valid",
                within=20,
            ),
            LOAD_WATCHER: _BY_FLAGS,
            WEBHOOK: _BY_FLAGS,
        },
    ),
    Fault(
        "CRD gone",
        "the CRD of NodeMetric is deleted, and created again",
        {
            AGENT: proof(
                "the fix is named, no restart, and the next report comes by itself",
                f"{_CRD}::test_each_component_reports_what_is_missing_and_the_fix",
                f"{_CRD}::test_every_component_continues_after_the_crd_is_created",
                f"{_CRD}::test_agent_and_scheduler_did_not_restart",
                within=150,
            ),
            MANAGER: proof(
                "Mid is withdrawn by the age of the last sample, also by a manager that starts without the CRD",
                f"{_CRD}::test_mid_is_withdrawn_when_the_last_sample_is_too_old",
                f"{_CRD}::test_a_manager_that_starts_without_the_crd_leads_and_withdraws",
                "tests/manager/test_leader.py::test_a_crd_that_is_deleted_and_created_again_ends_no_leader",
                within=90,
            ),
            EXTENDER: proof(
                "the fix is named, no restart, and kube-scheduler does not wait without limit",
                f"{_CRD}::test_each_component_reports_what_is_missing_and_the_fix",
                f"{_CRD}::test_agent_and_scheduler_did_not_restart",
                "tests/scheduler_plugin/app/test_extender_app.py::test_kube_scheduler_does_not_wait_without_limit_for_a_missing_crd",
                within=NOT_TIMED,
            ),
            LOAD_WATCHER: proof(
                "it follows nodes meanwhile, and reports once the CRD is back",
                "tests/scheduler_plugin/load_watcher/test_informer.py::test_reports_return_with_their_crd_and_nodes_are_followed_meanwhile",
                within=20,
            ),
            WEBHOOK: NotConcerned("reads no NodeMetric"),
        },
    ),
    Fault(
        "stale inputs",
        "what it reads is not renewed",
        {
            AGENT: proof(
                "a pod that cannot be measured is charged its request; before the first list no class is learnt",
                f"{_OBSERVER}::test_a_bound_pod_that_stays_unreadable_is_charged_its_request_and_named",
                f"{_OBSERVER}::test_short_pods_one_after_the_other_do_not_end_the_prediction",
                "tests/koordlet/metric_cache/test_series.py::test_before_the_first_list_of_pods_no_class_is_known",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "Mid is withdrawn when the last sample is too old, and running Mid pods stay",
                "e2e/cases/faults/test_agent_away.py",
                "tests/manager/mid_resource/test_controller.py::test_an_old_sample_withdraws_to_the_bound_requests_and_then_removes_the_keys",
                within=120,
            ),
            EXTENDER: proof(
                "a stale report counts as configured; where most are stale, pods are scheduled all the same",
                "e2e/cases/scheduler/test_load_aware_stale_reports.py",
                "e2e/cases/scheduler/test_blindness.py",
                within=30,
            ),
            LOAD_WATCHER: proof(
                "windows keep their age, and a source without changes is left out",
                f"{_WATCHER}::test_b2_if_every_provider_fails_the_last_snapshot_keeps_its_age",
                f"{_WATCHER}::test_g8_a_source_without_changes_for_twice_the_age_limit_is_dropped_until_it_changes",
                within=UNINTERRUPTED,
            ),
            WEBHOOK: NotConcerned("reads the pod of the request only"),
        },
    ),
    Fault(
        "hostile inputs",
        "a tenant, a node or a peer sends what harms most",
        {
            AGENT: proof(
                "a pod gets no UID of another one, moves no usage out of Prod, and is read however deep its fields are"
                "; an error of one pod ends no watch",
                "tests/koordlet/cluster/test_pods.py::test_the_uid_of_a_pod_is_never_given_to_another_whatever_the_order",
                "tests/koordlet/cluster/test_pods.py::test_an_annotation_moves_no_usage_out_of_prod_and_makes_nothing_reclaimable",
                "tests/component_base/test_http_endpoint.py::test_thousands_of_slow_clients_are_all_closed_and_cost_little_while_probes_are_answered",
                _DEEP,
                "tests/koordlet/cluster/test_view.py::test_an_unexpected_error_of_one_pod_ends_no_watch",
                "e2e/cases/faults/test_deep_fields.py",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "work, memory and Events of a node are bounded; reports that are impossible change nothing; a pod that "
                "cannot be read keeps no other limit low",
                "tests/manager/test_hostile_nodes.py",
                _DEEP,
                "tests/manager/cli/test_lowered_limits.py::test_a_key_of_managed_fields_that_is_too_deep_keeps_no_other_limit_low",
                "e2e/cases/faults/test_deep_fields.py",
                "e2e/cases/faults/test_nonsense_reports.py",
                within=UNINTERRUPTED,
            ),
            EXTENDER: proof(
                "any bytes get JSON or a refusal with the cause",
                "tests/scheduler_plugin/extender/test_verbs.py::test_any_bytes_give_json_or_are_refused",
                _DEEP,
                "e2e/cases/faults/test_deep_fields.py",
                within=UNINTERRUPTED,
            ),
            LOAD_WATCHER: proof(
                "an endless response fails at a size; a node gets no series of another one",
                f"{_HTTP_SOURCE}::test_an_endless_response_fails_at_the_size_limit",
                "tests/scheduler_plugin/load_watcher/test_known_nodes.py::test_a_node_that_claims_what_another_has_gets_nothing_of_it",
                within=UNINTERRUPTED,
            ),
            WEBHOOK: proof(
                "nonsense is answered, changes nothing and stays in no memory",
                "e2e/cases/admission/test_mid_limits_webhook.py::test_nonsense_from_any_client_is_answered_and_changes_nothing",
                "tests/manager/cli/admission/test_webhook.py::test_a_client_gets_400_for_anything_but_a_creation",
                within=UNINTERRUPTED,
            ),
        },
    ),
    Fault(
        "upstream-shaped inputs",
        "objects, configurations and callers of Koordinator and Trimaran, as they are",
        {
            AGENT: proof(
                "without a policy Koordinator's defaults are in force",
                "tests/koordlet/cluster/test_spec_in_force.py::test_without_a_policy_the_defaults_of_koordinator_are_in_force",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "Mid follows from a report of Koordinator's agent, and beside its CRD",
                "e2e/cases/manager/test_upstream_agent.py",
                "e2e/cases/manager/test_foreign_crd.py",
                "e2e/cases/scheduler/test_upstream_configurations.py",
                within=20,
            ),
            EXTENDER: proof(
                "documented configurations load unchanged; reports of Koordinator's agent are guarded",
                "tests/scheduler_plugin/config/test_loader.py::test_a_documented_upstream_configuration_filters_and_scores_and_the_extender_is_advised",
                "tests/scheduler_plugin/plugins/test_mid_guard.py::test_upstreams_agent_is_guarded_where_its_report_suffices",
                within=UNINTERRUPTED,
            ),
            LOAD_WATCHER: proof(
                "Trimaran's client reads its document",
                "tests/scheduler_plugin/load_watcher/test_stock_client.py",
                within=UNINTERRUPTED,
            ),
            WEBHOOK: proof(
                "beside Koordinator's pod webhook nothing sets limits, and the notes warn",
                "e2e/cases/admission/test_chart_admission.py::test_beside_koordinators_pod_webhook_nothing_sets_limits_and_the_notes_warn",
                within=UNINTERRUPTED,
            ),
        },
    ),
)
