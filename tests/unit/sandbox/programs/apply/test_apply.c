/* Drives the real applying process, in pairs of directories: "dir" and "upper". */
#include "sandbox/apply_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "sandbox/protocol/apply_journal.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { ORDINARY = 65534, OWNER = 1234, GROUP = 2345 };

static struct temp temp;
static struct loop *loop;
static struct buf journal;
/* Of the last run: */
static int journal_fd = -1;
static struct apply_journal *mapped;
static size_t mapped_size;
static bool done_completed;

/* --- the pair of directories --- */

static void forget_run(void)
{
    if (mapped) {
        assert_int_equal(munmap(mapped, mapped_size), 0);
        assert_int_equal(close(journal_fd), 0);
        mapped = NULL;
    }
}

static void begin(void)
{
    forget_run();
    buf_clear(&journal, 0);
    assert_int_equal(apply_journal_begin(&journal, OWNER, GROUP), 0);
}

static int set_up(void **)
{
    temp_make(&temp);
    assert_int_equal(loop_new(&loop), 0);
    temp_directory(&temp, "dir");
    temp_directory(&temp, "upper");
    begin();
    return 0;
}

/* From here on this process is an ordinary user for the kernel's checks, and so is its child. */
static int set_up_ordinary(void **state)
{
    (void)set_up(state);
    if (geteuid() == 0) {
        assert_int_equal(fchown(temp.fd, ORDINARY, ORDINARY), 0);
        assert_int_equal(fchownat(temp.fd, "dir", ORDINARY, ORDINARY, 0), 0);
        assert_int_equal(fchownat(temp.fd, "upper", ORDINARY, ORDINARY, 0), 0);
        assert_int_equal(setegid(ORDINARY), 0);
        assert_int_equal(seteuid(ORDINARY), 0);
    }
    return 0;
}

static int tear_down(void **)
{
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
    }
    forget_run();
    buf_done(&journal);
    loop_free(loop);
    temp_remove(&temp);
    return 0;
}

static const char *in(const char *directory, const char *path)
{
    static char texts[4][PATH_MAX];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    (void)snprintf(text, PATH_MAX, "%s/%s", directory, path);
    return text;
}

static void lower(const char *path, const char *content, mode_t mode)
{
    temp_file(&temp, in("dir", path), content, mode);
}

static void upper(const char *path, const char *content, mode_t mode)
{
    temp_file(&temp, in("upper", path), content, mode);
}

static void whiteout(const char *path)
{
    assert_int_equal(mknodat(temp.fd, in("upper", path), S_IFCHR, makedev(0, 0)), 0);
}

static struct apply_facts facts(const char *directory, const char *path)
{
    struct stat st;
    if (fstatat(temp.fd, in(directory, path), &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return (struct apply_facts){};
    }
    return S_ISCHR(st.st_mode) ? (struct apply_facts){} : apply_facts_of(&st);
}

/* An item with what both directories have at the moment. */
static void add(const char *path)
{
    const struct apply_facts before = facts("dir", path);
    const struct apply_facts source = facts("upper", path);
    size_t at = buf_size(&journal);
    uint32_t above = 0;
    assert_int_equal(apply_journal_add(&journal, path, &before, &source), 0);
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        char parent[256];
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
        above += S_ISDIR(facts("dir", parent).mode) != 0;
    }
    ((struct apply_item *)(void *)(journal.data + journal.start + at))->above = above;
}

static bool has(const char *directory, const char *path, const char *content)
{
    char text[4096];
    ssize_t size = -1;
    int fd = openat(temp.fd, in(directory, path), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, text, sizeof text);
        (void)close(fd);
    }
    return size == (ssize_t)strlen(content) && memcmp(text, content, (size_t)size) == 0;
}

