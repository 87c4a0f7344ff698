"""Where the attacks of test_attacks.py have another outcome at the level without namespaces.

There an attack is contained, refused at its start, or outside what the level promises and named in the words of
doctor. In each case it must neither harm anything outside nor print the secret.
"""
from container_level import CONTAINER  # noqa: F401

# The attack failed because the file, socket or call that it needs is unavailable.
REFUSED = r"\[error: (PermissionError|OSError|FileNotFoundError|CalledProcessError) at .*"

HELD = {
    "a_million_files": r"\[too many files: .*",
    "descriptors_in_flight_of_the_user": r"False",  # none: datagram socket pairs are refused
    "extents_shared_with_system_files": r"denied ENOTSUP",
    "huge_pages_of_the_host": r"denied ENOSYS",
    "more_files_than_the_disk_takes": r"denied EACCES",
    "program_from_memory_gains_nothing": r"\[error: KeyError at .*",  # it cannot read /proc/self/status
}

NO_NAMESPACES = "namespaces: none at this isolation level"
NOTICED = "code can detect other processes"
VISIBLE = "hostname, kernel and users are visible"
SOFT = "disk and inode limits are checked now and then, not enforced"
SHARED_UID = "shares the container's uid"

OUTSIDE = {
    **{f"own_{name}_namespace": NO_NAMESPACES for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")},
    "become_root_by_call": SHARED_UID,
    "deleted_files_count_as_disk": SOFT,
    "forge_the_servers_pidfd": NOTICED,
    "host_name_is_not_the_hosts": VISIBLE,
}

# Controls that need what this level lacks: /proc, and sockets of other families.
NO_CONTROL = frozenset("""
    abstract_names_of_the_host_are_taken connect_to_an_abstract_socket connect_to_loopback_services
    datagrams_that_wait_in_one_socket datagrams_to_abstract_sockets_of_the_host
    device_nodes_in_every_writable_directory interfaces_of_the_host kernel_files_in_proc
    long_access_control_lists maps_clocks_and_counters_of_namespaces names_of_the_hosts_interfaces
    network_namespace_of_the_host_by_a_socket open_descriptors_are_few options_of_sockets_that_hold_memory
    names_in_proc_tell_nothing_of_the_host other_ways_to_what_is_covered_in_proc interrupts_of_the_host_are_in_no_figure
    passwd_names_nobody_of_the_host physical_addresses
    read_memory_and_environment_of_pid_1 read_secrets_of_the_machine read_shared_memory_of_the_host
    root_of_other_processes settings_of_pid_1 shield_from_the_memory_killer socket_filters netlink_of_other_protocols
    settings_of_the_network_by_netlink
    walk_up_from_the_workspace write_into_the_memory_of_others write_the_uid_map_again write_to_files_of_proc
    write_to_the_drivers_files
""".split())
