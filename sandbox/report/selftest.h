#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/policy/rlimits.h"
#include "sandbox/protocol/selftest_record.h"
#include "sandbox/types.h"

/* The self-test checks the effect of each protection, in the sandbox that is going to run code,
 * before code runs. It has two sources. A process of init, confined by the same function as the
 * interpreter, tries what must fail and sends a record (programs/init/selftest_attempts.c). And
 * box_selftest.c reads from outside, in the host's /proc/PID, what the kernel says about the real
 * interpreter once it is ready. This file checks both and has no side effects. */

struct plan;

enum selftest_namespace {
    SELFTEST_NS_USER,
    SELFTEST_NS_MOUNT,
    SELFTEST_NS_PID,
    SELFTEST_NS_NET,
    SELFTEST_NS_IPC,
    SELFTEST_NS_UTS,
    SELFTEST_NS_CGROUP,
    SELFTEST_NS_COUNT,
};

/* What the host's kernel says about a process. */
struct selftest_process {
    struct file_id namespaces[SELFTEST_NS_COUNT];
    struct file_id root;
    struct file_id control; /* the network namespace of its control socket */
    uint64_t capabilities[5];
    int64_t no_new_privs;
    int64_t seccomp_mode;
    int64_t seccomp_filters; /* -1: this kernel (before 5.10) does not say */
    uint64_t uid;
    uint64_t gid;
};

/* What the checks expect. */
struct selftest_expectation {
    struct selftest_process server;
    struct file_id directories[SELFTEST_DIRECTORY_COUNT]; /* the host's */
    enum box_level level; /* BOX_CONTAINER: no namespaces and mounts */
    uid_t outside_uid;
    gid_t outside_gid;
    struct rlimit_sizes sizes;
    const char *const *data; /* the entries of /data in the sandbox */
    unsigned data_count;
    uint32_t data_writable; /* bits 1 << i */
    bool memory_watched;    /* by init: one more filter */
    int landlock_abi;       /* 0: none is applied */
    bool asks_of_writes;    /* init is notified of writes: one more filter */
};

/* What was found wrong, by protection; empty: nothing. */
struct selftest_verdict {
    char found[BOX_PROTECTION_COUNT][160];
    bool signals_pass; /* from one session to another: neither Landlock nor init checks them */
};

/* Pure. Each adds to verdict and keeps the first finding about a protection. size: of the received
 * data; the guest's side sends the record, so it may hold anything. */
void selftest_check_record(const struct selftest_record *record, size_t size,
                           const struct selftest_expectation *expected,
                           struct selftest_verdict *verdict);
void selftest_check_process(const struct selftest_process *interpreter,
                            const struct selftest_expectation *expected,
                            struct selftest_verdict *verdict);
__attribute__((format(printf, 3, 4))) void selftest_found(struct selftest_verdict *verdict,
                                                          enum box_protection protection,
                                                          const char *fmt, ...);

/* --- box_selftest.c --- */

/* Reads what the kernel says about a process; pid 0: about this one. 0 or -errno. The maker of a
 * user namespace can read the files of its processes, user_namespaces(7). */
int selftest_look(pid_t pid, struct selftest_process *ret_process);

/* The network namespace in which a socket was made, which determines its rights, ioctl SIOCGSKNS
 * (Linux 4.9): for the maker of the user namespace that owns the network namespace, or for root. 0
 * or -errno. */
int selftest_look_socket(int socket_fd, struct file_id *ret_namespace);
