#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/protocol/init_protocol.h"

struct processes;
struct wire_request;

enum { MEMORY_WATCH_MS = 50, MEMORY_CLOSE_MS = 10, MEMORY_UNCOUNTED_MS = 1000 };

struct memory_watch {
    struct processes *processes;
    uint64_t limit_bytes;
    const char *tmp;        /* on the file system of all that code writes, where that is a tmpfs of
                               the sandbox; else NULL */
    bool scratch;           /* code writes to the scratch directory instead */
    uint64_t scratch_bytes; /* how much of that is in memory at the moment */
};

/* Where no cgroup counts memory, adds up what all processes use, and kills the largest above the
 * limit. Soft: it scans every MEMORY_WATCH_MS, or MEMORY_CLOSE_MS after it has returned true,
 * because more than half of the limit is used, and it grows. */
bool watch_memory(const struct memory_watch *watch);
/* What that has found last; too much while it is far below the limit. */
uint64_t memory_seen(void);
/* Where a control group counts: see WIRE_RANK. Responds. */
void watch_rank(struct processes *processes, const struct wire_request *request, pid_t pid);
/* The same as watch_memory() for what a control group that counts memory omits: file locks, and in
 * version 1 also sockets: inet_bytes for each. */
void watch_uncounted(struct processes *processes, uint64_t limit_bytes, uint64_t inet_bytes);

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

/* Inodes that a scan has met: a hash table with free slots of 0. */
enum { INODE_SET_SIZE = 16384 };
struct inode_set {
    uint64_t keys[INODE_SET_SIZE];
};

/* Whether the inode is new in the set, which keeps it if there is space. device: 0: the kernel's
 * own. */
bool inode_set_add(struct inode_set *set, uint64_t device, uint64_t inode);

/* What code holds of a disk that has no quota. Files that move during a scan may be missed or
 * counted twice; the next scan corrects that. */

struct usage {
    uint64_t bytes;
    uint64_t entries;
    bool hides; /* there is more, of unknown size */
};

/* Adds what is below a directory. fd is taken; -1: nothing. Stops above the limits in most. Sets
 * hides for what is deeper than depth levels or in unreadable directories. */
void usage_add_directory(struct usage *usage, int fd, unsigned depth, const struct usage *most);

/* Adds the nameless files that pid has open. usage_begin() forgets which files were counted. */
void usage_begin(void);
void usage_add_deleted(struct usage *usage, pid_t pid);

/* Whether pid holds files whose size cannot be read: mapped and without a name, or in transit in a
 * socket's message. */
bool usage_hides(pid_t pid);

/* Bytes that pid has written so far, from its io file, proc(5). */
uint64_t usage_written(pid_t pid);

/* What each session's processes use, and which session has to go when all together use too much:
 * of those that have grown lately, the one that has most. So one that only keeps what it has is
 * safe from another that grows in many small processes. */

enum { OWNERS = WIRE_TAGS + 2 };

struct owner {
    uint32_t tag; /* 0: processes of no session */
    uint64_t bytes;
    uint64_t base;   /* what it had before it has grown */
    uint64_t growth; /* lately: earlier growth counts less and less, and not once it has paused */
    uint64_t largest;
    pid_t largest_pid;
};

struct owners {
    struct owner list[OWNERS];
    unsigned count;
};

void owners_add(struct owners *owners, uint32_t tag, pid_t pid, uint64_t bytes);
/* Completes the growth since before, the same of an earlier look; its count is 0: there was none.
 * matters: less is noise, and counts when it has added up. */
void owners_grow(struct owners *owners, const struct owners *before, uint64_t matters);
/* Who has to go; NULL: there is none. grown: what owners_grow() has completed. */
const struct owner *owners_culprit(const struct owners *owners, const struct owners *grown);
