/* Owners, mounts, and others who work in the directory; the process, and its death. */
#include "tests/unit/sandbox/programs/apply/applying.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* --- who owns what --- */

static void owners_stay(void **)
{
    struct stat st;
    if (getuid() != 0) {
        unit_skip("root", "only root gives files away");
    }
    lower("old", "old", 0644);
    lower("linked", "old", 0644);
    temp_directory(&temp, "dir/shared");
    assert_int_equal(fchownat(temp.fd, "dir/old", 111, 222, 0), 0);
    assert_int_equal(fchownat(temp.fd, "dir/linked", 111, 222, 0), 0);
    assert_int_equal(fchownat(temp.fd, "dir/shared", 111, 333, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "dir/shared", 02775, 0), 0);
    upper("new", "new", 0644);
    upper("old", "new", 0600);
    upper("shared/new/file", "new", 0644);
    temp_link(&temp, "x", "upper/linked");
    temp_directory(&temp, "upper/made");
    add("linked");
    add("made");
    add("new");
    add("old");
    add("shared/new/file");
    run();
    const struct {
        const char *path;
        uid_t uid;
        gid_t gid;
        mode_t mode;
    } all[] = {{"dir/linked", 111, 222, 0777},        {"dir/made", OWNER, GROUP, 0755},
               {"dir/new", OWNER, GROUP, 0644},       {"dir/old", 111, 222, 0600},
               {"dir/shared/new", OWNER, 333, 02755}, {"dir/shared/new/file", OWNER, 333, 0644}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        expect(strcmp(all[i].path, "dir/shared/new") == 0 ? "new" : all[i].path + 4, APPLY_DONE);
        assert_int_equal(fstatat(temp.fd, all[i].path, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_uid, all[i].uid);
        assert_int_equal(st.st_gid, all[i].gid);
        assert_int_equal(st.st_mode & 07777, all[i].mode);
    }
}

static void an_owner_that_cannot_be_kept_is_an_error(void **)
{
    if (getuid() != 0) {
        unit_skip("root", "only root gives files away");
    }
    lower("old", "old", 0644);
    upper("old", "new", 0644);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(fchownat(temp.fd, "dir/old", 0, 0, 0), 0);
    assert_int_equal(seteuid(ORDINARY), 0);
    add("old");
    run();
    expect_failed("old", EPERM);
    assert_true(has("dir", "old", "old"));
}

/* acl(5) in the kernel's form, version 2: owner rw, user 4242 r, group r, mask r, others none. */
static const unsigned char list[] = {2,   0,   0,   0,   1,   0,    6,    0,   255, 255, 255,
                                     255, 2,   0,   4,   0,   0x92, 0x10, 0,   0,   4,   0,
                                     4,   0,   255, 255, 255, 255,  16,   0,   4,   0,   255,
                                     255, 255, 255, 32,  0,   0,    0,    255, 255, 255, 255};

static void lists_of_access_stay(void **)
{
    static const char name[] = "system.posix_acl_access";
    unsigned char value[256];
    char path[PATH_MAX];
    lower("old", "old", 0640);
    upper("old", "new", 0640);
    if (setxattr(temp_path(&temp, "dir/old", path), name, list, sizeof list, 0) < 0) {
        unit_skip("acl", "this file system has no access control lists");
    }
    add("old");
    run();
    expect("old", APPLY_DONE);
    assert_int_equal(getxattr(path, name, value, sizeof value), sizeof list);
    assert_memory_equal(value, list, sizeof list);
    assert_true(has("dir", "old", "new"));
}

/* --- the process --- */

/* Writes enough that copying takes a while. */
static void upper_large(void)
{
    enum { PIECE = 1 << 20, PIECES = 96 };
    static char piece[PIECE];
    memset(piece, 'x', sizeof piece);
    upper("large", "", 0644);
    int fd = openat(temp.fd, "upper/large", O_WRONLY | O_CLOEXEC);
    for (unsigned i = 0; i < PIECES; i++) {
        assert_int_equal(fd_write_all(fd, piece, sizeof piece), 0);
    }
    (void)close(fd);
}

/* The status file of the applying process, when it has its filter. Returns its pid. */
static pid_t confined_child(char text[8192])
{
    char path[64] = "";
    char pid[32] = "";
    uint64_t until_ns = clock_now_ns() + 5000 * CLOCK_NS_PER_MS;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());
    if (fd_read_text_at(AT_FDCWD, path, pid, sizeof pid) <= 0) {
        fail_msg("the process has ended already");
    }
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)strtol(pid, NULL, 10));
    do {
        assert_true(clock_now_ns() < until_ns);
        if (fd_read_text_at(AT_FDCWD, path, text, 8192) <= 0) {
            text[0] = '\0';
        }
    } while (!strstr(text, "Seccomp:\t2"));
    return (pid_t)strtol(pid, NULL, 10);
}

