#include "sandbox/mount/binds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"

enum { BINDS_MOUNTS = 1024, BINDS_INFO_BYTES = 1 << 20 };

/* Each call fails with EINVAL for unknown flags before it checks anything else; except move_mount,
 * which may first fail with EPERM for a user without privileges. */
bool binds_needed(void)
{
    bool has = syscall(SYS_open_tree, -1, "", ~0U) < 0 && errno == EINVAL;
    has = has && syscall(SYS_mount_setattr, -1, "", ~0U, NULL, (size_t)0) < 0 && errno == EINVAL;
    return !has || (syscall(SYS_move_mount, -1, "", -1, "", ~0U) < 0 && errno == ENOSYS);
}

/* The names of our attributes for mount(2) and statvfs(3). */
static const struct {
    uint64_t attribute;
    unsigned long mount_flag;
    unsigned long seen_flag;
} flags[] = {
    {MOUNT_ATTR_RDONLY, MS_RDONLY, ST_RDONLY},
    {MOUNT_ATTR_NOSUID, MS_NOSUID, ST_NOSUID},
    {MOUNT_ATTR_NODEV, MS_NODEV, ST_NODEV},
    {MOUNT_ATTR_NOEXEC, MS_NOEXEC, ST_NOEXEC},
    /* Never requested, and kept: in a user namespace, attributes that the host has set are locked,
     * user_namespaces(7). */
    {0, MS_NOATIME, ST_NOATIME},
    {0, MS_NODIRATIME, ST_NODIRATIME},
    {0, MS_RELATIME, ST_RELATIME},
};

int bind_restrict(const char *path, uint64_t attributes)
{
    struct statvfs before;
    struct statvfs after;
    unsigned long wanted = MS_REMOUNT | MS_BIND;
    if (statvfs(path, &before) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool on = attributes & flags[i].attribute || before.f_flag & flags[i].seen_flag;
        wanted |= on ? flags[i].mount_flag : 0;
    }
    if (mount(NULL, path, NULL, wanted, NULL) < 0 || statvfs(path, &after) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (attributes & flags[i].attribute && !(after.f_flag & flags[i].seen_flag)) {
            errno = EPERM;
            return -1;
        }
    }
    return 0;
}

/* The number by which mountinfo lists the mount that path leads to, proc_pid_fdinfo(5). */
static int mount_id(const char *path, uint64_t *ret_id)
{
    char name[64];
    char text[1024];
    defer_close int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    (void)snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    int r = fd_read_text_at(AT_FDCWD, name, text, sizeof text);
    *ret_id = r < 0 ? UINT64_MAX : parse_field(text, "mnt_id:", UINT64_MAX);
    return r < 0 ? r : *ret_id == UINT64_MAX ? -ENODATA : 0;
}

void bind_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] && from[2] && from[3]) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

struct mounts {
    uint64_t ids[BINDS_MOUNTS]; /* of the tree's mounts */
    unsigned count;
};

static bool mounts_have(const struct mounts *mounts, uint64_t id)
{
    for (unsigned i = 0; i < mounts->count; i++) {
        if (mounts->ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Takes the mount in this line if its parent is in the tree, and sets its attributes. Skips a line
 * that adds nothing. 0 or -1 with errno. */
static int mounts_take(struct mounts *mounts, char *line, uint64_t attributes)
{
    enum { FIELD_ID = 0, FIELD_PARENT = 1, FIELD_POINT = 4, FIELDS = 5 };
    char *fields[FIELDS];
    char *state = NULL;
    uint64_t id = 0;
    uint64_t parent = 0;
    uint64_t reached = 0;
    for (unsigned i = 0; i < FIELDS; i++) {
        fields[i] = strtok_r(i ? NULL : line, " ", &state);
        if (!fields[i]) {
            return 0;
        }
    }
    if (parse_u64(fields[FIELD_ID], &id) < 0 || parse_u64(fields[FIELD_PARENT], &parent) < 0 ||
        mounts_have(mounts, id) || !mounts_have(mounts, parent)) {
        return 0;
    }
    if (mounts->count == BINDS_MOUNTS) {
        errno = E2BIG;
        return -1;
    }
    mounts->ids[mounts->count++] = id;
    bind_unescape(fields[FIELD_POINT]);
    int r = mount_id(fields[FIELD_POINT], &reached);
    if (r < 0) {
        errno = -r;
        return -1;
    }
    /* Another mount at the same place hides it. */
    return reached == id ? bind_restrict(fields[FIELD_POINT], attributes) : 0;
}

/* Sets attributes on all mounts below path. Identifies mounts by number: their paths do not
 * distinguish them from mounts that the new root hides. */
static int restrict_below(const char *path, uint64_t attributes)
{
    static char text[BINDS_INFO_BYTES];
    static struct mounts mounts;
    int r = mount_id(path, &mounts.ids[0]);
    mounts.count = 1;
    for (unsigned before = 0; r >= 0 && before != mounts.count;) {
        before = mounts.count;
        r = fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text);
        char *state = NULL;
        char *line = r < 0 ? NULL : strtok_r(text, "\n", &state);
        for (; line; line = strtok_r(NULL, "\n", &state)) {
            if (mounts_take(&mounts, line, attributes) < 0) {
                return -1;
            }
        }
    }
    return r < 0 ? (errno = -r, -1) : 0;
}

int bind_hold(const char *source)
{
    return open(source, O_PATH | O_CLOEXEC);
}

int bind_hold_straight(const char *source)
{
    defer_close int fd = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !fd_is_at(fd, source)) {
        errno = ELOOP;
        return -1;
    }
    return take_fd(&fd);
}

int bind_tree(int source_fd, const char *path, uint64_t attributes)
{
    char source[32];
    (void)snprintf(source, sizeof source, "/proc/self/fd/%d", source_fd);
    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        bind_restrict(path, attributes) < 0) {
        return -1;
    }
    return restrict_below(path, attributes);
}

int bind_directory(const char *source, const char *path, uint64_t attributes)
{
    return mount(source, path, NULL, MS_BIND | MS_REC, NULL) < 0 ? -1
                                                                 : bind_restrict(path, attributes);
}
