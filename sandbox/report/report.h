#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/protocol/selftest_record.h"
#include "sandbox/report/isolation.h"
#include "sandbox/types.h"

struct plan;

/* The only place that decides which protections are on, what that means, and whether code may run.
 * Pure: callers pass everything it needs. */

struct report_facts {
    const struct box_spec *spec;
    enum box_level level;                   /* planned, or effective */
    const struct host *host;                /* for fixes; NULL: not examined, no fixes */
    const struct cgroup *cgroup;            /* set up; NULL: unknown */
    const struct selftest_verdict *verdict; /* of a sandbox that ran; NULL: not tested */
    const struct fail *failure;             /* why there is no sandbox, or NULL */
    enum box_protection failed;             /* the protection that failed */
    enum plan_kind failed_step;             /* or PLAN_KIND_COUNT */
    bool has_hostname;                      /* the sandbox has its own; only with a verdict */
    bool has_machine; /* its /proc tells of the machine; only with a verdict */
    int landlock_abi;
    const char *python_path;    /* NULL: unknown */
    const char *python_version; /* NULL: unknown */
};

/* A protection at an isolation level if everything works as intended. */
struct level_row {
    bool mandatory;                  /* no code runs without it, whatever the flags say */
    enum box_protection_state state; /* OFF: the isolation level does not have it */
    const char *detail;
    const char *consequence; /* of the state, or of its absence */
};

void report_compute(const struct report_facts *facts, struct box_report *report);

/* --- fixes for missing protections: exact commands for this host. Pure. --- */

/* A mandatory protection that could not be set up. kind: the failed step of the plan, or
 * PLAN_KIND_COUNT if it was none of them; error: its errno value. */
void remedy_for_protection(enum box_protection protection, enum plan_kind kind, int error,
                           const struct host *host, struct box_report *report);

/* No Landlock: why, and the fix. */
void remedy_for_landlock(const struct host *host, struct box_protection_report *entry);

/* The self-test and the isolation report of one sandbox. */

/* Starts the self-test in the sandbox; its result goes to selftest_done(). 0 or -errno */
int selftest_start(struct box *box, struct fail *ret_fail);
void selftest_stop(struct box *box); /* idempotent */
/* The interpreter is ready: starts the self-test's time limit. */
void selftest_wait(struct box *box);
/* After the self-test: checks the sandbox, its limits, and the interpreter, which has this pid
 * outside. 0, or -ESRCH when the interpreter has just exited. */
int selftest_check(const struct box *box, pid_t pid, struct selftest_verdict *verdict);

/* Fill box->report; ret_fail (NULL: not needed) gets the message with the fix. */
void box_report_failure(struct box *box, const struct fail *why, struct fail *ret_fail);
void box_report_verdict(struct box *box, const struct selftest_verdict *verdict);

/* Whether this exit status of an interpreter means that it could not be confined or executed; then
 * ret_fail has the failed step, and box->building its protection. */
bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail);

/* The self-test checks the effect of each protection, in the sandbox that is going to run code,
 * before code runs. It has two sources. A process of init, confined by the same function as the
 * interpreter, tries what must fail and sends a record (programs/init/selftest_attempts.c). And
 * box_selftest.c reads from outside, in the host's /proc/PID, what the kernel says about the real
 * interpreter once it is ready. This file checks both and has no side effects. */

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
