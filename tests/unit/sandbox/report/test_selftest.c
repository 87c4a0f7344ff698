#include "sandbox/report/report.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/sandbox.h"
#include "tests/unit/unit.h"

enum { FILE_BYTES = 1 << 20, PIDS = 64, OUTSIDE = 4711 };
static const struct rlimit_sizes sizes = {.file_bytes = FILE_BYTES, .pids_max = PIDS};

static const struct selftest_mount mounts[] = SELFTEST_MOUNTS;

static struct selftest_process paths_of(uint64_t inode)
{
    struct selftest_process process = {.root = {9, inode},
                                       .no_new_privs = 1,
                                       .seccomp_mode = 2,
                                       .seccomp_filters = 3,
                                       .uid = OUTSIDE,
                                       .gid = OUTSIDE};
    for (unsigned i = 0; i < SELFTEST_NS_COUNT; i++) {
        process.namespaces[i] = (struct file_id){4, inode + i};
    }
    process.control = process.namespaces[SELFTEST_NS_NET];
    return process;
}

static struct selftest_expectation expectation(void)
{
    struct selftest_expectation expected = {.server = paths_of(100),
                                            .outside_uid = OUTSIDE,
                                            .outside_gid = OUTSIDE,
                                            .sizes = sizes,
                                            .landlock_abi = 7};
    expected.server.seccomp_filters = 0;
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        expected.directories[i] = (struct file_id){1, 100 + i};
    }
    return expected;
}

/* The record of a sandbox in which every protection is on. */
static struct selftest_record good_record(void)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    struct selftest_record record = {.magic = SELFTEST_MAGIC,
                                     .no_new_privs = 1,
                                     .seccomp_mode = 2,
                                     .uid = PLAN_INSIDE_ID,
                                     .gid = PLAN_INSIDE_ID,
                                     .descriptors = 4,
                                     .attempts = {[SELFTEST_UNSHARE] = EPERM,
                                                  [SELFTEST_MOUNT] = EPERM,
                                                  [SELFTEST_PTRACE] = EPERM,
                                                  [SELFTEST_IO_URING] = ENOSYS,
                                                  [SELFTEST_NETLINK] = EPROTONOSUPPORT,
                                                  [SELFTEST_BECOME_ROOT] = EINVAL,
                                                  [SELFTEST_UNCOVER] = EPERM,
                                                  [SELFTEST_CANARY] = ENOENT,
                                                  [SELFTEST_WRITE_ROOT] = EACCES,
                                                  [SELFTEST_WRITE_DEVICE] = EACCES,
                                                  [SELFTEST_SIGNAL_PARENT] = EPERM}};
    unsigned count = rlimits_wanted(&sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        record.limits_soft[i] = wanted[i].soft;
        record.limits_hard[i] = wanted[i].hard;
    }
    for (unsigned i = 0; i < SELFTEST_MOUNT_COUNT; i++) {
        record.mount_flags[i] = mounts[i].flags | ST_RELATIME;
    }
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        record.directories[i] = (struct file_id){2, 100 + i};
    }
    return record;
}

/* The verdict is only against protection, and contains word. */
static void assert_found(const struct selftest_verdict *verdict, enum box_protection protection,
                         const char *word)
{
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        if (i == protection) {
            if (!strstr(verdict->found[i], word)) {
                fail_msg("no \"%s\" in \"%s\"", word, verdict->found[i]);
            }
        } else if (verdict->found[i][0]) {
            fail_msg("%s: %s", box_protection_name((enum box_protection)i), verdict->found[i]);
        }
    }
}

static void assert_nothing_found(const struct selftest_verdict *verdict)
{
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        assert_string_equal(verdict->found[i], "");
    }
}

static struct selftest_verdict check(const struct selftest_record *record)
{
    struct selftest_expectation expected = expectation();
    struct selftest_verdict verdict = {};
    selftest_check_record(record, sizeof *record, &expected, &verdict);
    return verdict;
}

static void good_record_and_process_pass_all(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_record record = good_record();
    struct selftest_process process = paths_of(200);
    struct selftest_verdict verdict = check(&record);
    assert_nothing_found(&verdict);
    selftest_check_process(&process, &expected, &verdict);
    assert_nothing_found(&verdict);
}

struct attempt_row {
    enum selftest_attempt attempt;
    enum box_protection protection;
    const char *word;
};

/* Each of these attempts, when it has worked. */
static void expect_each_found(const struct attempt_row *rows, size_t count,
                              struct selftest_record good,
                              struct selftest_verdict (*verdict_of)(const struct selftest_record *))
{
    for (size_t i = 0; i < count; i++) {
        struct selftest_record record = good;
        record.attempts[rows[i].attempt] = 0;
        struct selftest_verdict verdict = verdict_of(&record);
        assert_found(&verdict, rows[i].protection, rows[i].word);
    }
}

