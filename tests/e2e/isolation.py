"""Where the grade without namespaces differs on purpose: tests that are not for it, each with the reason.

SANDPIPER_ISOLATION=container makes every test start its servers so; those named here are skipped then.
"""
import os
import re

from traces import package_folder_below, package_folders

CONTAINER = os.environ.get("SANDPIPER_ISOLATION") == "container"

SHARED = "multiprocessing's locks need /dev/shm, which is granted only where it was empty"
NO_NETWORK = "there is no loopback of its own, and sockets are refused by their family"
LIMITS = "a watchdog looks at the disk now and then: what goes beyond is met afterwards, not refused"
BIG_VALUE = "RLIMIT_DATA makes one big value a MemoryError"
NO_PROC = "code looks into /proc, which is closed to it"
MUST = "Landlock is what this grade stands on: without it no code runs"
COUNTED = "limits without a control group are those of test_container_limits.py"
ASKED = "it is about which grade comes where none was asked for by name"
OTHER_LAYERS = "it takes namespaces or mounts away, which this grade has not"
NO_MOUNTS = "nothing in a writable directory can be made read-only; changes are reported"
FOLDER = "the folder for its files is there, with its sweeper, before the first message"

DIFFERENCES = {
    "test_allow_host.AllowHost.test_what_confines_it": "the broker has no namespaces either",
    "test_allow_host.AllowHost.test_without_the_flag_there_is_no_proxy": NO_NETWORK,
    "test_cli.Doctor.test_exit_status_is_that_of_the_worst_layer": OTHER_LAYERS,
    "test_cli.Doctor.test_it_lists_the_layers_with_their_consequence": OTHER_LAYERS,
    "test_cli.Doctor.test_the_plan_is_printed_and_changes_nothing": OTHER_LAYERS,
    "test_cli.Words.test_schema_prints_what_tools_list_sends":
        "without a server no folder is known: schema prints that of the other grades",
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
    "test_fallbacks.Calls.test_calls_that_have_a_fallback": MUST,
    "test_fallbacks.Calls.test_calls_without_which_no_code_runs": OTHER_LAYERS,
    "test_fallbacks.Mounts.test_mounts_below_a_tree_are_restricted_too": OTHER_LAYERS,
    "test_fallbacks.Mounts.test_roots_own_workspace_is_refused_with_the_remedy": OTHER_LAYERS,
    "test_fallbacks.Mounts.test_the_view_is_the_same": OTHER_LAYERS,
    "test_fallbacks.Told.test_control_groups": COUNTED,
    "test_fallbacks.Told.test_landlock": MUST,
    "test_fallbacks.Told.test_plan_without_the_mount_calls": OTHER_LAYERS,
    "test_files_hostile.FullDisk.test_a_write_that_does_not_fit_leaves_what_was_there": LIMITS,
    "test_folders.Folders.test_open_devices_in_it": "a folder that is not mounted has no nodev: the permissions of a device in it decide",
    "test_folders.Folders.test_put_another_in_its_place__control": "there is no /data to be listed",
    "test_forged.Forged.test_processes_of_others_are_neither_offered_to_the_kernel_nor_killed": NO_PROC,
    "test_forged.Forged.test_processes_that_are_gone_leave_room": NO_PROC,
    "test_grade.Grade.test_a_missing_landlock_is_named_and_can_be_required": MUST,
    "test_grade.Grade.test_a_processor_limit_that_cannot_be_kept": OTHER_LAYERS,
    "test_grade.Grade.test_a_step_that_cannot_be_done_is_its_layers_refusal": OTHER_LAYERS,
    "test_grade.Grade.test_all_voices_say_the_same": OTHER_LAYERS,
    "test_grade.Grade.test_facts_beside_the_layers": "code has the same id inside and outside",
    "test_grade.Grade.test_landlock_that_does_not_take_hold_is_noticed": MUST,
    "test_grade.Grade.test_limits_without_a_control_group": COUNTED,
    "test_grade.Grade.test_the_box_has_a_keyring_of_its_own": "the guardian has one more id, and keyrings are those of the id",
    "test_grade.Grade.test_what_cannot_be_proven_is_refused": OTHER_LAYERS,
    "test_interrupts.Moments.test_a_call_for_an_interpreter_that_has_just_died":
        "a held guardian lets nobody be born: the interpreter waits in the midst of its copy",
    "test_isolation.InsideBubblewrap.test_user_namespaces_that_are_left_are_used": ASKED,
    "test_isolation.InsideBubblewrap.test_without_any_the_refusal_says_what_to_leave_out": ASKED,
    "test_isolation.Surroundings.test_a_refused_host_name_is_kept_and_named": ASKED,
    "test_isolation.Surroundings.test_the_best_that_can_be_had": ASKED,
    "test_isolation.WithoutProc.test_a_box_that_nobody_watches_ends": ASKED,
    "test_isolation.WithoutProc.test_it_is_stepped_down_to_and_said_by_all": ASKED,
    "test_isolation.WithoutProc.test_memory_is_bounded_without_a_control_group": ASKED,
    "test_isolation.WithoutProc.test_multiprocessing_spawns": ASKED,
    "test_isolation.WithoutProc.test_who_insists_on_all_is_refused": ASKED,
    "test_lifecycle.Ends.test_with_stubborn_code_running": "the guardian ends its descendants one by one, which takes longer",
    "test_limits.Limits.test_number_of_files": LIMITS,
    "test_mount.Changing.test_a_file_in_its_place_is_not_shown": "there is no /data to be listed",
    "test_mount.Changing.test_a_folder_that_is_gone_is_missing_for_code": "there is no /data to be listed",
    "test_mount.Changing.test_a_link_in_its_place_is_not_followed": "there is no /data to be listed",
    "test_mount.Shown.test_near_names": "the hint is about names below /data, which is not there",
    "test_mount.Shown.test_no_program_in_it_is_executed": "the hint is about names below /data, which is not there",
    "test_mount.Shown.test_what_is_only_read_cannot_be_written": "a refusal by Landlock is not told from one by permissions",
    "test_out_of_memory.OutOfMemory.test_native_code": BIG_VALUE,
    "test_out_of_memory.OutOfMemory.test_one_big_value": BIG_VALUE,
    "test_protocol.Lifecycle.test_nothing_is_set_up_before_the_first_message": FOLDER,
    "test_protected.Allowed.test_a_hint_names_the_flag": NO_MOUNTS,
    "test_protected.HooksPath.test_the_directory_that_git_is_told_to_take_hooks_from": NO_MOUNTS,
    "test_protected.Leads.test_a_directory_of_hooks_below_another": NO_MOUNTS,
    "test_protected.Leads.test_a_git_directory_of_another_name": NO_MOUNTS,
    "test_protected.Leads.test_a_link_into_a_mount": NO_MOUNTS,
    "test_protected.Leads.test_a_link_to_a_directory_below_another": NO_MOUNTS,
    "test_protected.Leads.test_a_submodule_called_like_a_part_of_git": NO_MOUNTS,
    "test_protected.Leads.test_an_absolute_directory_of_hooks": NO_MOUNTS,
    "test_protected.Leads.test_an_absolute_link": NO_MOUNTS,
    "test_protected.Leads.test_included_settings": NO_MOUNTS,
    "test_protected.Leads.test_links_to_links": NO_MOUNTS,
    "test_refusals.Refusals.test_doctor_says_so": OTHER_LAYERS,
    "test_refusals.Refusals.test_run_does_not_run_either": OTHER_LAYERS,
    "test_refusals.Refusals.test_without_mount_namespaces": OTHER_LAYERS,
    "test_refusals.Refusals.test_without_user_namespaces": OTHER_LAYERS,
    "test_results.Reports.test_hints": NO_NETWORK,
    "test_results_told.Hints.test_limits_name_themselves": NO_NETWORK,
    "test_results_told.Language.test_multiprocessing_of_what_a_cell_defined": SHARED,
    "test_run_python.WhatWorks.test_asyncio_subprocesses_and_loopback_sockets": NO_NETWORK,
    "test_run_python.WhatWorks.test_multiprocessing_by_fork_and_by_spawn": SHARED,
    "test_run_python.WhatWorks.test_temporary_files_and_shared_memory": SHARED,
    "test_survivors.Survivors.test_subreaper": "nobody may become one",
    "test_takeover.TakeOver.test_kept": NO_NETWORK,
    "test_takeover.TakeOver.test_lost": SHARED,
    "test_uncounted_objects.Objects.test_tcp_connections_that_nobody_accepts": NO_NETWORK,
    "test_uncounted_objects.ObjectsOfTheWatchdog.test_tcp_connections_that_nobody_accepts": NO_NETWORK,
    "test_uncounted.Uncounted.test_ways_that_are_shut": NO_NETWORK,
    "test_uncounted.Uncounted.test_what_passes_for_a_checkpoint": "what the watchdog meets costs the whole session, not one process",
}


def difference(module, test):
    """Why this test is not for the grade that is asked for, or None. test: "Class.name"."""
    if not CONTAINER:
        return None
    return DIFFERENCES.get(f"{module}.{test}")


def folders(server):
    """How /work, /tmp, /tmp/output and /packages are called in this server's sandbox, where that is otherwise."""
    if not CONTAINER:
        return {}
    # A fresh run: it is no cell of the session, and leaves nothing in it.
    said = server.python("import os; print(os.getcwd(), os.environ['TMPDIR'])", fresh=True).output.split()
    packages = package_folders(server.pid)
    if not packages and "--cache" in server.args:
        packages = package_folder_below(server.args[server.args.index("--cache") + 1], server.pid)
    names = {"/tmp/output": os.path.dirname(said[1]) + "/output", "/work": said[0], "/tmp": said[1]}
    return {**names, **{"/packages": f"{folder}/layers" for folder in packages}}


def where_it_is(text, names):
    """The text, with folders called as they are: names from folders()."""
    if not names:
        return text
    known = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w.])(?:{known})\b", lambda found: names[found[0]], text)
