#include "sandbox/grade/proof.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/confine/rlimits.h"
#include "sandbox/plan/plan.h"
#include "sandbox/wire/wire.h"
#include "tests/unit/unit.h"

enum { FILE_BYTES = 1 << 20, PIDS = 64, OUTSIDE = 4711 };
static const struct rlimit_sizes sizes = {.file_bytes = FILE_BYTES, .pids_max = PIDS};

static const struct proof_mount mounts[] = PROOF_MOUNTS;

static struct proof_view view_of(uint64_t inode)
{
    struct proof_view view = {.root = {9, inode},
                              .no_new_privs = 1,
                              .seccomp_mode = 2,
                              .seccomp_filters = 3,
                              .uid = OUTSIDE,
                              .gid = OUTSIDE};
    for (unsigned i = 0; i < PROOF_NS_COUNT; i++) {
        view.namespaces[i] = (struct file_id){4, inode + i};
    }
    view.control = view.namespaces[PROOF_NS_NET];
    return view;
}

static struct proof_expectation expectation(void)
{
    struct proof_expectation expected = {.server = view_of(100),
                                         .outside_uid = OUTSIDE,
                                         .outside_gid = OUTSIDE,
                                         .sizes = sizes,
                                         .landlock_abi = 7};
    expected.server.seccomp_filters = 0;
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        expected.folders[i] = (struct file_id){1, 100 + i};
    }
    return expected;
}

/* What a box sends in which all holds. */
static struct proof_record good_record(void)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    struct proof_record record = {.magic = PROOF_MAGIC,
                                  .no_new_privs = 1,
                                  .seccomp_mode = 2,
                                  .uid = PLAN_INSIDE_ID,
                                  .gid = PLAN_INSIDE_ID,
                                  .descriptors = 4,
                                  .attempts = {[PROOF_UNSHARE] = EPERM,
                                               [PROOF_MOUNT] = EPERM,
                                               [PROOF_PTRACE] = EPERM,
                                               [PROOF_IO_URING] = ENOSYS,
                                               [PROOF_NETLINK] = EAFNOSUPPORT,
                                               [PROOF_BECOME_ROOT] = EINVAL,
                                               [PROOF_CANARY] = ENOENT,
                                               [PROOF_WRITE_ROOT] = EACCES,
                                               [PROOF_WRITE_DEVICE] = EACCES,
                                               [PROOF_SIGNAL_PARENT] = EPERM}};
    unsigned count = rlimits_wanted(&sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        record.limits_soft[i] = wanted[i].soft;
        record.limits_hard[i] = wanted[i].hard;
    }
    for (unsigned i = 0; i < PROOF_MOUNT_COUNT; i++) {
        record.mount_flags[i] = mounts[i].flags | ST_RELATIME;
    }
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        record.folders[i] = (struct file_id){2, 100 + i};
    }
    return record;
}

/* The verdict is against layer alone, and says word. */
static void assert_found(const struct proof_verdict *verdict, enum box_layer layer,
                         const char *word)
{
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        if (i == layer) {
            if (!strstr(verdict->found[i], word)) {
                fail_msg("no \"%s\" in \"%s\"", word, verdict->found[i]);
            }
        } else if (verdict->found[i][0]) {
            fail_msg("%s: %s", box_layer_name((enum box_layer)i), verdict->found[i]);
        }
    }
}

static void assert_nothing_found(const struct proof_verdict *verdict)
{
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        assert_string_equal(verdict->found[i], "");
    }
}

static struct proof_verdict judge(const struct proof_record *record)
{
    struct proof_expectation expected = expectation();
    struct proof_verdict verdict = {};
    proof_judge_record(record, sizeof *record, &expected, &verdict);
    return verdict;
}