static bool is_gone(const char *path)
{
    return faccessat(temp.fd, in("dir", path), F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static mode_t mode_of(const char *path)
{
    return facts("dir", path).mode & 07777;
}

static bool links_to(const char *path, const char *target)
{
    char text[PATH_MAX];
    ssize_t size = readlinkat(temp.fd, in("dir", path), text, sizeof text);
    return size == (ssize_t)strlen(target) && memcmp(text, target, (size_t)size) == 0;
}

static unsigned temporaries_seen;

static int count_temporary(const char *path, const struct stat *, int, struct FTW *ftw)
{
    temporaries_seen += strncmp(path + ftw->base, ".sandpiper-", 11) == 0;
    return 0;
}

/* With few descriptors: a tree may be deeper than a process may have of them. */
static unsigned temporaries_in(const char *name)
{
    char path[PATH_MAX];
    temporaries_seen = 0;
    assert_int_equal(nftw(temp_path(&temp, name, path), count_temporary, 16, FTW_PHYS), 0);
    return temporaries_seen;
}

static unsigned temporaries(void)
{
    return temporaries_in("dir");
}

/* --- running --- */

static void map_journal(void)
{
    mapped_size = buf_size(&journal);
    journal_fd = memfd_create("journal", MFD_CLOEXEC);
    assert_true(journal_fd >= 0);
    assert_int_equal(fd_write_all(journal_fd, buf_bytes(&journal), mapped_size), 0);
    mapped = mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, journal_fd, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
}

static void on_done(void *, bool completed)
{
    done_completed = completed;
    loop_stop(loop, 0);
}

static struct apply *launch(void)
{
    struct fail fail = {};
    struct apply *apply = NULL;
    int dir_fd = openat(temp.fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int upper_fd = openat(temp.fd, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct apply_setup setup = {dir_fd, upper_fd, journal_fd, on_done, NULL};
    if (apply_start(loop, &setup, &apply, &fail) < 0) {
        fail_msg("%s", fail_text(&fail));
    }
    (void)close(dir_fd);
    (void)close(upper_fd);
    return apply;
}

static bool run_again(void)
{
    struct apply *apply = launch();
    assert_int_equal(loop_run(loop), 0);
    apply_free(apply);
    return done_completed;
}

/* Applies what was added. */
static void run(void)
{
    assert_true(apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal)));
    map_journal();
    assert_true(run_again());
    assert_int_equal(temporaries(), 0);
    assert_int_equal(mapped->temporary[0], 0);
}

static const struct apply_item *result(const char *path)
{
    const struct apply_item *item = NULL;
    while ((item = apply_journal_next(mapped, item))) {
        if (strcmp(item->path, path) == 0) {
            return item;
        }
    }
    fail_msg("no item %s", path);
    return NULL;
}

static void expect(const char *path, enum apply_status status)
{
    const struct apply_item *item = result(path);
    if (item->status != status) {
        fail_msg("%s: status %u, error %d", path, item->status, item->error);
    }
    assert_int_equal(item->error, 0);
    if (status == APPLY_DONE || status == APPLY_SAME) {
        const struct apply_facts now = facts("dir", path);
        assert_true(apply_facts_equal(&item->after, &now));
    }
}

static void expect_failed(const char *path, int error)
{
    assert_int_equal(result(path)->status, APPLY_FAILED);
    assert_int_equal(result(path)->error, error);
}

/* --- what becomes of each kind of change --- */

static void changes_are_applied(void **)
{
    lower("changed", "old", 0644);
    lower("sub/deleted", "old", 0644);
    lower("mode", "same", 0644);
    upper("changed", "newer", 0600);
    upper("mode", "same", 0755);
    upper("added/below/file", "new", 0640);
    temp_link(&temp, "../outside", "upper/link");
    temp_directory(&temp, "upper/sub");
    whiteout("sub/deleted");
    assert_int_equal(fchmodat(temp.fd, "upper/added", 0711, 0), 0);
    add("added/below/file");
    add("changed");
    add("link");
    add("mode");
    add("sub/deleted");
    run();
    expect("added/below/file", APPLY_DONE);
    expect("changed", APPLY_DONE);
    expect("link", APPLY_DONE);
    expect("mode", APPLY_DONE);
    expect("sub/deleted", APPLY_DONE);
    assert_true(has("dir", "changed", "newer"));
    assert_int_equal(mode_of("changed"), 0600);
    assert_int_equal(mode_of("mode"), 0755);
    assert_true(has("dir", "added/below/file", "new"));
    assert_int_equal(mode_of("added"), 0711);
    assert_int_equal(mode_of("added/below"), 0755);
    assert_int_equal(mode_of("added/below/file"), 0640);
    assert_true(links_to("link", "../outside"));
    assert_true(is_gone("sub/deleted"));
    assert_false(is_gone("sub"));
}

static void directories_get_their_mode_and_keep_their_files(void **)
{
    lower("both/user", "u", 0644);
    temp_directory(&temp, "upper/both");
    temp_directory(&temp, "upper/empty");
    temp_directory(&temp, "upper/sealed");
    assert_int_equal(fchmodat(temp.fd, "upper/both", 0750, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/sealed", 0, 0), 0);
    add("both");
    add("empty");
    add("sealed");
    lower("both/later", "u", 0644); /* a directory's times tell nothing of its own */
    run();
    expect("both", APPLY_DONE);
    expect("empty", APPLY_DONE);
    expect("sealed", APPLY_DONE);
    assert_int_equal(mode_of("both"), 0750);
    assert_int_equal(mode_of("sealed"), 0);
    assert_true(has("dir", "both/later", "u"));
}

static void files_come_into_directories_that_are_sealed(void **)
{
    lower("old/deleted", "old", 0644);
    upper("new/below/file", "new", 0644);
    upper("old/file", "new", 0644);
    upper("unnamed/file", "new", 0644);
    whiteout("old/deleted");
    assert_int_equal(fchmodat(temp.fd, "upper/new/below", 0555, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/new", 0500, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/old", 0555, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/unnamed", 0555, 0), 0);
    add("new");
    add("new/below");
    add("new/below/file");
    add("old");
    add("old/deleted");
    add("old/file");
    add("unnamed/file");
    run();
    expect("new", APPLY_DONE);
    expect("new/below", APPLY_DONE);
    expect("new/below/file", APPLY_DONE);
    expect("old", APPLY_DONE);
    expect("old/deleted", APPLY_DONE);
    expect("old/file", APPLY_DONE);
    expect("unnamed/file", APPLY_DONE);
    assert_int_equal(mode_of("new"), 0500);
    assert_int_equal(mode_of("new/below"), 0555);
    assert_int_equal(mode_of("old"), 0555);
    static const char *const opened[] = {"dir/new",      "dir/new/below",   "dir/old",
                                         "upper/new",    "upper/new/below", "upper/old",
                                         "upper/unnamed"};
    for (unsigned i = 0; i < sizeof opened / sizeof *opened; i++) {
        assert_int_equal(fchmodat(temp.fd, opened[i], 0755, 0), 0);
    }
}

static void what_the_user_has_changed_is_a_conflict(void **)
{
    static const char *const names[] = {"deleted", "edited",   "given/a/file", "made",
                                        "removed", "replaced", "retyped"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], "made") != 0) {
            lower(names[i], "old", 0644);
        }
        upper(names[i], "ours", 0644);
    }
    assert_int_equal(unlinkat(temp.fd, "upper/deleted", 0), 0);
    whiteout("deleted");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("deleted", "user's", 0644);
    lower("edited", "use", 0644); /* of the same size */
    lower("made", "user's", 0644);
    lower("other", "old", 0644);
    assert_int_equal(unlinkat(temp.fd, "dir/removed", 0), 0);
    assert_int_equal(renameat(temp.fd, "dir/other", temp.fd, "dir/replaced"), 0);
    assert_int_equal(unlinkat(temp.fd, "dir/retyped", 0), 0);
    temp_link(&temp, "edited", "dir/retyped");
    assert_int_equal(renameat(temp.fd, "dir/given/a", temp.fd, "dir/given/b"), 0);
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], APPLY_CONFLICT);
    }
    assert_true(has("dir", "deleted", "user's"));
    assert_true(has("dir", "edited", "use"));
    assert_true(has("dir", "made", "user's"));
    assert_true(is_gone("removed"));
    assert_true(has("dir", "replaced", "old"));
    assert_true(links_to("retyped", "edited"));
    assert_true(is_gone("given/a"));
}