static void it_is_confined_and_its_death_reported(void **)
{
    char text[8192];
    bool is_root = geteuid() == 0;
    lower("large", "old", 0644);
    upper_large();
    add("large");
    map_journal();
    struct apply *apply = launch();
    pid_t pid = confined_child(text);
    assert_non_null(strstr(text, "NoNewPrivs:\t1"));
    assert_non_null(strstr(text, is_root ? "CapEff:\t000000001000001b" /* capabilities(7) */
                                         : "CapEff:\t0000000000000000"));
    assert_non_null(
        strstr(text, is_root ? "CapPrm:\t000000001000001b" : "CapPrm:\t0000000000000000"));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(loop_run(loop), 0);
    apply_free(apply);
    assert_false(done_completed);
    assert_true(has("dir", "large", "old"));
    assert_true(run_again());
    expect("large", APPLY_DONE);
    assert_int_equal(temporaries(), 0);
}

/* On a busy machine the writer may be too late, and then the file is applied. */
static void a_file_that_is_written_while_it_is_copied_is_busy(void **)
{
    enum { ROUNDS = 2000 }; /* on a busy machine the writer has its turn seldom */
    uint32_t status = APPLY_DONE;
    for (unsigned round = 0; round < ROUNDS && status == APPLY_DONE; round++) {
        begin();
        (void)unlinkat(temp.fd, "dir/large", 0);
        lower("large", "old", 0644);
        upper_large();
        add("large");
        map_journal();
        pid_t pid = fork();
        if (pid == 0) {
            const volatile struct apply_journal *seen = mapped;
            int fd = openat(temp.fd, "upper/large", O_WRONLY | O_CLOEXEC);
            while (!seen->temporary[0] && !seen->complete) {
            }
            _exit(pwrite(fd, "y", 1, 0) != 1);
        }
        assert_true(run_again());
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        status = result("large")->status;
    }
    expect("large", APPLY_BUSY);
    assert_true(has("dir", "large", "old"));
    assert_int_equal(temporaries(), 0);
}

/* As on a file system that has no flags of renameat2(2). */
static void a_plain_rename_will_do(void **)
{
    static const char *const names[] = {"deleted", "down", "down/a", "new/file",
                                        "old",     "up",   "up/a"};
    lower("deleted", "old", 0644);
    lower("down/a", "old", 0644);
    lower("old", "old", 0644);
    lower("up", "old", 0644);
    whiteout("deleted");
    upper("down", "new", 0644);
    upper("new/file", "new", 0644);
    upper("old", "new", 0644);
    upper("up/a", "new", 0644);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    map_journal();
    pid_t pid = fork();
    if (pid == 0) { /* the filter stays with the process */
        bool started = unit_deny(SYS_renameat2, EINVAL) && loop_new(&loop) == 0;
        _exit(!started || !run_again());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], APPLY_DONE);
    }
    assert_true(is_gone("deleted"));
    assert_true(has("dir", "down", "new"));
    assert_true(has("dir", "new/file", "new"));
    assert_true(has("dir", "old", "new"));
    assert_true(has("dir", "up/a", "new"));
    assert_int_equal(temporaries(), 0);
}

/* --- mounts --- */