static void each_attempt_that_works_is_found(void **)
{
    static const struct attempt_row rows[] = {
        {SELFTEST_UNSHARE, BOX_PROTECTION_SECCOMP, "unshare"},
        {SELFTEST_MOUNT, BOX_PROTECTION_SECCOMP, "mount"},
        {SELFTEST_PTRACE, BOX_PROTECTION_SECCOMP, "ptrace"},
        {SELFTEST_IO_URING, BOX_PROTECTION_SECCOMP, "io_uring"},
        {SELFTEST_NETLINK, BOX_PROTECTION_SECCOMP, "NETLINK"},
        {SELFTEST_BECOME_ROOT, BOX_PROTECTION_PRIVILEGES, "setuid"},
        {SELFTEST_UNCOVER, BOX_PROTECTION_SECCOMP, "umount"},
        {SELFTEST_CANARY, BOX_PROTECTION_MOUNTS, "server"},
        {SELFTEST_WRITE_ROOT, BOX_PROTECTION_MOUNTS, "/etc"},
        {SELFTEST_WRITE_DEVICE, BOX_PROTECTION_LANDLOCK, "writable"},
        {SELFTEST_SIGNAL_PARENT, BOX_PROTECTION_LANDLOCK, "signals"},
    };
    expect_each_found(rows, sizeof rows / sizeof *rows, good_record(), check);
}

static void a_name_in_proc_without_a_cover_is_found(void **)
{
    struct selftest_record record = good_record();
    record.uncovered = 3;
    memcpy(record.uncovered_name, "kcore", sizeof "kcore");
    struct selftest_verdict verdict = check(&record);
    assert_found(&verdict, BOX_PROTECTION_MOUNTS, "3, such as kcore");
}

/* The expectation for a sandbox without namespaces: the container's own directories and user. */
static struct selftest_expectation container_expectation(void)
{
    struct selftest_expectation expected = expectation();
    expected.level = BOX_CONTAINER;
    return expected;
}

static struct selftest_record good_container_record(void)
{
    struct selftest_record record = good_record();
    record.uid = OUTSIDE;
    record.gid = OUTSIDE;
    record.capabilities[3] = 0xa80425fb; /* the bounding set in Docker */
    record.attempts[SELFTEST_BECOME_ROOT] = EPERM;
    record.attempts[SELFTEST_READ_PROC] = EACCES;
    record.attempts[SELFTEST_MEMFD] = ENOSYS;
    record.attempts[SELFTEST_PRIORITY] = EPERM;
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        record.directories[i] = (struct file_id){1, 100 + i};
    }
    memset(record.mount_flags, 0, sizeof record.mount_flags);
    return record;
}

static struct selftest_verdict check_container(const struct selftest_record *record)
{
    struct selftest_expectation expected = container_expectation();
    struct selftest_verdict verdict = {};
    selftest_check_record(record, sizeof *record, &expected, &verdict);
    return verdict;
}

static void without_namespaces_nothing_is_expected_of_them(void **)
{
    struct selftest_expectation expected = container_expectation();
    struct selftest_record record = good_container_record();
    struct selftest_process process = expected.server;
    struct selftest_verdict verdict = check_container(&record);
    assert_nothing_found(&verdict);
    record.attempts[SELFTEST_WRITE_ROOT] = EROFS; /* a pod with readOnlyRootFilesystem */
    verdict = check_container(&record);
    assert_nothing_found(&verdict);
    process.seccomp_filters = 3;
    selftest_check_process(&process, &expected, &verdict);
    assert_nothing_found(&verdict);
    process.seccomp_filters = 2;
    selftest_check_process(&process, &expected, &verdict);
    assert_found(&verdict, BOX_PROTECTION_SECCOMP, "2 filters");
}