static void an_equal_state_is_no_conflict(void **)
{
    static const char *const names[] = {"deleted", "directory", "link", "new", "old"};
    lower("deleted", "old", 0644);
    lower("old", "old", 0644);
    upper("new", "same", 0755);
    upper("old", "same", 0644);
    temp_directory(&temp, "upper/directory");
    temp_link(&temp, "to", "upper/link");
    whiteout("deleted");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    assert_int_equal(unlinkat(temp.fd, "dir/deleted", 0), 0);
    lower("new", "same", 0755);
    lower("old", "same", 0644);
    temp_directory(&temp, "dir/directory");
    temp_link(&temp, "to", "dir/link");
    const struct apply_facts kept = facts("dir", "old");
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], APPLY_SAME);
    }
    const struct apply_facts now = facts("dir", "old");
    assert_true(apply_facts_equal(&kept, &now));
}

static void what_differs_a_little_is_not_the_same(void **)
{
    upper("byte", "samf", 0644);
    upper("long", "same and more", 0644);
    upper("mode", "same", 0644);
    temp_link(&temp, "to", "upper/text");
    temp_link(&temp, "same", "upper/type");
    add("byte");
    add("long");
    add("mode");
    add("text");
    add("type");
    lower("byte", "same", 0644);
    lower("long", "same", 0644);
    lower("mode", "same", 0600);
    temp_link(&temp, "tx", "dir/text");
    lower("type", "same", 0644);
    run();
    expect("byte", APPLY_CONFLICT);
    expect("long", APPLY_CONFLICT);
    expect("mode", APPLY_CONFLICT);
    expect("text", APPLY_CONFLICT);
    expect("type", APPLY_CONFLICT);
}

