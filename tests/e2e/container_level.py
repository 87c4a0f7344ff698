"""The tests that do not apply at the level without namespaces, each with the reason.

With SANDPIPER_ISOLATION=container every test starts its servers at that level, and those named here are skipped.
"""
import os
import pathlib
import re

from traces import package_directories

CONTAINER = os.environ.get("SANDPIPER_ISOLATION") == "container"

SHARED = "multiprocessing's locks need /dev/shm, which is granted only if it was empty"
NO_NETWORK = "there is no private loopback, and sockets are refused by family"
LIMITS = "a watchdog polls the disk: it detects an excess afterwards and refuses nothing"
BIG_VALUE = "RLIMIT_DATA makes one big value a MemoryError"
NO_PROC = "code reads /proc, which is closed to it"
MUST = "this level requires Landlock: without it no code runs"
COUNTED = "test_watchdog_limits.py tests limits without a control group"
ASKED = "it tests the selection of a level when none is requested"
OTHER_LAYERS = "it removes namespaces or mounts, which this level does not use"
NO_MOUNTS = "nothing in a writable directory can be made read-only; changes are reported"
DIRECTORY = "the scratch directory and the cleanup helper exist before the first message"

DIFFERENCES = {
    "test_allow_host.AllowHost.test_the_proxy_is_confined": "the egress proxy has no namespaces either",
    "test_allow_host.AllowHost.test_without_the_flag_there_is_no_proxy": NO_NETWORK,
    "test_cli.Doctor.test_exit_status_is_that_of_the_worst_protection": OTHER_LAYERS,
    "test_cli.Doctor.test_doctor_lists_protections_with_consequences": OTHER_LAYERS,
    "test_cli.Doctor.test_the_plan_is_printed_and_changes_nothing": OTHER_LAYERS,
    "test_cli.Words.test_schema_prints_what_tools_list_sends":
        "without a server no scratch directory is known: schema prints that of the other levels",
    "test_compat.Concurrency.test_asyncio_loopback": NO_NETWORK,
    "test_compat.Concurrency.test_asyncio_threads_and_executor": SHARED,
    "test_compat.Concurrency.test_multiprocessing_fork": SHARED,
    "test_compat.Concurrency.test_multiprocessing_forkserver": SHARED,
    "test_compat.Concurrency.test_multiprocessing_pipes_and_locks": SHARED,
    "test_compat.Concurrency.test_multiprocessing_shared_memory": SHARED,
    "test_compat.Concurrency.test_multiprocessing_spawn": SHARED,
    "test_compat.Concurrency.test_process_pool_executor": SHARED,
    "test_compat.Concurrency.test_sockets": NO_NETWORK,
    "test_compat.Library.test_http_over_loopback": NO_NETWORK,
    "test_compat.Library.test_identity_and_randomness": "the users are those of the container",
    "test_compat.Library.test_tls_over_loopback": NO_NETWORK,
    "test_descriptors.Named.test_variables_whose_connections_are_gone": NO_NETWORK,
    "test_descriptors.Numbers.test_any_number_of_open_files": SHARED,
    "test_failover.Failover.test_a_recursive_lock_of_a_process_that_is_gone": SHARED,
    "test_failover.Failover.test_what_no_state_has_for_itself_is_named": SHARED,
    "test_failover.Failover.test_joblibs_tracker_is_started_again": SHARED,
    "test_failover.Failover.test_pools_have_workers_again": SHARED,
    "test_fallbacks.Calls.test_a_missing_call_with_a_fallback_is_replaced": MUST,
    "test_descriptors.Named.test_variables_whose_connections_are_gone": NO_NETWORK,
    "test_descriptors.Numbers.test_any_number_of_open_files": SHARED,
    "test_fallbacks.Calls.test_a_missing_call_without_fallback_stops_all_code": OTHER_LAYERS,
    "test_fallbacks.Mounts.test_missing_mount_calls_are_named_with_the_remedy": OTHER_LAYERS,
    "test_fallbacks.Report.test_control_groups": COUNTED,
    "test_fallbacks.Report.test_landlock": MUST,
    "test_hostile_files.FullDisk.test_a_write_that_does_not_fit_keeps_the_old_file": LIMITS,
    **{f"test_native_threads.Named.test_{name}": "the threads are in /proc, which is closed to code" for name in (
        "a_library_has_the_name_of_its_package", "after_a_crash_before_and_when_it_hangs", "after_undo", "after_restore", "in_a_branch", "in_a_branch_beside_a_job")},
    "test_mounts.Directories.test_open_devices_in_it": "a directory that is not mounted has no nodev: the permissions of a device in it decide",
    "test_mounts.Directories.test_put_another_in_its_place__control": "there is no /data to be listed",
    "test_forged_frames.Forged.test_processes_of_other_sessions_keep_their_oom_score_and_live": NO_PROC,
    "test_forged_frames.Forged.test_exited_processes_free_their_slots": NO_PROC,
    "test_isolation_report.Report.test_a_missing_landlock_is_named_and_can_be_required": MUST,
    "test_isolation_report.Report.test_a_processor_limit_that_cannot_be_kept": OTHER_LAYERS,
    "test_isolation_report.Report.test_a_failed_step_is_reported_as_its_protection": OTHER_LAYERS,
    "test_isolation_report.Report.test_doctor_and_instructions_agree": OTHER_LAYERS,
    "test_isolation_report.Report.test_doctor_reports_facts_beside_the_protections": "code has the same id inside and outside",
    "test_isolation_report.Report.test_landlock_without_effect_is_detected": MUST,
    "test_isolation_report.Report.test_limits_without_a_control_group": COUNTED,
    "test_isolation_report.Report.test_the_sandbox_has_its_own_keyring": "the supervisor has another uid, and keyrings belong to a uid",
    "test_isolation_report.Report.test_a_protection_that_fails_the_self_test_stops_all_code": OTHER_LAYERS,
    "test_interrupts.Moments.test_a_call_for_an_interpreter_that_has_just_died":
        "a stopped supervisor permits no fork: the interpreter blocks while it forks a checkpoint",
    "test_isolation_level.InsideBubblewrap.test_user_namespaces_that_are_left_are_used": ASKED,
    "test_isolation_level.InsideBubblewrap.test_with_user_namespaces_disabled_the_refusal_names_the_option": ASKED,
    "test_isolation_level.Enclosing.test_a_refused_hostname_change_is_reported": ASKED,
    "test_isolation_level.Enclosing.test_best_chooses_the_strongest_level_available": ASKED,
    "test_isolation_level.WithoutProc.test_a_sandbox_without_its_process_monitor_exits": ASKED,
    "test_isolation_level.WithoutProc.test_falls_back_and_reports_it": ASKED,
    "test_isolation_level.WithoutProc.test_memory_is_bounded_without_a_control_group": ASKED,
    "test_isolation_level.WithoutProc.test_multiprocessing_spawns": ASKED,
    "test_isolation_level.WithoutProc.test_full_isolation_on_demand_is_refused": ASKED,
    "test_lifecycle.Ends.test_with_stubborn_code_running": "the supervisor kills its descendants one by one, which takes longer",
    "test_mount.Changing.test_a_file_in_its_place_is_not_shown": "there is no /data to be listed",
    "test_mount.Changing.test_a_directory_that_is_gone_is_missing_for_code": "there is no /data to be listed",
    "test_mount.Changing.test_a_link_in_its_place_is_not_followed": "there is no /data to be listed",
    "test_mount.Shown.test_near_names": "the hint is about names below /data, which is not there",
    "test_mount.Shown.test_no_program_in_it_is_executed": "the hint is about names below /data, which is not there",
    "test_mount.Shown.test_what_is_only_read_cannot_be_written": "a refusal by Landlock looks like one by permissions",
    "test_out_of_memory.OutOfMemory.test_native_code": BIG_VALUE,
    "test_out_of_memory.OutOfMemory.test_one_big_value": BIG_VALUE,
    "test_protocol.Lifecycle.test_nothing_is_set_up_before_the_first_message": DIRECTORY,
    "test_protected_names.Allowed.test_a_hint_names_the_flag": NO_MOUNTS,
    "test_protected_names.HooksPath.test_the_directory_of_core_hookspath": NO_MOUNTS,
    "test_protected_names.Leads.test_a_directory_of_hooks_below_another": NO_MOUNTS,
    "test_protected_names.Leads.test_a_git_directory_of_another_name": NO_MOUNTS,
    "test_protected_names.Leads.test_a_link_into_a_mount": NO_MOUNTS,
    "test_protected_names.Leads.test_a_link_to_a_directory_below_another": NO_MOUNTS,
    "test_protected_names.Leads.test_a_submodule_called_like_a_part_of_git": NO_MOUNTS,
    "test_protected_names.Leads.test_an_absolute_directory_of_hooks": NO_MOUNTS,
    "test_protected_names.Leads.test_an_absolute_link": NO_MOUNTS,
    "test_protected_names.Leads.test_included_settings": NO_MOUNTS,
    "test_protected_names.Leads.test_links_to_links": NO_MOUNTS,
    "test_no_sandbox.Refusals.test_doctor_says_so": OTHER_LAYERS,
    "test_no_sandbox.Refusals.test_run_is_refused_too": OTHER_LAYERS,
    "test_no_sandbox.Refusals.test_without_mount_namespaces": OTHER_LAYERS,
    "test_no_sandbox.Refusals.test_without_user_namespaces": OTHER_LAYERS,
    "test_errors.Hints.test_hints": NO_NETWORK,
    "test_errors.Hints.test_limits_name_themselves": NO_NETWORK,
    "test_language.Language.test_multiprocessing_of_what_a_cell_defined": SHARED,
    "test_language.WhatWorks.test_asyncio_subprocesses_and_loopback_sockets": NO_NETWORK,
    "test_language.WhatWorks.test_multiprocessing_by_fork_and_by_spawn": SHARED,
    "test_language.WhatWorks.test_temporary_files_and_shared_memory": SHARED,
    "test_survivors.Survivors.test_subreaper": "no process may become one",
    "test_failover.Failover.test_kept_after_failover": NO_NETWORK,
    "test_failover.Failover.test_lost_after_failover": SHARED,
    "test_real_libraries.RealLibraries.test_http_server": NO_NETWORK,
    "test_real_libraries.RealLibraries.test_subprocess_and_asyncio": NO_NETWORK,
    "test_kernel_objects.Objects.test_buffers_of_connections_of_the_machine": NO_NETWORK,
    "test_kernel_objects.ObjectsOfTheWatchdog.test_buffers_of_connections_of_the_machine": NO_NETWORK,
    "test_kernel_objects.Objects.test_tcp_connections_that_nobody_accepts": NO_NETWORK,
    "test_kernel_objects.ObjectsOfTheWatchdog.test_tcp_connections_that_nobody_accepts": NO_NETWORK,
    "test_hidden_memory.Uncounted.test_refused_ways_to_hide_memory": NO_NETWORK,
    "test_hidden_memory.Uncounted.test_processes_that_claim_to_be_a_checkpoint": "the watchdog kills the whole session, not one process",
    "test_undo_and_restore.Lost.test_lost_variables_of_later_calls_are_named": NO_PROC,
    "test_undo_and_restore.Lost.test_variables_that_went_back_to_older_values_are_named": NO_PROC,
}


def difference(module, test):
    """The reason why this test does not apply at the requested level, or None. test: "Class.name"."""
    if not CONTAINER:
        return None
    return DIFFERENCES.get(f"{module}.{test}")


def directories(server):
    """{name: path} of /work, /tmp, /tmp/output and /packages in this server's sandbox, where the paths differ."""
    if not CONTAINER:
        return {}
    # A fresh run is not a cell of the session and leaves nothing in it.
    said = server.python("import os; print(os.getcwd(), os.environ['TMPDIR'])", fresh=True).output.split()
    packages = package_directories(server.pid)
    if not packages and "--cache" in server.args:
        # Only root may read descriptors. No other server shares a test's cache.
        packages = pathlib.Path(server.args[server.args.index("--cache") + 1], "boxes").glob("*")
    names = {"/tmp/output": os.path.dirname(said[1]) + "/output", "/work": said[0], "/tmp": said[1]}
    return {**names, **{"/packages": f"{directory}/layers" for directory in packages}}


def where_it_is(text, names):
    """The text with the actual paths of directories: names from directories()."""
    if not names:
        return text
    known = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w.])(?:{known})\b", lambda found: names[found[0]], text)
