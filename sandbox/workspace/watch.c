/* Reports changes of protected names in the workspace's top directory, seen from outside: code
 * cannot influence the check. It runs after each call, so it costs one fstatat(2) for each row, and
 * more only for directories whose content code can change. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/git.h"
#include "base/own.h"
#include "sandbox/spec/spec.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/state.h"

enum { DEPTH = 16, ENTRIES = 1024 }; /* compared in one directory: at most 1 ms */

#define FNV_BASIS 0xcbf29ce484222325ULL

/* FNV-1a */
static uint64_t mix(uint64_t sum, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ at[i]) * 0x100000001b3ULL;
    }
    return sum;
}

/* Uses the change time, which code cannot set, utimensat(2). */
static uint64_t mix_content(uint64_t sum, const struct stat *st)
{
    sum = mix(sum, &st->st_size, sizeof st->st_size);
    sum = mix(sum, &st->st_mode, sizeof st->st_mode);
    return mix(sum, &st->st_ctim, sizeof st->st_ctim);
}

/* left: entries that may still be checked; 0 afterwards: not all were. */
static uint64_t mix_directory(uint64_t sum, int at_fd, const char *name, unsigned depth,
                              unsigned *left)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    defer_closedir DIR *dir = fd_directory(fd);
    for (const char *entry = NULL; *left > 0 && (entry = fd_next_name(dir));) {
        struct stat st;
        if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        (*left)--;
        sum = mix(sum, entry, strlen(entry));
        sum = mix_content(sum, &st);
        if (S_ISDIR(st.st_mode) && depth > 1) {
            sum = mix_directory(sum, fd, entry, depth - 1, left);
        } else if (S_ISDIR(st.st_mode)) {
            *left = 0;
        }
    }
    return sum;
}

/* {0, 0}: the name does not exist. */
static struct box_protected_seen look(struct box_protected_watch *watch, unsigned row)
{
    struct stat st;
    const char *name = box_protected_name(row);
    unsigned left = ENTRIES;
    struct box_protected_seen seen = {};
    if (fstatat(watch->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return seen;
    }
    mode_t type = st.st_mode & S_IFMT;
    seen.identity = mix(mix(FNV_BASIS, &st.st_ino, sizeof st.st_ino), &type, sizeof type) | 1;
    /* If a program outside has replaced an object that is mounted read-only, the name refers to
     * another object, which is writable. */
    bool read_only = watch->read_only & 1ULL << row && seen.identity == watch->first[row];
    if (!read_only && strcmp(name, PROTECTED_GIT) != 0) { /* git changes .git all the time */
        seen.content = mix_content(FNV_BASIS, &st);
        if (S_ISDIR(st.st_mode)) {
            seen.content = mix_directory(seen.content, watch->dir_fd, name, DEPTH, &left);
        }
        watch->partial |= left == 0 ? 1ULL << row : 0;
    }
    return seen;
}

static const char *const parents[PROTECTED_PARENTS] = {".",       ".git",  ".hg", ".github",
                                                       ".config", ".mise", "mise"};

static unsigned parent_of(const char *name)
{
    size_t size = strcspn(name, "/");
    unsigned i = name[size] ? PROTECTED_PARENTS : 0;
    while (i-- > 1) {
        if (strncmp(parents[i], name, size) == 0 && parents[i][size] == '\0') {
            return i;
        }
    }
    return 0;
}

/* Whether names have appeared in the directory or gone since the last check. Its change time, which
 * code cannot set, is as coarse as a kernel tick: a time younger than two seconds says nothing. */
static bool has_changed(struct box_protected_watch *watch, unsigned parent)
{
    struct box_protected_parent *known = &watch->parents[parent];
    struct box_protected_parent now = {.resolved = true};
    struct timespec time = {};
    struct stat st;
    if (fstatat(watch->dir_fd, parents[parent], &st, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &time);
        now.state = mix(mix_content(FNV_BASIS, &st), &st.st_ino, sizeof st.st_ino) | 1;
        now.resolved = st.st_ctim.tv_sec + 2 < time.tv_sec;
    }
    bool changed = now.state != known->state || !known->resolved;
    *known = now;
    return changed;
}

void box_protected_watch(const struct box_spec *spec, uint64_t read_only,
                         struct box_protected_watch *watch)
{
    bool again = watch->dir_fd >= 0;
    box_protected_unwatch(watch);
    watch->read_only = read_only;
    watch->partial = 0;
    watch->dir_fd = box_spec_is_written_through(spec)
                        ? open(spec->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC)
                        : -1;
    watch->is_git = again ? watch->is_git : git_is_directory_at(watch->dir_fd);
    for (unsigned i = 0; watch->dir_fd >= 0 && box_protected_name(i); i++) {
        watch->first[i] = 0;
        watch->first[i] = look(watch, i).identity;
        if (!again || watch->last[i].identity == watch->first[i]) {
            watch->last[i] = look(watch, i);
        }
    }
}

void box_protected_unwatch(struct box_protected_watch *watch)
{
    drop_fd(&watch->dir_fd);
}

bool box_protected_is_elsewhere(const struct box_spec *spec,
                                const struct box_protected_watch *watch)
{
    struct stat is;
    struct stat was;
    return watch->dir_fd >= 0 && fstat(watch->dir_fd, &was) == 0 &&
           (stat(spec->workspace, &is) < 0 || is.st_ino != was.st_ino || is.st_dev != was.st_dev);
}

bool box_protected_news(const struct box_spec *spec, struct box_protected_watch *watch, char *text,
                        size_t size)
{
    bool changed[PROTECTED_PARENTS] = {};
    text[0] = '\0';
    for (unsigned i = 0; watch->dir_fd >= 0 && i < PROTECTED_PARENTS; i++) {
        changed[i] = has_changed(watch, i);
    }
    for (unsigned i = 0; watch->dir_fd >= 0 && box_protected_name(i); i++) {
        struct box_protected_seen last = watch->last[i];
        bool unseen = !last.content && !changed[parent_of(box_protected_name(i))];
        if (unseen || protected_is_open(spec->allow_write, i)) {
            continue;
        }
        uint64_t partial = watch->partial;
        struct box_protected_seen now = look(watch, i);
        watch->last[i] = now;
        bool same = now.identity == last.identity && now.content == last.content;
        if (!same) {
            const char *sign = !now.identity ? "-" : last.identity ? "~" : "+";
            buf_extend(text, size, "%s%s%s%s", text[0] ? " " : "", sign, box_protected_name(i),
                       watch->partial != partial ? " (not watched completely)" : "");
        }
    }
    bool git = changed[0] ? git_is_directory_at(watch->dir_fd) : watch->is_git;
    if (git && !watch->is_git) {
        buf_extend(text, size, "%s+HEAD", text[0] ? " " : "");
    }
    watch->is_git = git;
    return text[0] != '\0';
}