/* Mounts of this process's own. */
static void mount_memory(const char *path, const char *options)
{
    char whole[PATH_MAX];
    if (getuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", temp_path(&temp, path, whole), "tmpfs", 0, options) < 0) {
        unit_skip("root", "mounts need root");
    }
    (void)close(temp.fd); /* of the mounts of before */
    temp.fd = open(temp.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(temp.fd >= 0);
}

static void unmount(const char *path)
{
    char whole[PATH_MAX];
    assert_int_equal(umount2(temp_path(&temp, path, whole), MNT_DETACH), 0);
}

static void a_full_disk_leaves_the_old_file(void **)
{
    static char large[1 << 20];
    mount_memory("dir", "size=256k");
    memset(large, 'x', sizeof large - 1);
    lower("old", "old", 0644);
    upper("old", large, 0644);
    upper("small", "new", 0644);
    add("old");
    add("small");
    run();
    expect_failed("old", ENOSPC);
    expect("small", APPLY_DONE);
    assert_true(has("dir", "old", "old"));
    assert_true(has("dir", "small", "new"));
    unmount("dir");
}

static void a_mount_below_is_left_alone(void **)
{
    struct stat st;
    temp_directory(&temp, "dir/mounted");
    upper("mounted/file", "new", 0644);
    add("mounted/file");
    mount_memory("dir/mounted", NULL);
    run();
    expect_failed("mounted/file", EXDEV);
    assert_int_equal(fstatat(temp.fd, "dir/mounted/file", &st, 0), -1);
    /* A mount of the same file system, too. */
    char from[PATH_MAX];
    char to[PATH_MAX];
    temp_directory(&temp, "other");
    unmount("dir/mounted");
    assert_int_equal(mount(temp_path(&temp, "other", from), temp_path(&temp, "dir/mounted", to),
                           NULL, MS_BIND, NULL),
                     0);
    begin();
    add("mounted/file");
    run();
    expect_failed("mounted/file", EXDEV);
    unmount("dir/mounted");
}

/* --- others who work in DIR meanwhile --- */

static void a_directory_that_becomes_a_symlink_leads_nowhere(void **)
{
    enum { ROUNDS = 30, FILES = 40 };
    char path[64];
    temp_directory(&temp, "outside");
    temp_directory(&temp, "dir/d");
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "outside/%02u", i);
        temp_file(&temp, path, "theirs", 0644);
    }
    assert_int_equal(symlinkat("../outside", temp.fd, "dir/link"), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)renameat2(temp.fd, "dir/d", temp.fd, "dir/link", RENAME_EXCHANGE);
            /* Both are there for a while, however little of the processors this gets. */
            (void)usleep((useconds_t)rand() % 200);
        }
    }
    unsigned done = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        begin();
        for (unsigned i = 0; i < FILES; i++) {
            const struct apply_facts none = {};
            (void)snprintf(path, sizeof path, "d/%02u", i);
            upper(path, round % 2 ? "odd" : "even", 0644);
            const struct apply_facts source = facts("upper", path);
            const struct apply_facts before = facts("dir", path);
            assert_int_equal(
                apply_journal_add(&journal, path, before.mode ? &before : &none, &source), 0);
        }
        map_journal();
        assert_true(run_again());
        const struct apply_item *item = NULL;
        while ((item = apply_journal_next(mapped, item))) {
            done += item->status == APPLY_DONE;
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    print_message("# %u of %u written\n", done, (unsigned)(ROUNDS * FILES));
    assert_in_range(done, 1, ROUNDS * FILES - 1);
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%02u", i);
        assert_true(has("outside", path, "theirs"));
    }
    assert_int_equal(temporaries_in("outside"), 0);
}

/* Whoever of the two is first: what the user has written stays. */
static void a_file_that_is_replaced_meanwhile_stays(void **)
{
    enum { ROUNDS = 100 };
    unsigned counts[APPLY_STATUS_COUNT] = {};
    temp_directory(&temp, "aside");
    for (unsigned round = 0; round < ROUNDS; round++) {
        begin();
        lower("file", "old", 0644);
        temp_file(&temp, "aside/file", "user's", 0644);
        upper("file", "ours", 0644);
        bool deletes = round % 3 == 2;
        if (deletes) {
            assert_int_equal(unlinkat(temp.fd, "upper/file", 0), 0);
            whiteout("file");
        }
        add("file");
        map_journal();
        pid_t pid = fork();
        if (pid == 0) {
            const volatile struct apply_journal *seen = mapped;
            while (!seen->temporary[0] && !seen->complete) {
            }
            for (uint64_t until_ns = clock_now_ns() + (uint64_t)rand() % 100000;
                 clock_now_ns() < until_ns;) {
            }
            _exit(renameat(temp.fd, "aside/file", temp.fd, "dir/file") < 0);
        }
        (void)rand();
        assert_true(run_again());
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        counts[result("file")->status]++;
        if (!has("dir", "file", "user's")) {
            fail_msg("round %u: status %u", round, result("file")->status);
        }
        assert_int_equal(temporaries(), 0);
        assert_int_equal(unlinkat(temp.fd, "dir/file", 0), 0);
        assert_int_equal(unlinkat(temp.fd, "upper/file", 0), 0);
    }
    print_message("# %u done, %u conflicts\n", counts[APPLY_DONE], counts[APPLY_CONFLICT]);
}

/* --- kills --- */

static const char *const kill_names[] = {
    "changed", "deleted",  "deleted/a", "deleted/a/b", "fresh/a", "fresh/b", "link",
    "sealed",  "sealed/a", "type",      "type/a",      "typed",   "typed/a", "typed/b"};
enum { KILL_NAMES = sizeof kill_names / sizeof *kill_names };

static void prepare_kill(void)
{
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    lower("changed", "old", 0644);
    lower("deleted/a/b", "old", 0644);
    lower("typed/a", "old", 0644);
    lower("typed/b", "old", 0644);
    lower("type", "old", 0644);
    temp_link(&temp, "old", "dir/link");
    upper("changed", large, 0600);
    whiteout("deleted");
    upper("fresh/a", "new", 0644);
    upper("fresh/b", "new", 0644);
    temp_link(&temp, "new", "upper/link");
    upper("sealed/a", "new", 0644);
    assert_int_equal(fchmodat(temp.fd, "upper/sealed", 0555, 0), 0);
    upper("type/a", "new", 0644);
    upper("typed", "new", 0644);
    begin();
    for (unsigned i = 0; i < KILL_NAMES; i++) {
        add(kill_names[i]);
    }
    map_journal();
}