static void good_record_and_view_prove_all(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_record record = good_record();
    struct proof_view view = view_of(200);
    struct proof_verdict verdict = judge(&record);
    assert_nothing_found(&verdict);
    proof_judge_view(&view, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void each_attempt_that_works_is_found(void **)
{
    static const struct {
        enum proof_attempt attempt;
        enum box_layer layer;
        const char *word;
    } rows[] = {
        {PROOF_UNSHARE, BOX_LAYER_SECCOMP, "unshare"},
        {PROOF_MOUNT, BOX_LAYER_SECCOMP, "mount"},
        {PROOF_PTRACE, BOX_LAYER_SECCOMP, "ptrace"},
        {PROOF_IO_URING, BOX_LAYER_SECCOMP, "io_uring"},
        {PROOF_NETLINK, BOX_LAYER_SECCOMP, "NETLINK"},
        {PROOF_BECOME_ROOT, BOX_LAYER_PRIVILEGES, "setuid"},
        {PROOF_CANARY, BOX_LAYER_MOUNTS, "server"},
        {PROOF_WRITE_ROOT, BOX_LAYER_MOUNTS, "/etc"},
        {PROOF_WRITE_DEVICE, BOX_LAYER_LANDLOCK, "written"},
        {PROOF_SIGNAL_PARENT, BOX_LAYER_LANDLOCK, "signals"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct proof_record record = good_record();
        record.attempts[rows[i].attempt] = 0;
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, rows[i].layer, rows[i].word);
    }
}

/* A box without namespaces, as its guardian's witness sees it: the container's own folders and user. */
static struct proof_expectation container_expectation(void)
{
    struct proof_expectation expected = expectation();
    expected.profile = BOX_CONTAINER;
    return expected;
}

static struct proof_record good_container_record(void)
{
    struct proof_record record = good_record();
    record.uid = OUTSIDE;
    record.gid = OUTSIDE;
    record.capabilities[3] = 0xa80425fb; /* bounding: Docker's */
    record.attempts[PROOF_BECOME_ROOT] = EPERM;
    record.attempts[PROOF_READ_PROC] = EACCES;
    record.attempts[PROOF_MEMFD] = ENOSYS;
    record.attempts[PROOF_PRIORITY] = EPERM;
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        record.folders[i] = (struct file_id){1, 100 + i};
    }
    memset(record.mount_flags, 0, sizeof record.mount_flags);
    return record;
}

static struct proof_verdict judge_container(const struct proof_record *record)
{
    struct proof_expectation expected = container_expectation();
    struct proof_verdict verdict = {};
    proof_judge_record(record, sizeof *record, &expected, &verdict);
    return verdict;
}

static void without_namespaces_nothing_is_expected_of_them(void **)
{
    struct proof_expectation expected = container_expectation();
    struct proof_record record = good_container_record();
    struct proof_view view = expected.server;
    struct proof_verdict verdict = judge_container(&record);
    assert_nothing_found(&verdict);
    record.attempts[PROOF_WRITE_ROOT] = EROFS; /* a pod with readOnlyRootFilesystem */
    verdict = judge_container(&record);
    assert_nothing_found(&verdict);
    view.seccomp_filters = 3;
    proof_judge_view(&view, &expected, &verdict);
    assert_nothing_found(&verdict);
    view.seccomp_filters = 2;
    proof_judge_view(&view, &expected, &verdict);
    assert_found(&verdict, BOX_LAYER_SECCOMP, "2 filters");
}

static void without_namespaces_the_other_layers_must_hold_alone(void **)
{
    static const struct {
        enum proof_attempt attempt;
        enum box_layer layer;
        const char *word;
    } rows[] = {
        {PROOF_UNSHARE, BOX_LAYER_SECCOMP, "unshare"},
        {PROOF_NETLINK, BOX_LAYER_SECCOMP, "NETLINK"},
        {PROOF_MEMFD, BOX_LAYER_SECCOMP, "memfd"},
        {PROOF_PRIORITY, BOX_LAYER_SECCOMP, "setpriority"},
        {PROOF_CANARY, BOX_LAYER_LANDLOCK, "server"},
        {PROOF_WRITE_ROOT, BOX_LAYER_LANDLOCK, "/etc"},
        {PROOF_WRITE_DEVICE, BOX_LAYER_LANDLOCK, "written"},
        {PROOF_READ_PROC, BOX_LAYER_LANDLOCK, "read"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct proof_record record = good_container_record();
        record.attempts[rows[i].attempt] = 0;
        struct proof_verdict verdict = judge_container(&record);
        assert_found(&verdict, rows[i].layer, rows[i].word);
    }
    struct proof_record record = good_container_record();
    record.attempts[PROOF_SIGNAL_PARENT] = 0;
    assert_non_null(strstr(judge_container(&record).found[BOX_LAYER_SECCOMP], "guardian"));
    record = good_container_record();
    record.capabilities[2] = 1;
    struct proof_verdict verdict = judge_container(&record);
    assert_found(&verdict, BOX_LAYER_PRIVILEGES, "capabilities");
}

/* Refused by somebody else than our filter: it may be gone tomorrow. */
static void refusal_by_another_hand_proves_nothing(void **)
{
    struct proof_record record = good_record();
    record.attempts[PROOF_NETLINK] = EPERM;
    struct proof_verdict verdict = judge(&record);
    assert_found(&verdict, BOX_LAYER_SECCOMP, "otherwise");
    record = good_record();
    record.attempts[PROOF_IO_URING] = EPERM;
    verdict = judge(&record);
    assert_found(&verdict, BOX_LAYER_SECCOMP, "io_uring");
}

static void each_wrong_value_of_a_record_is_found(void **)
{
    for (unsigned i = 0; i < 5; i++) {
        struct proof_record record = good_record();
        record.capabilities[i] = 1UL << 21;
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, BOX_LAYER_PRIVILEGES, "capabilities");
    }
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        struct proof_record record = good_record();
        record.folders[i] = (struct file_id){1, 100 + i};
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, BOX_LAYER_MOUNTS, "host's own");
    }
    for (unsigned i = 0; i < PROOF_MOUNT_COUNT; i++) {
        struct proof_record record = good_record();
        record.mount_flags[i] &= ~(unsigned long)ST_NOSUID;
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, BOX_LAYER_MOUNTS, mounts[i].path);
    }
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = rlimits_wanted(&sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        struct proof_record record = good_record();
        record.limits_hard[i] = wanted[i].hard + 1;
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, BOX_LAYER_PRIVILEGES, wanted[i].name);
    }
}

