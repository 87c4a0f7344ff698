"""Where the attacks of test_attacks.py end otherwise in the grade without namespaces.

There an attack is contained, is refused before it has begun, or lies outside of what that grade promises and is named
in the words of doctor. Whatever it is, nothing of the world outside may be harmed and no secret be said.
"""
from isolation import CONTAINER  # noqa: F401

# It came to nothing because it needs a file, a socket or a call that is not to be had at all.
REFUSED = r"\[error: (PermissionError|OSError|FileNotFoundError|CalledProcessError) at .*"

HELD = {
    "a_million_files": r"\[too many files: .*",
    "descriptors_in_flight_of_the_user": r"False",  # not one: pairs of datagrams are refused
    "extents_shared_with_system_files": r"denied ENOTSUP",
    "huge_pages_of_the_host": r"denied ENOSYS",
    "more_files_than_the_disk_takes": r"denied EACCES",
    "program_from_memory_gains_nothing": r"\[error: KeyError at .*",  # it cannot read /proc/self/status
}

NO_NAMESPACES = "namespaces: none in this grade"
NOTICED = "other processes can be noticed"
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

# Controls that need what this grade has not: /proc, and sockets of other families.
NO_CONTROL = frozenset("""
    abstract_names_of_the_host_are_taken connect_to_an_abstract_socket connect_to_loopback_services
    datagrams_to_abstract_sockets_of_the_host device_nodes_in_every_writable_folder interfaces_of_the_host
    kernel_files_in_proc maps_clocks_and_counters_of_namespaces names_of_the_hosts_interfaces
    network_namespace_of_the_host_by_a_socket open_descriptors_are_few passwd_names_nobody_of_the_host physical_addresses
    read_memory_and_environment_of_pid_1 read_secrets_of_the_machine read_shared_memory_of_the_host
    root_of_other_processes settings_of_pid_1 shield_from_the_memory_killer socket_filters socket_of_family_netlink
    walk_up_from_the_workspace write_into_the_memory_of_others write_the_uid_map_again write_to_files_of_proc
    write_to_the_drivers_files
""".split())
