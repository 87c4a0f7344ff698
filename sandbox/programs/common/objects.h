#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct processes;

/* What a socket may hold: SO_SNDBUF is 208 KiB and cannot be raised; a message may pass it.
 * TCP's: launch/child.c. */
enum { OBJECTS_SOCKET_BYTES = 256 << 10 };

/* What the kernel holds for each process. Starts or continues a scan, for a turn of some 50 ms, or
 * until it has found more than limit, in bytes. locks_only: a control group counts the rest.
 * Returns whether the scan is complete. */
bool objects_look(const struct processes *processes, bool locks_only, uint64_t limit);
/* Whether a scan is in progress. */
bool objects_looking(void);
/* What the last scan found for this process, or the current one if it has passed the process or
 * found more. */
uint64_t objects_bytes(pid_t pid);
uint64_t objects_all_bytes(void);
/* Processor time of all processes that run or have run here, in ticks. While it does not change,
 * neither does what objects_look() finds. ret_system: the kernel's part, or NULL. */
uint64_t objects_ticks(const struct processes *processes, uint64_t *ret_system);
/* Changes with each page fault of a process, and with each process that comes or goes: while it
 * does not, no process has got a page. */
uint64_t objects_faults(const struct processes *processes);
/* Whether all processes can have more files open or mapped: each mapping may be of one that is
 * closed. */
bool objects_has_files(const struct processes *processes, uint64_t most);
/* Call it when this process is being killed. */
void objects_forget(pid_t pid);
/* Number of sockets in the sandbox's network: held, in transit in a message, or not yet accepted.
 * 0: it has no network of its own, or no /proc. */
uint64_t objects_sockets(const struct processes *processes);
/* Number of TCP and UDP sockets, without TIME_WAIT. */
uint64_t objects_inet_sockets(const struct processes *processes);
/* Netlink sockets, held or in transit, with the answers that they have not read: no control group
 * counts these. */
uint64_t objects_netlink_bytes(const struct processes *processes);
/* Removes the segments of System V's shared memory that no process has, if there are many: they
 * outlive what made them. Only for init, in the sandbox's own IPC namespace. */
void objects_drop_segments(void);
/* Pages of the buffers of all TCP and UDP sockets of the machine. */
uint64_t objects_network_pages(const struct processes *processes);