static void expect_old_or_new(void)
{
    const struct apply_facts changed = facts("dir", "changed");
    const struct apply_facts type = facts("dir", "type");
    assert_true(has("dir", "changed", "old") ||
                (changed.bytes == 99999 && changed.mode == 0100600));
    assert_true(is_gone("deleted") || is_gone("deleted/a") || is_gone("deleted/a/b") ||
                has("dir", "deleted/a/b", "old"));
    assert_true(is_gone("fresh") || is_gone("fresh/a") || has("dir", "fresh/a", "new"));
    assert_true(links_to("link", "old") || links_to("link", "new"));
    assert_true(has("dir", "type", "old") || S_ISDIR(type.mode));
    assert_true(has("dir", "typed", "new") || S_ISDIR(facts("dir", "typed").mode));
    assert_true(temporaries() <= 1);
}

static void expect_new(void)
{
    assert_int_equal(facts("dir", "changed").bytes, 99999);
    assert_true(is_gone("deleted"));
    assert_true(has("dir", "fresh/a", "new"));
    assert_true(has("dir", "fresh/b", "new"));
    assert_true(links_to("link", "new"));
    assert_true(has("dir", "sealed/a", "new"));
    assert_int_equal(mode_of("sealed"), 0555);
    assert_true(has("dir", "type/a", "new"));
    assert_true(has("dir", "typed", "new"));
    assert_int_equal(temporaries(), 0);
    for (unsigned i = 0; i < KILL_NAMES; i++) {
        const struct apply_item *item = result(kill_names[i]);
        expect(kill_names[i], (enum apply_status)item->status);
        assert_true(item->status == APPLY_DONE || item->status == APPLY_SAME);
    }
}

/* Waits until the process works, for a random number of items, and for a random part of the next:
 * some hundred nanoseconds as often as some hundred thousand. */
static void wait_for_a_part(void)
{
    const volatile struct apply_journal *seen = mapped;
    unsigned wanted = (unsigned)rand() % KILL_NAMES;
    uint64_t until_ns = clock_now_ns() + 200 * CLOCK_NS_PER_MS;
    unsigned done = 0;
    while ((!seen->temporary[0] || done < wanted) && !seen->complete && clock_now_ns() < until_ns) {
        const struct apply_item *item = NULL;
        done = 0;
        while ((item = apply_journal_next(mapped, item))) {
            done += *(const volatile uint32_t *)&item->status != APPLY_TO_DO;
        }
    }
    until_ns = clock_now_ns() + (unsigned)rand() % (2U << (unsigned)rand() % 18);
    while (clock_now_ns() < until_ns) {
    }
}

static void a_killed_process_is_continued(void **)
{
    enum { KILLS = 60 };
    unsigned seen[KILL_NAMES + 1] = {};
    unsigned left = 0;
    for (unsigned round = 0; round < KILLS; round++) {
        unsigned done = 0;
        prepare_kill();
        struct apply *apply = launch();
        wait_for_a_part();
        apply_free(apply);
        for (unsigned i = 0; i < KILL_NAMES; i++) {
            done += result(kill_names[i])->status != APPLY_TO_DO;
        }
        seen[done]++;
        left += temporaries() == 1;
        expect_old_or_new();
        if (round % 4 == 3) { /* the next is killed as well */
            apply = launch();
            wait_for_a_part();
            apply_free(apply);
            expect_old_or_new();
        }
        assert_true(run_again());
        expect_new();
        forget_run();
        assert_int_equal(fchmodat(temp.fd, "dir/sealed", 0755, 0), 0);
        assert_int_equal(fchmodat(temp.fd, "upper/sealed", 0755, 0), 0);
        pid_t pid = fork();
        if (pid == 0) {
            (void)fchdir(temp.fd);
            _exit(execlp("rm", "rm", "-rf", "dir", "upper", NULL));
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        temp_directory(&temp, "dir");
        temp_directory(&temp, "upper");
    }
    unsigned amid = KILLS - seen[0] - seen[KILL_NAMES];
    print_message("# killed amid the work: %u, with a temporary name: %u\n", amid, left);
    assert_true(amid > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(lists_of_access_stay),
        EACH(a_file_that_is_replaced_meanwhile_stays),
        EACH(a_killed_process_is_continued),
        EACH(it_is_confined_and_its_death_reported),
        EACH(a_plain_rename_will_do),
        cmocka_unit_test_setup_teardown(a_file_that_is_written_while_it_is_copied_is_busy, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(owners_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_that_cannot_be_kept_is_an_error, set_up_ordinary,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_mount_below_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_directory_that_becomes_a_symlink_leads_nowhere, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
