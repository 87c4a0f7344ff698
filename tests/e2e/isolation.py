"""Where the grade without namespaces differs on purpose: tests that are not for it, each with the reason.

SANDPIPER_ISOLATION=container makes every test start its servers so; those named here are skipped then. A
name ends with * where all that begin so are meant.
"""
import os
import re

CONTAINER = os.environ.get("SANDPIPER_ISOLATION") == "container"

PATHS = "code sees the host's own paths: its folder is not /work, nor /tmp its temporary folder"
SHARED = "multiprocessing's locks need /dev/shm, which is granted only where it was empty"
NO_NETWORK = "there is no loopback of its own, and sockets are refused by their family"
LIMITS = "a watchdog bounds what a tmpfs bounds elsewhere: other words, other files"
NO_PROC = "code looks into /proc, which is closed to it"
OTHER_LAYERS = "it takes namespaces or mounts away, which this grade has not"
FOLDER = "the folder for its files is there, with its sweeper, before the first message"
HELPERS = "the test finds the sandbox by its pid namespace"

DIFFERENCES = {
    "test_allow_host.AllowHost.test_what_confines_it": "the broker has no namespaces either",
    "test_allow_host.AllowHost.test_without_the_flag_there_is_no_proxy": NO_NETWORK,
    "test_checkpoints.TakeOver.test_random_state_and_directory_come_back": PATHS,
    "test_cli.Doctor.test_exit_status_is_that_of_the_worst_layer": OTHER_LAYERS,
    "test_cli.Doctor.test_it_lists_the_layers_with_their_consequence": OTHER_LAYERS,
    "test_cli.Doctor.test_the_plan_is_printed_and_changes_nothing": OTHER_LAYERS,
    "test_cli.Words.test_schema_prints_what_tools_list_sends": PATHS,
    "test_compat.Concurrency.test_asyncio_loopback": NO_NETWORK,
    "test_compat.Concurrency.test_asyncio_threads_and_executor": SHARED,
    "test_compat.Concurrency.test_multiprocessing_*": SHARED,
    "test_compat.Concurrency.test_process_pool_executor": SHARED,
    "test_compat.Concurrency.test_sockets": NO_NETWORK,
    "test_compat.Library.test_http_over_loopback": NO_NETWORK,
    "test_compat.Library.test_identity_and_randomness": "the users are those of the container",
    "test_compat.Library.test_tls_over_loopback": NO_NETWORK,
    "test_crashes.*": PATHS,
    "test_fallbacks.*": OTHER_LAYERS,
    "test_files_hostile.AnyTime.test_the_longest_path_is_a_path": PATHS,
    "test_files_hostile.FullDisk.*": LIMITS,
    "test_files_hostile.Odd.test_links_inside_are_followed": PATHS,
    "test_files_read.Kinds.test_reading_an_image_leaves_the_session_as_it_is": PATHS,
    "test_folders.*": PATHS,
    "test_grade.*": OTHER_LAYERS,
    "test_forged.Forged.test_processes_of_others_are_neither_offered_to_the_kernel_nor_killed": PATHS,
    "test_forged.Forged.test_processes_that_are_gone_leave_room": NO_PROC,
    "test_hostile.Planted.test_a_very_deep_folder": "its files are on a disk, where removing takes longer",
    "test_hosts.Taken.test_much_output_with_pictures": PATHS,
    "test_install.Offline.test_a_package_larger_than_its_disk_leaves_nothing": LIMITS,
    "test_install.Offline.test_from_the_call_to_the_import_and_through_the_life_of_a_session": PATHS,
    "test_install.Offline.test_what_cannot_be_says_why_and_changes_nothing": PATHS,
    "test_install.WithIndex.test_others_are_answered_meanwhile_and_a_second_install_waits": PATHS,
    "test_install.WithIndex.test_over_the_broker_with_credentials_that_nobody_sees": PATHS,
    "test_interrupts.Moments.*": HELPERS,
    "test_isolation.*": OTHER_LAYERS,
    "test_lifecycle.Ends.test_with_stubborn_code_running": "the guardian ends its descendants one by one",
    "test_limits.Limits.test_disk": LIMITS,
    "test_limits.Limits.test_number_of_files": LIMITS,
    "test_memory_deaths.*": NO_PROC,
    "test_mount.*": PATHS,
    "test_out_of_memory.OutOfMemory.test_one_big_value": "RLIMIT_DATA makes one big value a MemoryError",
    "test_out_of_memory.OutOfMemory.test_native_code": "RLIMIT_DATA makes one big value a MemoryError",
    "test_protocol.Lifecycle.test_nothing_is_set_up_before_the_first_message": FOLDER,
    "test_refusals.*": OTHER_LAYERS,
    "test_results.Pictures.test_open_figures_are_files_whose_path_is_named": PATHS,
    "test_results.Pictures.test_sessions_do_not_overwrite_each_others_figures": PATHS,
    "test_results.Pictures.test_show_neither_blocks_nor_warns": PATHS,
    "test_results.Reports.test_hints": NO_NETWORK,
    "test_results_shown.Changes.*": PATHS,
    "test_results_shown.LargeOutput.*": PATHS,
    "test_results_told.Hints.test_limits_name_themselves": NO_NETWORK,
    "test_results_told.Language.test_multiprocessing_of_what_a_cell_defined": SHARED,
    "test_run_python.Output.test_a_long_output_is_whole_also_when_the_call_is_killed": PATHS,
    "test_run_python.Output.test_one_long_line_is_cut_too": PATHS,
    "test_run_python.Output.test_the_file_of_a_long_output_is_read_in_ranges": PATHS,
    "test_run_python.Output.test_the_files_of_long_outputs_are_bounded_and_the_oldest_go": PATHS,
    "test_run_python.WhatWorks.test_asyncio_subprocesses_and_loopback_sockets": NO_NETWORK,
    "test_run_python.WhatWorks.test_multiprocessing_by_fork_and_by_spawn": SHARED,
    "test_run_python.WhatWorks.test_temporary_files_and_shared_memory": SHARED,
    "test_states.Undo.test_files_stay_and_the_rest_goes": PATHS,
    "test_survivors.Survivors.test_subreaper": "nobody may become one",
    "test_takeover.TakeOver.test_kept": NO_NETWORK,
    "test_takeover.TakeOver.test_lost": SHARED,
    "test_uncounted.*": "test_container_limits.py has what this grade counts",
}


def difference(module, test):
    """Why this test is not for the grade that is asked for, or None. test: "Class.name"."""
    if not CONTAINER:
        return None
    name = f"{module}.{test}"
    for row, reason in DIFFERENCES.items():
        if row == name or (row.endswith("*") and name.startswith(row[:-1])):
            return reason
    return None


def folders(server):
    """How /work and /tmp are called in this server's sandbox, where that is otherwise."""
    if not CONTAINER:
        return {}
    said = server.python("import os; print(os.getcwd(), os.environ['TMPDIR'])").output.split()
    return dict(zip(("/work", "/tmp"), said))


def where_it_is(code, names):
    """The code, with folders called as they are: names from folders()."""
    return re.sub(r"(?<![\w.])/(?:work|tmp|packages)\b", lambda found: names.get(found[0], found[0]), code)