static void each_wrong_fact_of_the_witness_is_found(void **)
{
    static const struct {
        size_t offset;
        int32_t value;
        enum box_layer layer;
        const char *word;
    } rows[] = {
        {offsetof(struct proof_record, no_new_privs), 0, BOX_LAYER_PRIVILEGES, "no_new_privs"},
        {offsetof(struct proof_record, seccomp_mode), 0, BOX_LAYER_SECCOMP, "mode"},
        {offsetof(struct proof_record, uid), 0, BOX_LAYER_PRIVILEGES, "ids"},
        {offsetof(struct proof_record, gid), 0, BOX_LAYER_PRIVILEGES, "ids"},
        {offsetof(struct proof_record, descriptors), 5, BOX_LAYER_PRIVILEGES, "descriptors"},
        {offsetof(struct proof_record, odd_descriptors), 1, BOX_LAYER_PRIVILEGES, "descriptors"},
        {offsetof(struct proof_record, magic), 1, BOX_LAYER_PRIVILEGES, "without an answer"},
        {offsetof(struct proof_record, step), WIRE_STEP_SECCOMP, BOX_LAYER_SECCOMP, "filters"},
        {offsetof(struct proof_record, step), WIRE_STEP_LIMITS, BOX_LAYER_PRIVILEGES, "limits"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct proof_record record = good_record();
        memcpy((char *)&record + rows[i].offset, &rows[i].value, sizeof rows[i].value);
        struct proof_verdict verdict = judge(&record);
        assert_found(&verdict, rows[i].layer, rows[i].word);
    }
}

static void a_dead_or_babbling_witness_proves_nothing(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_record record = good_record();
    const size_t lengths[] = {0, 1, sizeof record - 1, sizeof record + 1};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct proof_verdict verdict = {};
        proof_judge_record(&record, lengths[i], &expected, &verdict);
        assert_found(&verdict, BOX_LAYER_PRIVILEGES, "without an answer");
    }
}