static void a_source_that_has_changed_is_busy(void **)
{
    lower("deleted", "old", 0644);
    lower("written", "old", 0644);
    upper("gone", "new", 0644);
    upper("linked", "new", 0644);
    upper("parent/file", "new", 0644);
    upper("written", "new", 0644);
    whiteout("deleted");
    add("deleted");
    add("gone");
    add("linked");
    add("parent/file");
    add("written");
    assert_int_equal(unlinkat(temp.fd, "upper/deleted", 0), 0);
    upper("deleted", "back", 0644);
    assert_int_equal(unlinkat(temp.fd, "upper/gone", 0), 0);
    assert_int_equal(unlinkat(temp.fd, "upper/linked", 0), 0);
    temp_link(&temp, "written", "upper/linked");
    assert_int_equal(renameat(temp.fd, "upper/parent", temp.fd, "upper/other"), 0);
    temp_link(&temp, "other", "upper/parent");
    upper("written", "noo", 0644);
    run();
    expect("deleted", APPLY_BUSY);
    expect("gone", APPLY_BUSY);
    expect("linked", APPLY_BUSY);
    expect("parent/file", APPLY_BUSY);
    expect("written", APPLY_BUSY);
    assert_true(has("dir", "deleted", "old"));
    assert_true(has("dir", "written", "old"));
    assert_true(is_gone("gone"));
    assert_true(is_gone("linked"));
}

static void odd_files_are_named(void **)
{
    upper("above", "new", 0644);
    assert_int_equal(mkfifoat(temp.fd, "dir/below", 0600), 0);
    assert_int_equal(mkfifoat(temp.fd, "upper/fifo", 0600), 0);
    assert_int_equal(mkfifoat(temp.fd, "dir/above", 0600), 0);
    whiteout("below");
    add("above");
    add("below");
    add("fifo");
    run();
    expect("above", APPLY_ODD);
    expect("below", APPLY_ODD);
    expect("fifo", APPLY_ODD);
    assert_true(S_ISFIFO(facts("dir", "above").mode));
    assert_true(S_ISFIFO(facts("dir", "below").mode));
    assert_true(is_gone("fifo"));
}

static void trees_are_removed_unless_the_user_has_put_something_in(void **)
{
    static const char *const names[] = {"full",  "full/a",  "full/b",   "full/b/c",
                                        "whole", "whole/a", "whole/a/b"};
    lower("full/a", "1", 0644);
    lower("full/b/c", "1", 0644);
    lower("whole/a/b", "1", 0644);
    whiteout("full");
    whiteout("whole");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("full/b/user", "u", 0644);
    run();
    expect("full", APPLY_FULL);
    expect("full/a", APPLY_DONE);
    expect("full/b", APPLY_FULL);
    expect("full/b/c", APPLY_DONE);
    expect("whole", APPLY_DONE);
    assert_true(has("dir", "full/b/user", "u"));
    assert_true(is_gone("whole"));
}