static void without_namespaces_the_other_protections_are_mandatory(void **)
{
    static const struct attempt_row rows[] = {
        {SELFTEST_UNSHARE, BOX_PROTECTION_SECCOMP, "unshare"},
        {SELFTEST_NETLINK, BOX_PROTECTION_SECCOMP, "NETLINK"},
        {SELFTEST_MEMFD, BOX_PROTECTION_SECCOMP, "memfd"},
        {SELFTEST_PRIORITY, BOX_PROTECTION_SECCOMP, "setpriority"},
        {SELFTEST_CANARY, BOX_PROTECTION_LANDLOCK, "server"},
        {SELFTEST_WRITE_ROOT, BOX_PROTECTION_LANDLOCK, "/etc"},
        {SELFTEST_WRITE_DEVICE, BOX_PROTECTION_LANDLOCK, "writable"},
        {SELFTEST_READ_PROC, BOX_PROTECTION_LANDLOCK, "read"},
    };
    expect_each_found(rows, sizeof rows / sizeof *rows, good_container_record(), check_container);
    struct selftest_record record = good_container_record();
    record.attempts[SELFTEST_SIGNAL_PARENT] = 0;
    assert_non_null(strstr(check_container(&record).found[BOX_PROTECTION_SECCOMP], "supervisor"));
    record = good_container_record();
    record.capabilities[2] = 1;
    struct selftest_verdict verdict = check_container(&record);
    assert_found(&verdict, BOX_PROTECTION_PRIVILEGES, "capabilities");
}

/* Something other than our filter refused: it may be gone tomorrow. */
static void refusal_with_another_error_passes_nothing(void **)
{
    struct selftest_record record = good_record();
    record.attempts[SELFTEST_NETLINK] = EPERM;
    struct selftest_verdict verdict = check(&record);
    assert_found(&verdict, BOX_PROTECTION_SECCOMP, "unexpected error");
    record = good_record();
    record.attempts[SELFTEST_IO_URING] = EPERM;
    verdict = check(&record);
    assert_found(&verdict, BOX_PROTECTION_SECCOMP, "io_uring");
}

static void each_wrong_value_of_a_record_is_found(void **)
{
    for (unsigned i = 0; i < 5; i++) {
        struct selftest_record record = good_record();
        record.capabilities[i] = 1UL << 21;
        struct selftest_verdict verdict = check(&record);
        assert_found(&verdict, BOX_PROTECTION_PRIVILEGES, "capabilities");
    }
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        struct selftest_record record = good_record();
        record.directories[i] = (struct file_id){1, 100 + i};
        struct selftest_verdict verdict = check(&record);
        assert_found(&verdict, BOX_PROTECTION_MOUNTS, "is the host's directory");
    }
    for (unsigned i = 0; i < SELFTEST_MOUNT_COUNT; i++) {
        struct selftest_record record = good_record();
        record.mount_flags[i] &= ~(unsigned long)ST_NOSUID;
        struct selftest_verdict verdict = check(&record);
        assert_found(&verdict, BOX_PROTECTION_MOUNTS, mounts[i].path);
    }
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = rlimits_wanted(&sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        struct selftest_record record = good_record();
        record.limits_hard[i] = wanted[i].hard + 1;
        struct selftest_verdict verdict = check(&record);
        assert_found(&verdict, BOX_PROTECTION_PRIVILEGES, wanted[i].name);
    }
}

static void each_wrong_fact_of_the_selftest_is_found(void **)
{
    static const struct {
        size_t offset;
        int32_t value;
        enum box_protection protection;
        const char *word;
    } rows[] = {
        {offsetof(struct selftest_record, no_new_privs), 0, BOX_PROTECTION_PRIVILEGES,
         "no_new_privs"},
        {offsetof(struct selftest_record, seccomp_mode), 0, BOX_PROTECTION_SECCOMP, "mode"},
        {offsetof(struct selftest_record, uid), 0, BOX_PROTECTION_PRIVILEGES, "uid and gid"},
        {offsetof(struct selftest_record, gid), 0, BOX_PROTECTION_PRIVILEGES, "uid and gid"},
        {offsetof(struct selftest_record, descriptors), 5, BOX_PROTECTION_PRIVILEGES,
         "descriptors"},
        {offsetof(struct selftest_record, odd_descriptors), 1, BOX_PROTECTION_PRIVILEGES,
         "descriptors"},
        {offsetof(struct selftest_record, magic), 1, BOX_PROTECTION_PRIVILEGES, "without a result"},
        {offsetof(struct selftest_record, step), WIRE_STEP_SECCOMP, BOX_PROTECTION_SECCOMP,
         "filters"},
        {offsetof(struct selftest_record, step), WIRE_STEP_LIMITS, BOX_PROTECTION_PRIVILEGES,
         "limits"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct selftest_record record = good_record();
        memcpy((char *)&record + rows[i].offset, &rows[i].value, sizeof rows[i].value);
        struct selftest_verdict verdict = check(&record);
        assert_found(&verdict, rows[i].protection, rows[i].word);
    }
}

static void a_dead_or_malformed_selftest_passes_nothing(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_record record = good_record();
    const size_t lengths[] = {0, 1, sizeof record - 1, sizeof record + 1};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct selftest_verdict verdict = {};
        selftest_check_record(&record, lengths[i], &expected, &verdict);
        assert_found(&verdict, BOX_PROTECTION_PRIVILEGES, "without a result");
    }
}