static void landlock_is_judged_by_what_worked_without_it(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_record record = good_record();
    struct proof_verdict verdict = {};
    /* One of the two says nothing here: the other is enough. */
    record.write_device_before = EACCES;
    record.attempts[PROOF_WRITE_DEVICE] = EACCES;
    verdict = judge(&record);
    assert_nothing_found(&verdict);
    record.signal_parent_before = EPERM;
    verdict = judge(&record);
    assert_found(&verdict, BOX_LAYER_LANDLOCK, "cannot be shown");
    /* Without it nothing is asked. */
    record.write_device_before = 0;
    record.attempts[PROOF_WRITE_DEVICE] = 0;
    record.attempts[PROOF_SIGNAL_PARENT] = 0;
    verdict = (struct proof_verdict){};
    expected.landlock_abi = 0;
    proof_judge_record(&record, sizeof record, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void folders_that_the_host_lacks_are_not_compared(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_record record = good_record();
    struct proof_verdict verdict = {};
    expected.folders[3] = (struct file_id){};
    record.folders[3] = (struct file_id){};
    proof_judge_record(&record, sizeof record, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void each_wrong_fact_of_the_interpreter_is_found(void **)
{
    struct proof_expectation expected = expectation();
    for (unsigned i = 0; i < PROOF_NS_COUNT; i++) {
        struct proof_view view = view_of(200);
        struct proof_verdict verdict = {};
        view.namespaces[i] = expected.server.namespaces[i];
        proof_judge_view(&view, &expected, &verdict);
        assert_found(&verdict, BOX_LAYER_NAMESPACES, "namespace is the host's");
    }
    for (unsigned i = 0; i < 5; i++) {
        struct proof_view view = view_of(200);
        struct proof_verdict verdict = {};
        view.capabilities[i] = 1;
        proof_judge_view(&view, &expected, &verdict);
        assert_found(&verdict, BOX_LAYER_PRIVILEGES, "capabilities");
    }
    struct proof_view wrong[8];
    static const struct {
        enum box_layer layer;
        const char *word;
    } rows[8] = {{BOX_LAYER_MOUNTS, "/ is"},        {BOX_LAYER_PRIVILEGES, "NoNewPrivs"},
                 {BOX_LAYER_SECCOMP, "mode"},       {BOX_LAYER_SECCOMP, "2 filters"},
                 {BOX_LAYER_SECCOMP, "-4 filters"}, {BOX_LAYER_PRIVILEGES, "ids"},
                 {BOX_LAYER_PRIVILEGES, "ids"},     {BOX_LAYER_NAMESPACES, "control socket"}};
    for (unsigned i = 0; i < 8; i++) {
        wrong[i] = view_of(200);
    }
    wrong[0].root = expected.server.root;
    wrong[1].no_new_privs = 0;
    wrong[2].seccomp_mode = 0;
    wrong[3].seccomp_filters = 2;
    wrong[4].seccomp_filters = -4;
    wrong[5].uid = 0;
    wrong[6].gid = 0;
    wrong[7].control = expected.server.namespaces[PROOF_NS_NET];
    for (unsigned i = 0; i < 8; i++) {
        struct proof_verdict verdict = {};
        proof_judge_view(&wrong[i], &expected, &verdict);
        assert_found(&verdict, rows[i].layer, rows[i].word);
    }
}

static void filters_of_the_surroundings_do_not_count(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_view view = view_of(200);
    struct proof_verdict verdict = {};
    expected.server.seccomp_filters = 2;
    view.seccomp_filters = 5;
    proof_judge_view(&view, &expected, &verdict);
    assert_nothing_found(&verdict);
    expected.server.seccomp_filters = -1; /* a kernel that does not say */
    view.seccomp_filters = -1;
    proof_judge_view(&view, &expected, &verdict);
    assert_nothing_found(&verdict);
}

static void watched_memory_takes_a_filter_more(void **)
{
    struct proof_expectation expected = expectation();
    struct proof_view view = view_of(200);
    struct proof_verdict verdict = {};
    expected.memory_watched = true;
    view.seccomp_filters = 4;
    proof_judge_view(&view, &expected, &verdict);
    assert_nothing_found(&verdict);
    view.seccomp_filters = 3;
    proof_judge_view(&view, &expected, &verdict);
    assert_found(&verdict, BOX_LAYER_SECCOMP, "not 4");
}

static void data_is_where_it_was_meant_and_as_it_was_meant(void **)
{
    static const char *const paths[] = {"/data/in", "/data/out", "/data/gone"};
    const uint64_t flags = PROOF_DATA_THERE | ST_NOSUID | ST_NODEV | ST_NOEXEC;
    struct proof_record good = good_record();
    struct proof_expectation expected = expectation();
    expected.data = paths;
    expected.data_count = 3;
    expected.data_writable = 1 << 1;
    good.data_flags[0] = flags | ST_RDONLY;
    good.data_flags[1] = flags;
    good.data_write[0] = EROFS;
    struct proof_verdict verdict = {};
    proof_judge_record(&good, sizeof good, &expected, &verdict);
    assert_string_equal(verdict.found[BOX_LAYER_MOUNTS], "");
    for (unsigned i = 0; i < 6; i++) {
        struct proof_record record = good;
        if (i < 4) {
            static const uint64_t lacks[] = {ST_RDONLY, ST_NOSUID, ST_NODEV, ST_NOEXEC};
            record.data_flags[0] &= ~lacks[i];
        } else if (i == 4) {
            record.data_flags[1] &= ~(uint64_t)ST_NOSUID;
        } else {
            record.data_write[0] = 0;
        }
        verdict = (struct proof_verdict){};
        proof_judge_record(&record, sizeof record, &expected, &verdict);
        assert_non_null(strstr(verdict.found[BOX_LAYER_MOUNTS], i == 4 ? "/data/out" : "/data/in"));
    }
}

static void the_first_finding_of_a_layer_stays(void **)
{
    struct proof_verdict verdict = {};
    proof_found(&verdict, BOX_LAYER_DISK, "first %d", 1);
    proof_found(&verdict, BOX_LAYER_DISK, "second");
    assert_string_equal(verdict.found[BOX_LAYER_DISK], "first 1");
}

static void looking_at_oneself_tells_the_truth(void **)
{
    struct proof_view self;
    struct proof_view same;
    assert_int_equal(proof_look(0, &self), 0);
    assert_int_equal(proof_look(getpid(), &same), 0);
    assert_memory_equal(&self, &same, sizeof self);
    assert_int_equal(self.uid, getuid());
    assert_int_equal(self.gid, getgid());
    for (unsigned i = 0; i < PROOF_NS_COUNT; i++) {
        assert_true(self.namespaces[i].inode);
    }
    assert_int_equal(proof_look(1 << 22, &same), -ENOENT); /* PID_MAX_LIMIT, proc(5) */
}

/* Whoever may ask: root, and the maker of the user namespace that the network belongs to. */
static void a_socket_is_of_the_network_where_it_was_made(void **)
{
    struct proof_view self;
    struct file_id network;
    int fds[2];
    assert_int_equal(fd_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(proof_look(0, &self), 0);
    int r = proof_look_socket(fds[0], &network);
    if (r == 0) {
        assert_memory_equal(&network, &self.namespaces[PROOF_NS_NET], sizeof network);
    } else {
        assert_int_equal(r, -EPERM);
    }
    assert_int_equal(close(fds[0]) | close(fds[1]), 0);
    assert_int_equal(proof_look_socket(fds[0], &network), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_record_and_view_prove_all),
        cmocka_unit_test(each_attempt_that_works_is_found),
        cmocka_unit_test(without_namespaces_nothing_is_expected_of_them),
        cmocka_unit_test(without_namespaces_the_other_layers_must_hold_alone),
        cmocka_unit_test(refusal_by_another_hand_proves_nothing),
        cmocka_unit_test(each_wrong_value_of_a_record_is_found),
        cmocka_unit_test(each_wrong_fact_of_the_witness_is_found),
        cmocka_unit_test(a_dead_or_babbling_witness_proves_nothing),
        cmocka_unit_test(landlock_is_judged_by_what_worked_without_it),
        cmocka_unit_test(folders_that_the_host_lacks_are_not_compared),
        cmocka_unit_test(each_wrong_fact_of_the_interpreter_is_found),
        cmocka_unit_test(filters_of_the_surroundings_do_not_count),
        cmocka_unit_test(watched_memory_takes_a_filter_more),
        cmocka_unit_test(data_is_where_it_was_meant_and_as_it_was_meant),
        cmocka_unit_test(the_first_finding_of_a_layer_stays),
        cmocka_unit_test(looking_at_oneself_tells_the_truth),
        cmocka_unit_test(a_socket_is_of_the_network_where_it_was_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
