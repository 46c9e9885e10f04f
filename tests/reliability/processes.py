"""Faults of a process, of its node, and of what it keeps."""

from __future__ import annotations

from typing import Final

from tests.reliability.cells import Component, CoveredBy, Fault, NotConcerned, Timeless, proof

AGENT, MANAGER, EXTENDER = Component.AGENT, Component.MANAGER, Component.EXTENDER
LOAD_WATCHER, WEBHOOK = Component.LOAD_WATCHER, Component.WEBHOOK
UNINTERRUPTED, AT_ONCE = Timeless.UNINTERRUPTED, Timeless.AT_ONCE

_WITHOUT_PYTHON = "e2e/cases/scheduler/test_plugin_inside.py::test_without_python_only_mid_pods_wait"
_PLUGIN_FAULTS = "e2e/cases/scheduler/test_plugin_faults.py"
_WEBHOOK = "e2e/cases/admission/test_mid_limits_webhook.py"
_UPGRADE = "e2e/cases/chart/test_upgrade.py"
_CHECKPOINT = "tests/koordlet/prediction/test_checkpoint.py"
_CHECKPOINTER = "tests/koordlet/prediction/test_checkpointer.py"
_DATABASE = "tests/scheduler_plugin/load_watcher/test_database.py"
_UNUSABLE_FILE = proof(
    "a file of measurements that cannot be used costs no measurement",
    "tests/scheduler_plugin/plugins/trimaran/test_feed.py::test_a_file_that_cannot_be_used_costs_no_measurement",
    within=UNINTERRUPTED,
)
_STORE = "tests/manager/cli/admission/test_certificate.py"
_CERTIFICATE = "tests/manager/cli/admission/test_certificate.py"
_WATCHER_PROCESS = "tests/scheduler_plugin/load_watcher/test_process.py"
_ENDS_WITH_ITS_NODE = CoveredBy("kill", "it ends with its node")
_NO_FILE = NotConcerned("writes no file")