static void types_change(void **)
{
    static const char *const names[] = {"d1",   "d1/a",   "d1/b", "d1/b/c", "d2",
                                        "d2/a", "f1",     "f1/a", "f1/a/b", "f2",
                                        "full", "full/x", "l1",   "l1/a"};
    lower("d1/a", "1", 0644);
    lower("d1/b/c", "1", 0644);
    lower("d2/a", "1", 0644);
    lower("f1", "1", 0644);
    lower("f2", "1", 0644);
    lower("full/x", "1", 0644);
    temp_link(&temp, "f1", "dir/l1");
    upper("d1", "file", 0644);
    temp_link(&temp, "nowhere", "upper/d2");
    upper("f1/a/b", "new", 0644);
    temp_link(&temp, "nowhere", "upper/f2");
    upper("full", "file", 0644);
    upper("l1/a", "new", 0644);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("full/user", "u", 0644);
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], strcmp(names[i], "full") == 0     ? APPLY_FULL
                         : strcmp(names[i], "full/x") == 0 ? APPLY_LAST
                                                           : APPLY_DONE);
    }
    assert_true(has("dir", "d1", "file"));
    assert_true(links_to("d2", "nowhere"));
    assert_true(has("dir", "f1/a/b", "new"));
    assert_true(links_to("f2", "nowhere"));
    assert_true(has("dir", "full/user", "u"));
    assert_true(has("dir", "l1/a", "new"));
}

static void no_symlink_is_followed(void **)
{
    temp_file(&temp, "outside/file", "theirs", 0644);
    temp_link(&temp, "../outside", "dir/link");
    temp_link(&temp, "../outside/file", "dir/own");
    temp_directory(&temp, "upper/link");
    upper("link/file", "ours", 0644);
    upper("link/new", "ours", 0644);
    upper("own", "ours", 0644);
    whiteout("link/deleted");
    add("link/deleted");
    add("link/file");
    add("link/new");
    add("own");
    temp_file(&temp, "outside/deleted", "theirs", 0644);
    run();
    expect("link/deleted", APPLY_CONFLICT);
    expect("link/file", APPLY_CONFLICT);
    expect("link/new", APPLY_CONFLICT);
    expect("own", APPLY_DONE);
    assert_true(has("outside", "file", "theirs"));
    assert_true(has("outside", "deleted", "theirs"));
    assert_true(has("dir", "own", "ours"));
    assert_int_equal(faccessat(temp.fd, "outside/new", F_OK, 0), -1);
}

static void other_names_of_a_file_keep_its_content(void **)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < 4; i++) {
        char other[8];
        lower(names[i], "old", 0644);
        (void)snprintf(other, sizeof other, "dir/%s2", names[i]);
        assert_int_equal(linkat(temp.fd, in("dir", names[i]), temp.fd, other, 0), 0);
    }
    upper("a", "new", 0644);
    upper("b", "new", 0644);
    upper("b2", "new too", 0644);
    whiteout("c");
    whiteout("c2");
    upper("d", "newer", 0644);
    upper("d2", "newer", 0644);
    add("a");
    add("b");
    add("b2");
    add("c");
    add("c2");
    add("d");
    add("d2");
    lower("d", "use", 0644); /* through one name, both are the user's */
    run();
    expect("a", APPLY_DONE);
    expect("b", APPLY_DONE);
    expect("b2", APPLY_DONE);
    expect("c", APPLY_DONE);
    expect("c2", APPLY_DONE);
    expect("d", APPLY_CONFLICT);
    expect("d2", APPLY_CONFLICT);
    assert_true(has("dir", "a2", "old"));
    assert_true(has("dir", "b2", "new too"));
    assert_true(has("dir", "d2", "use"));
}

