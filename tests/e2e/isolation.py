"""Where the grade without namespaces differs on purpose: tests that are not for it, each with the reason.

SANDPIPER_ISOLATION=container makes every test start its servers so; those named here are skipped then. A
name ends with * where all that begin so are meant.
"""
import os
import re

from traces import package_folder_below, package_folders

CONTAINER = os.environ.get("SANDPIPER_ISOLATION") == "container"

PATHS = "code sees the host's own paths: its folder is not /work, nor /tmp its temporary folder"
SHARED = "multiprocessing's locks need /dev/shm, which is granted only where it was empty"
NO_NETWORK = "there is no loopback of its own, and sockets are refused by their family"
LIMITS = "a watchdog looks at the disk now and then: what goes beyond is met afterwards, not refused"
BIG_VALUE = "RLIMIT_DATA makes one big value a MemoryError"
NO_PROC = "code looks into /proc, which is closed to it"
OTHER_LAYERS = "it takes namespaces or mounts away, which this grade has not"
FOLDER = "the folder for its files is there, with its sweeper, before the first message"

DIFFERENCES = {
    "test_allow_host.AllowHost.test_what_confines_it": "the broker has no namespaces either",
    "test_allow_host.AllowHost.test_without_the_flag_there_is_no_proxy": NO_NETWORK,
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
    "test_fallbacks.*": OTHER_LAYERS,
    "test_files_hostile.FullDisk.test_a_write_that_does_not_fit_leaves_what_was_there": LIMITS,
    "test_folders.*": PATHS,
    "test_grade.*": OTHER_LAYERS,
    "test_forged.Forged.test_processes_of_others_are_neither_offered_to_the_kernel_nor_killed": PATHS,
    "test_forged.Forged.test_processes_that_are_gone_leave_room": NO_PROC,
    "test_install.WithIndex.test_over_tls_with_a_certificate_of_the_users":
        "root's errands have an id of their own there, which cannot read what lies in a private folder of root's",
    "test_interrupts.Moments.test_a_call_for_an_interpreter_that_has_just_died":
        "a held guardian lets nobody be born: the interpreter waits in the midst of its copy",
    "test_isolation.*": OTHER_LAYERS,
    "test_lifecycle.Ends.test_with_stubborn_code_running": "the guardian ends its descendants one by one, which takes longer",
    "test_limits.Limits.test_number_of_files": LIMITS,
    "test_mount.*": PATHS,
    "test_out_of_memory.OutOfMemory.test_native_code": BIG_VALUE,
    "test_out_of_memory.OutOfMemory.test_one_big_value": BIG_VALUE,
    "test_protocol.Lifecycle.test_nothing_is_set_up_before_the_first_message": FOLDER,
    "test_refusals.*": OTHER_LAYERS,
    "test_results.Reports.test_hints": NO_NETWORK,
    "test_results_told.Hints.test_limits_name_themselves": NO_NETWORK,
    "test_results_told.Language.test_multiprocessing_of_what_a_cell_defined": SHARED,
    "test_run_python.WhatWorks.test_asyncio_subprocesses_and_loopback_sockets": NO_NETWORK,
    "test_run_python.WhatWorks.test_multiprocessing_by_fork_and_by_spawn": SHARED,
    "test_run_python.WhatWorks.test_temporary_files_and_shared_memory": SHARED,
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
    """How /work, /tmp and /packages are called in this server's sandbox, where that is otherwise."""
    if not CONTAINER:
        return {}
    # A fresh run: it is no cell of the session, and leaves nothing in it.
    said = server.python("import os; print(os.getcwd(), os.environ['TMPDIR'])", fresh=True).output.split()
    packages = package_folders(server.pid)
    if not packages and "--cache" in server.args:
        packages = package_folder_below(server.args[server.args.index("--cache") + 1], server.pid)
    return dict(zip(("/work", "/tmp", "/packages"), [*said, *(f"{folder}/layers" for folder in packages)]))


def where_it_is(text, names):
    """The text, with folders called as they are: names from folders()."""
    if not names:
        return text
    known = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w.])(?:{known})\b", lambda found: names[found[0]], text)