FAULTS: Final = (
    Fault(
        "kill",
        "the process gets SIGKILL",
        {
            AGENT: proof(
                "it runs again, with a checkpoint its prediction is the same, and a lowered CPU limit stays",
                "e2e/cases/faults/test_agent_killed.py",
                "tests/koordlet/test_agent_process.py::test_an_agent_that_gets_sigkill_predicts_the_same_from_its_checkpoint_once_it_runs_again",
                "e2e/cases/agent/test_mid_suppression_lasts.py::test_a_lowered_limit_outlives_agent_container_and_kubelet",
                within=60,
            ),
            MANAGER: proof(
                "the standby publishes what the newest reports give",
                "e2e/cases/faults/test_leader.py::test_the_standby_writes_the_right_value_within_lease_and_five_seconds",
                "tests/manager/test_lease.py::test_a_candidate_leads_when_the_lease_of_a_dead_leader_has_expired",
                within=20,
            ),
            EXTENDER: proof(
                "pods are placed without it, Mid pods wait; none is lost, and no node is filled as if it were empty",
                f"{_PLUGIN_FAULTS}::test_python_is_killed",
                "e2e/cases/faults/test_plugin_restart.py",
                within=20,
            ),
            LOAD_WATCHER: proof(
                "it serves the windows of its file at once",
                f"{_WATCHER_PROCESS}::test_b6_ends_on_sigterm_and_serves_at_once_after_kill_9",
                f"{_DATABASE}::test_g1_a_killed_writer_leaves_complete_snapshots",
                within=AT_ONCE,
            ),
            WEBHOOK: proof(
                "pods are created without it, and limited again once it is back",
                f"{_WEBHOOK}::test_pods_are_created_while_the_webhook_is_away",
                within=30,
            ),
        },
    ),
    Fault(
        "freeze",
        "the process is stopped and resumed",
        {
            AGENT: proof(
                "it reports again, in order, and records at most one missed training",
                "tests/koordlet/test_agent_process.py::test_an_agent_that_was_frozen_reports_again_in_order",
                "tests/koordlet/prediction/test_usage_models.py::test_a_suspended_machine_records_at_most_one_missed_training",
                within=60,
            ),
            MANAGER: proof(
                "another leads, and the resumed one writes nothing",
                "e2e/cases/faults/test_leader.py::test_it_writes_nothing_after_its_successors_first_write",
                "tests/manager/test_lease.py::test_a_resumed_process_may_not_write_before_it_has_read_the_lease",
                within=30,
            ),
            EXTENDER: proof(
                "pods are placed without it, but Mid pods wait until it answers",
                _WITHOUT_PYTHON,
                f"{_PLUGIN_FAULTS}::test_python_hangs",
                within=60,
            ),
            LOAD_WATCHER: proof(
                "it answers again, and renews its windows",
                f"{_WATCHER_PROCESS}::test_b6_a_frozen_process_answers_again_and_renews_its_windows",
                within=30,
            ),
            WEBHOOK: proof(
                "pods are created without it, and limited again once it is back",
                f"{_WEBHOOK}::test_pods_are_created_while_the_webhook_is_away",
                within=30,
            ),
        },
    ),
    Fault(
        "disk full",
        "a write fails with ENOSPC",
        {
            AGENT: proof(
                "the last checkpoint stays, and a condition names the disk",
                f"{_CHECKPOINT}::test_a_full_disk_is_reported_and_leaves_the_old_checkpoint",
                f"{_CHECKPOINT}::test_errors_of_the_disk_have_a_reason_each",
                within=UNINTERRUPTED,
            ),
            MANAGER: _NO_FILE,
            EXTENDER: _UNUSABLE_FILE,
            LOAD_WATCHER: proof(
                "it reports the disk and keeps the rows that it has",
                f"{_DATABASE}::test_reports_a_full_disk_and_keeps_the_existing_rows",
                within=UNINTERRUPTED,
            ),
            WEBHOOK: proof(
                "the certificate before is served, and the renewed one once there is room",
                f"{_STORE}::test_on_a_full_disk_the_certificate_before_is_served_and_the_renewed_one_once_there_is_room",
                within=AT_ONCE,
            ),
        },
    ),
    Fault(
        "read-only file system",
        "its folder cannot be written",
        {
            AGENT: proof(
                "the history stays in memory, and the reason is reported",
                f"{_CHECKPOINTER}::test_an_unwritable_folder_keeps_history_in_memory_only",
                f"{_CHECKPOINTER}::test_an_unwritable_folder_is_reported_at_start",
                "e2e/cases/chart/test_newcomer_errors.py::test_a_state_folder_that_cannot_be_written",
                within=UNINTERRUPTED,
            ),
            MANAGER: _NO_FILE,
            EXTENDER: _UNUSABLE_FILE,
            LOAD_WATCHER: proof(
                "it runs in memory",
                "tests/scheduler_plugin/load_watcher/test_watcher.py::test_runs_in_memory_without_a_usable_file",
                within=UNINTERRUPTED,
            ),
            WEBHOOK: proof(
                "it is not ready, names the folder, and begins once the folder can be written",
                f"{_STORE}::test_a_replica_that_cannot_begin_names_the_reason_and_begins_by_itself",
                within=20,
            ),
        },
    ),
    Fault(
        "corrupt state",
        "what it has stored is truncated, changed or not its own",
        {
            AGENT: proof(
                "the checkpoint is refused with path and reason, or the change is harmless",
                f"{_CHECKPOINT}::test_a_corrupt_file_is_refused_with_path_and_reason_and_replaced_at_the_next_save",
                f"{_CHECKPOINT}::test_an_agent_starts_without_history_from_values_that_no_agent_recorded_and_replaces_them",
                within=AT_ONCE,
            ),
            MANAGER: proof(
                "a stored configuration or annotation that cannot be used counts as none, and is named",
                "tests/manager/slo_config/test_controller.py::test_reports_a_stored_document_that_is_no_longer_valid",
                "tests/manager/test_hostile_nodes.py::test_a_status_annotation_that_is_too_long_is_none",
                within=UNINTERRUPTED,
            ),
            EXTENDER: _UNUSABLE_FILE,
            LOAD_WATCHER: proof(
                "the file is renamed, and a new one begun",
                f"{_DATABASE}::test_renames_a_file_that_is_not_a_database_and_creates_a_new_one",
                f"{_DATABASE}::test_renames_a_file_with_unreadable_rows",
                f"{_DATABASE}::test_renames_a_file_with_a_foreign_or_broken_schema",
                within=AT_ONCE,
            ),
            WEBHOOK: proof(
                "a certificate that is not usable is made again, while the one before stays trusted",
                f"{_CERTIFICATE}::test_what_a_secret_may_hold_by_mistake_is_made_again",
                f"{_WEBHOOK}::test_the_certificate_is_kept_and_a_lost_one_is_made_again",
                within=30,
            ),
        },
    ),
    Fault(
        "clock step",
        "the wall clock of its node is set",
        {
            AGENT: proof(
                "samples keep their ages, no pod becomes warm, and no limit moves",
                "tests/koordlet/prediction/test_usage_models.py::test_a_step_of_the_clock_neither_warms_nor_ages_a_series",
                "tests/koordlet/test_node_observer.py::test_samples_keep_their_ages_when_the_clock_is_set",
                "tests/koordlet/mid_suppression/test_suppressor.py::test_a_clock_that_is_set_changes_nothing",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "a wrong clock is named, and holds up no write",
                "tests/manager/mid_resource/test_clock_skew.py",
                "e2e/cases/nodes/test_clock_set_back.py",
                "tests/manager/mid_resource/test_write_pace.py::test_a_recreated_node_and_a_clock_that_is_set_back_hold_nothing_up",
                within=UNINTERRUPTED,
            ),
            EXTENDER: proof(
                "assumed pods and the guard follow a clock that cannot be set",
                "tests/scheduler_plugin/state/test_cluster.py::test_a_repeated_choice_renews_the_expiry_and_a_clock_that_was_set_does_not",
                "tests/scheduler_plugin/plugins/test_mid_guard.py::test_nothing_is_left_after_the_degrade_time_by_the_guards_own_clock",
                within=UNINTERRUPTED,
            ),
            LOAD_WATCHER: proof(
                "windows of the future end now, and stored ones are ignored",
                "tests/scheduler_plugin/load_watcher/test_watcher.py::test_an_end_in_the_future_counts_as_now",
                f"{_DATABASE}::test_ignores_snapshots_from_the_future",
                within=AT_ONCE,
            ),
            WEBHOOK: proof(
                "the clock of the API server decides when its certificate is renewed; a wrong one of the node is named",
                "tests/manager/cli/admission/test_certificate.py::"
                "test_replicas_whose_clocks_differ_renew_nothing_in_turns",
                within=UNINTERRUPTED,
            ),
        },
    ),
    Fault(
        "kubelet restart",
        "the kubelet of a node ends and starts",
        {
            AGENT: proof(
                "a lowered CPU limit stays in the kernel; a kubelet that starts later is found",
                "e2e/cases/agent/test_mid_suppression_lasts.py::test_a_lowered_limit_outlives_agent_container_and_kubelet",
                "tests/koordlet/collectors/cgroup/test_discovery.py::test_a_kubelet_that_starts_later_is_found_by_the_next_full_scan",
                within=UNINTERRUPTED,
            ),
            MANAGER: proof(
                "Mid pods that run are admitted again, by the floor",
                "e2e/cases/manager/test_colocation_off_with_mid_pod_running.py::test_the_pod_survives_a_restart_of_the_kubelet",
                "e2e/cases/faults/test_agent_away.py",
                within=150,
            ),
            EXTENDER: NotConcerned("talks to the API server only"),
            LOAD_WATCHER: NotConcerned("talks to the API server and to providers only"),
            WEBHOOK: NotConcerned("called by the API server only"),
        },
    ),
    Fault(
        "containerd restart",
        "the container runtime of a node ends and starts",
        {
            AGENT: proof(
                "reports go on without it, and a running Mid pod keeps its container and its CPU quota",
                "e2e/cases/faults/test_containerd_restart.py",
                "e2e/cases/nodes/test_systemd_and_containerd.py",
                within=UNINTERRUPTED,
            ),
            MANAGER: NotConcerned("talks to the API server only"),
            EXTENDER: NotConcerned("talks to the API server only"),
            LOAD_WATCHER: NotConcerned("talks to the API server and to providers only"),
            WEBHOOK: NotConcerned("called by the API server only"),
        },
    ),
    Fault(
        "node reboot",
        "the machine starts again, with any clock",
        {
            AGENT: proof(
                "the history goes on, and ages by a day at most; no machine is rebooted by a test",
                "tests/koordlet/prediction/test_usage_models.py::test_after_a_reboot_with_any_clock_the_history_goes_on_and_ages_by_a_day_at_most",
                "tests/koordlet/prediction/test_evaluation.py::test_scores_age_by_a_day_at_most_after_a_boot_in_another_century",
                within=AT_ONCE,
            ),
            MANAGER: _ENDS_WITH_ITS_NODE,
            EXTENDER: _ENDS_WITH_ITS_NODE,
            LOAD_WATCHER: _ENDS_WITH_ITS_NODE,
            WEBHOOK: _ENDS_WITH_ITS_NODE,
        },
    ),
    Fault(
        "rolling upgrade",
        "parts of two versions run beside one another",
        {
            AGENT: proof(
                "it refuses a checkpoint of another version; one of its own keeps the history",
                f"{_CHECKPOINT}::test_a_corrupt_file_is_refused_with_path_and_reason_and_replaced_at_the_next_save",
                f"{_UPGRADE}::test_an_upgrade_that_replaces_every_pod_keeps_edits_predictions_and_mid",
                within=150,
            ),
            MANAGER: proof(
                "Mid stays published, for each node what its own agent's version reports",
                "tests/manager/mid_resource/test_mixed_versions.py",
                f"{_UPGRADE}::test_an_upgrade_that_replaces_every_pod_keeps_edits_predictions_and_mid",
                f"{_UPGRADE}::test_a_rollback_to_the_version_before_keeps_mid_and_the_running_mid_pod",
                within=UNINTERRUPTED,
            ),
            EXTENDER: CoveredBy(
                "kill", "its pod is replaced with that of kube-scheduler, and two versions share no state"
            ),
            LOAD_WATCHER: proof(
                "a file of a later version is renamed",
                f"{_DATABASE}::test_renames_a_file_of_a_later_version",
                within=AT_ONCE,
            ),
            WEBHOOK: proof(
                "a replica that ends answers until no review is sent to it; versions share nothing but the certificate",
                f"{_WEBHOOK}::test_a_webhook_that_ends_limits_the_pods_of_the_next_seconds",
                within=UNINTERRUPTED,
            ),
        },
    ),
)
