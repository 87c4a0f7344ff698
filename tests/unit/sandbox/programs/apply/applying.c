#include "tests/unit/sandbox/programs/apply/applying.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

struct temp temp;
struct loop *loop;
struct buf journal;
/* Of the last run: */
static int journal_fd = -1;
struct apply_journal *mapped;
static size_t mapped_size;
bool done_completed;

/* --- the pair of directories --- */

void forget_run(void)
{
    if (mapped) {
        assert_int_equal(munmap(mapped, mapped_size), 0);
        assert_int_equal(close(journal_fd), 0);
        mapped = NULL;
    }
}

void begin(void)
{
    forget_run();
    buf_clear(&journal, 0);
    assert_int_equal(apply_journal_begin(&journal, OWNER, GROUP), 0);
}

int set_up(void **)
{
    temp_make(&temp);
    assert_int_equal(loop_new(&loop), 0);
    temp_directory(&temp, "dir");
    temp_directory(&temp, "upper");
    begin();
    return 0;
}

int set_up_ordinary(void **state)
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

int tear_down(void **)
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

const char *in(const char *directory, const char *path)
{
    static char texts[4][PATH_MAX];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    (void)snprintf(text, PATH_MAX, "%s/%s", directory, path);
    return text;
}

void lower(const char *path, const char *content, mode_t mode)
{
    temp_file(&temp, in("dir", path), content, mode);
}

void upper(const char *path, const char *content, mode_t mode)
{
    temp_file(&temp, in("upper", path), content, mode);
}

void whiteout(const char *path)
{
    assert_int_equal(mknodat(temp.fd, in("upper", path), S_IFCHR, makedev(0, 0)), 0);
}

struct apply_facts facts(const char *directory, const char *path)
{
    struct stat st;
    if (fstatat(temp.fd, in(directory, path), &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return (struct apply_facts){};
    }
    return S_ISCHR(st.st_mode) ? (struct apply_facts){} : apply_facts_of(&st);
}

void add(const char *path)
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

bool has(const char *directory, const char *path, const char *content)
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

bool is_gone(const char *path)
{
    return faccessat(temp.fd, in("dir", path), F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

mode_t mode_of(const char *path)
{
    return facts("dir", path).mode & 07777;
}

bool links_to(const char *path, const char *target)
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

unsigned temporaries_in(const char *name)
{
    char path[PATH_MAX];
    temporaries_seen = 0;
    assert_int_equal(nftw(temp_path(&temp, name, path), count_temporary, 16, FTW_PHYS), 0);
    return temporaries_seen;
}

unsigned temporaries(void)
{
    return temporaries_in("dir");
}

/* --- running --- */

void map_journal(void)
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

struct apply *launch(void)
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

bool run_again(void)
{
    struct apply *apply = launch();
    assert_int_equal(loop_run(loop), 0);
    apply_free(apply);
    return done_completed;
}

void run(void)
{
    assert_true(apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal)));
    map_journal();
    assert_true(run_again());
    assert_int_equal(temporaries(), 0);
    assert_int_equal(mapped->temporary[0], 0);
}

const struct apply_item *result(const char *path)
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

void expect(const char *path, enum apply_status status)
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

void expect_failed(const char *path, int error)
{
    assert_int_equal(result(path)->status, APPLY_FAILED);
    assert_int_equal(result(path)->error, error);
}