static void set_id_bits_and_attributes_stay_behind(void **)
{
    char value[64];
    char path[PATH_MAX];
    lower("old", "old", 0644);
    upper("new", "new", 0644);
    upper("old", "new", 0644);
    (void)setxattr(temp_path(&temp, "upper/new", path), "user.overlay.origin", "y", 1, 0);
    (void)setxattr(path, "user.other", "y", 1, 0);
    assert_int_equal(fchmodat(temp.fd, "upper/new", 06755, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/old", 07711, 0), 0);
    add("new");
    add("old");
    run();
    expect("new", APPLY_DONE);
    expect("old", APPLY_DONE);
    assert_int_equal(mode_of("new"), 0755);
    assert_int_equal(mode_of("old"), 0711);
    assert_int_equal(listxattr(temp_path(&temp, "dir/new", path), value, sizeof value), 0);
}

static void any_name_will_do(void **)
{
    static char deep[PATH_MAX];
    char name[256];
    size_t most = PATH_MAX - strlen(temp.path) - sizeof "/upper/";
    memset(name, '\n', 255);
    name[255] = '\0';
    for (size_t i = 0; i + 2 < most; i += 2) {
        memcpy(deep + i, "d/", 3);
    }
    deep[strlen(deep) - 1] = 'f';
    upper(name, "new", 0644);
    upper(" -rf \"'\xff", "new", 0644);
    int at = openat(temp.fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i + 2 < strlen(deep); i += 2) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    int fd = openat(at, deep + strlen(deep) - 2, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    (void)close(at);
    deep[strlen(deep)] = '\0';
    add(name);
    add(" -rf \"'\xff");
    add(deep);
    run();
    expect(name, APPLY_DONE);
    expect(" -rf \"'\xff", APPLY_DONE);
    expect(deep, APPLY_DONE);
    assert_true(has("dir", name, "new"));
}

static void holes_stay_cheap(void **)
{
    struct stat st;
    upper("sparse", "begin", 0644);
    int fd = openat(temp.fd, "upper/sparse", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "end", 3, (off_t)1 << 40), 3);
    (void)close(fd);
    add("sparse");
    run();
    expect("sparse", APPLY_DONE);
    assert_int_equal(fstatat(temp.fd, "dir/sparse", &st, 0), 0);
    assert_true(st.st_size == ((off_t)1 << 40) + 3);
    assert_true(st.st_blocks < 4096);
    begin();
    add("sparse");
    run();
    expect("sparse", APPLY_SAME);
}

static void large_files_are_copied_whole(void **)
{
    enum { WORDS = 1 << 18 };
    static uint32_t words[WORDS];
    static uint32_t copy[WORDS];
    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = i * 2654435761U;
    }
    upper("large", "", 0644);
    int fd = openat(temp.fd, "upper/large", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, words, sizeof words), 0);
    (void)close(fd);
    add("large");
    run();
    expect("large", APPLY_DONE);
    fd = openat(temp.fd, "dir/large", O_RDWR | O_CLOEXEC);
    assert_int_equal(fd_pread_all(fd, copy, sizeof copy, 0), sizeof copy);
    assert_memory_equal(words, copy, sizeof copy);
    begin();
    assert_int_equal(pwrite(fd, "x", 1, sizeof copy - 1), 1);
    (void)close(fd);
    add("large");
    run();
    expect("large", APPLY_DONE); /* the last byte differed */
}

static void many_items_are_done(void **)
{
    enum { MANY = 2000 };
    char path[64];
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "many/%02u/%05u", i / 200, i);
        upper(path, path, 0644);
        add(path);
    }
    uint64_t began_ns = clock_now_ns();
    run();
    print_message("# %u files in %u ms\n", (unsigned)MANY,
                  (unsigned)((clock_now_ns() - began_ns) / CLOCK_NS_PER_MS));
    const struct apply_item *item = NULL;
    while ((item = apply_journal_next(mapped, item))) {
        assert_int_equal(item->status, APPLY_DONE);
        assert_true(has("dir", item->path, item->path));
    }
}

static void a_damaged_journal_is_refused(void **)
{
    upper("new", "new", 0644);
    add("new");
    map_journal();
    mapped->count++;
    assert_false(run_again());
    mapped->count--;
    assert_true(run_again());
}

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
    enum { ROUNDS = 100 };
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
#define EACH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down),                                      \
    {                                                                                              \
        .name = #test "_for_a_user", .test_func = test, .setup_func = set_up_ordinary,             \
        .teardown_func = tear_down                                                                 \
    }
    const struct CMUnitTest tests[] = {
        EACH(changes_are_applied),
        EACH(directories_get_their_mode_and_keep_their_files),
        EACH(files_come_into_directories_that_are_sealed),
        EACH(what_the_user_has_changed_is_a_conflict),
        EACH(an_equal_state_is_no_conflict),
        EACH(what_differs_a_little_is_not_the_same),
        EACH(a_source_that_has_changed_is_busy),
        EACH(odd_files_are_named),
        EACH(trees_are_removed_unless_the_user_has_put_something_in),
        EACH(types_change),
        EACH(no_symlink_is_followed),
        EACH(other_names_of_a_file_keep_its_content),
        EACH(set_id_bits_and_attributes_stay_behind),
        EACH(any_name_will_do),
        EACH(lists_of_access_stay),
        EACH(a_file_that_is_replaced_meanwhile_stays),
        EACH(a_killed_process_is_continued),
        EACH(it_is_confined_and_its_death_reported),
        EACH(a_plain_rename_will_do),
        cmocka_unit_test_setup_teardown(a_file_that_is_written_while_it_is_copied_is_busy, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(holes_stay_cheap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_files_are_copied_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_items_are_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_journal_is_refused, set_up, tear_down),
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