static void landlock_is_checked_by_what_worked_without_it(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_record record = good_record();
    struct selftest_verdict verdict = {};
    /* One of the two attempts shows nothing here: the other is enough. */
    record.write_device_before = EACCES;
    record.attempts[SELFTEST_WRITE_DEVICE] = EACCES;
    verdict = check(&record);
    assert_nothing_found(&verdict);
    record.signal_parent_before = EPERM;
    verdict = check(&record);
    assert_found(&verdict, BOX_PROTECTION_LANDLOCK, "no effect observed");
    /* Without Landlock, nothing is checked. */
    record.write_device_before = 0;
    record.attempts[SELFTEST_WRITE_DEVICE] = 0;
    record.attempts[SELFTEST_SIGNAL_PARENT] = 0;
    verdict = (struct selftest_verdict){};
    expected.landlock_abi = 0;
    selftest_check_record(&record, sizeof record, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void directories_that_the_host_lacks_are_not_compared(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_record record = good_record();
    struct selftest_verdict verdict = {};
    expected.directories[3] = (struct file_id){};
    record.directories[3] = (struct file_id){};
    selftest_check_record(&record, sizeof record, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void each_wrong_fact_of_the_interpreter_is_found(void **)
{
    struct selftest_expectation expected = expectation();
    for (unsigned i = 0; i < SELFTEST_NS_COUNT; i++) {
        struct selftest_process process = paths_of(200);
        struct selftest_verdict verdict = {};
        process.namespaces[i] = expected.server.namespaces[i];
        selftest_check_process(&process, &expected, &verdict);
        assert_found(&verdict, BOX_PROTECTION_NAMESPACES, "namespace is the host's");
    }
    for (unsigned i = 0; i < 5; i++) {
        struct selftest_process process = paths_of(200);
        struct selftest_verdict verdict = {};
        process.capabilities[i] = 1;
        selftest_check_process(&process, &expected, &verdict);
        assert_found(&verdict, BOX_PROTECTION_PRIVILEGES, "capabilities");
    }
    struct selftest_process wrong[8];
    static const struct {
        enum box_protection protection;
        const char *word;
    } rows[8] = {{BOX_PROTECTION_MOUNTS, "/ is"},
                 {BOX_PROTECTION_PRIVILEGES, "NoNewPrivs"},
                 {BOX_PROTECTION_SECCOMP, "mode"},
                 {BOX_PROTECTION_SECCOMP, "2 filters"},
                 {BOX_PROTECTION_SECCOMP, "-4 filters"},
                 {BOX_PROTECTION_PRIVILEGES, "uid and gid"},
                 {BOX_PROTECTION_PRIVILEGES, "uid and gid"},
                 {BOX_PROTECTION_NAMESPACES, "control socket"}};
    for (unsigned i = 0; i < 8; i++) {
        wrong[i] = paths_of(200);
    }
    wrong[0].root = expected.server.root;
    wrong[1].no_new_privs = 0;
    wrong[2].seccomp_mode = 0;
    wrong[3].seccomp_filters = 2;
    wrong[4].seccomp_filters = -4;
    wrong[5].uid = 0;
    wrong[6].gid = 0;
    wrong[7].control = expected.server.namespaces[SELFTEST_NS_NET];
    for (unsigned i = 0; i < 8; i++) {
        struct selftest_verdict verdict = {};
        selftest_check_process(&wrong[i], &expected, &verdict);
        assert_found(&verdict, rows[i].protection, rows[i].word);
    }
}

static void filters_from_outside_do_not_count(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_process process = paths_of(200);
    struct selftest_verdict verdict = {};
    expected.server.seccomp_filters = 2;
    process.seccomp_filters = 5;
    selftest_check_process(&process, &expected, &verdict);
    assert_nothing_found(&verdict);
    expected.server.seccomp_filters = -1; /* a kernel without the number */
    process.seccomp_filters = -1;
    selftest_check_process(&process, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void watched_memory_needs_one_more_filter(void **)
{
    struct selftest_expectation expected = expectation();
    struct selftest_process process = paths_of(200);
    struct selftest_verdict verdict = {};
    expected.memory_watched = true;
    process.seccomp_filters = 4;
    selftest_check_process(&process, &expected, &verdict);
    assert_nothing_found(&verdict);
    process.seccomp_filters = 3;
    selftest_check_process(&process, &expected, &verdict);
    assert_found(&verdict, BOX_PROTECTION_SECCOMP, "not 4");
}

static void data_has_its_path_and_access(void **)
{
    static const char *const paths[] = {"/data/in", "/data/out", "/data/gone"};
    const uint64_t flags = SELFTEST_DATA_THERE | ST_NOSUID | ST_NODEV | ST_NOEXEC;
    struct selftest_record good = good_record();
    struct selftest_expectation expected = expectation();
    expected.data = paths;
    expected.data_count = 3;
    expected.data_writable = 1 << 1;
    good.data_flags[0] = flags | ST_RDONLY;
    good.data_flags[1] = flags;
    good.data_write[0] = EROFS;
    struct selftest_verdict verdict = {};
    selftest_check_record(&good, sizeof good, &expected, &verdict);
    assert_string_equal(verdict.found[BOX_PROTECTION_MOUNTS], "");
    for (unsigned i = 0; i < 6; i++) {
        struct selftest_record record = good;
        if (i < 4) {
            static const uint64_t lacks[] = {ST_RDONLY, ST_NOSUID, ST_NODEV, ST_NOEXEC};
            record.data_flags[0] &= ~lacks[i];
        } else if (i == 4) {
            record.data_flags[1] &= ~(uint64_t)ST_NOSUID;
        } else {
            record.data_write[0] = 0;
        }
        verdict = (struct selftest_verdict){};
        selftest_check_record(&record, sizeof record, &expected, &verdict);
        assert_non_null(
            strstr(verdict.found[BOX_PROTECTION_MOUNTS], i == 4 ? "/data/out" : "/data/in"));
    }
}

static void the_first_finding_of_a_protection_stays(void **)
{
    struct selftest_verdict verdict = {};
    selftest_found(&verdict, BOX_PROTECTION_DISK, "first %d", 1);
    selftest_found(&verdict, BOX_PROTECTION_DISK, "second");
    assert_string_equal(verdict.found[BOX_PROTECTION_DISK], "first 1");
}

static void facts_of_this_process_are_correct(void **)
{
    struct selftest_process self;
    struct selftest_process same;
    assert_int_equal(selftest_look(0, &self), 0);
    assert_int_equal(selftest_look(getpid(), &same), 0);
    assert_memory_equal(&self, &same, sizeof self);
    assert_int_equal(self.uid, getuid());
    assert_int_equal(self.gid, getgid());
    for (unsigned i = 0; i < SELFTEST_NS_COUNT; i++) {
        assert_true(self.namespaces[i].inode);
    }
    assert_int_equal(selftest_look(1 << 22, &same), -ENOENT); /* PID_MAX_LIMIT, proc(5) */
}

/* For root, and for the maker of the user namespace that owns the network. */
static void a_socket_belongs_to_the_network_that_made_it(void **)
{
    struct selftest_process self;
    struct file_id network;
    int fds[2];
    assert_int_equal(fd_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(selftest_look(0, &self), 0);
    int r = selftest_look_socket(fds[0], &network);
    if (r == 0) {
        assert_memory_equal(&network, &self.namespaces[SELFTEST_NS_NET], sizeof network);
    } else {
        assert_int_equal(r, -EPERM);
    }
    assert_int_equal(close(fds[0]) | close(fds[1]), 0);
    assert_int_equal(selftest_look_socket(fds[0], &network), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_record_and_process_pass_all),
        cmocka_unit_test(each_attempt_that_works_is_found),
        cmocka_unit_test(a_name_in_proc_without_a_cover_is_found),
        cmocka_unit_test(without_namespaces_nothing_is_expected_of_them),
        cmocka_unit_test(without_namespaces_the_other_protections_are_mandatory),
        cmocka_unit_test(refusal_with_another_error_passes_nothing),
        cmocka_unit_test(each_wrong_value_of_a_record_is_found),
        cmocka_unit_test(each_wrong_fact_of_the_selftest_is_found),
        cmocka_unit_test(a_dead_or_malformed_selftest_passes_nothing),
        cmocka_unit_test(landlock_is_checked_by_what_worked_without_it),
        cmocka_unit_test(directories_that_the_host_lacks_are_not_compared),
        cmocka_unit_test(each_wrong_fact_of_the_interpreter_is_found),
        cmocka_unit_test(filters_from_outside_do_not_count),
        cmocka_unit_test(watched_memory_needs_one_more_filter),
        cmocka_unit_test(data_has_its_path_and_access),
        cmocka_unit_test(the_first_finding_of_a_protection_stays),
        cmocka_unit_test(facts_of_this_process_are_correct),
        cmocka_unit_test(a_socket_belongs_to_the_network_that_made_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
