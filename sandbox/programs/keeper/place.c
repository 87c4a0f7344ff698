/* Files by their paths below a directory: looks, reads, compares. Code can change all of it at
 * any moment, so each path is opened from the directory down without following a symlink. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/keeper/keeper.h"

enum { PERMISSIONS = 0777 };

int place_parent(int root_fd, const char *path, const char **ret_name)
{
    char text[KEEPER_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    *ret_name = slash ? slash + 1 : path;
    if (size >= sizeof text) {
        return -ENAMETOOLONG;
    }
    memcpy(text, path, size);
    text[size] = '\0';
    return fd_open_beneath(root_fd, text, O_PATH | O_DIRECTORY);
}

/* --- looking --- */

int place_look(int root_fd, const char *path, struct apply_facts *ret_facts, unsigned *ret_links)
{
    const char *name = NULL;
    struct stat st;
    *ret_facts = (struct apply_facts){};
    defer_close int dir_fd = place_parent(root_fd, path, &name);
    if (dir_fd < 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        int error = dir_fd < 0 ? -dir_fd : errno;
        /* Something else stands where its directory was. */
        return error == ENOENT || error == ENOTDIR || error == ELOOP ? 0 : -error;
    }
    *ret_facts = apply_facts_of(&st);
    if (ret_links) {
        *ret_links = (unsigned)st.st_nlink;
    }
    return 0;
}

/* --- reading --- */

static bool still(int fd, const struct apply_facts *facts)
{
    struct stat st;
    struct apply_facts have = fstat(fd, &st) < 0 ? (struct apply_facts){} : apply_facts_of(&st);
    return apply_facts_alike(&have, facts);
}

/* fd: of the file, or -1. */
static bool read_file(int fd, const struct apply_facts *facts, char *data)
{
    return fd >= 0 && still(fd, facts) &&
           fd_pread_all(fd, data, facts->bytes, 0) == (ssize_t)facts->bytes && still(fd, facts);
}

static bool read_link(int root_fd, const char *path, uint64_t size, char *data)
{
    const char *name = NULL;
    defer_close int dir_fd = place_parent(root_fd, path, &name);
    return dir_fd >= 0 && readlinkat(dir_fd, name, data, size + 1) == (ssize_t)size;
}

bool place_content(int root_fd, const char *path, const struct apply_facts *facts, char *data)
{
    if (S_ISLNK(facts->mode)) {
        return read_link(root_fd, path, facts->bytes, data);
    }
    defer_close int fd = fd_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return read_file(fd, facts, data);
}

int place_is_written(const struct keeper *keeper, const char *path)
{
    defer_close int fd = fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? fd : fd_is_written(fd);
}

bool place_has_content(const struct keeper *keeper, const char *path,
                       const struct apply_facts *facts, const struct version *version)
{
    bool may = version->kept && facts->bytes == version->bytes;
    char *data = may ? malloc(facts->bytes + 1) : NULL;
    bool has = data && place_content(keeper->work_fd, path, facts, data) &&
               memcmp(data, version->data, facts->bytes) == 0;
    free(data);
    return has;
}

struct attributes_kept {
    struct version *version;
    size_t space; /* for all of them */
};

static int keep_attribute(void *arg, const char *name, const void *value, size_t size)
{
    struct attributes_kept *kept = arg;
    struct version *version = kept->version;
    uint32_t value_size = (uint32_t)size;
    size_t name_size = strlen(name) + 1;
    size_t all = version->attributes_size + name_size + sizeof value_size + size;
    char *bytes = all <= kept->space ? realloc(version->attributes, all) : NULL;
    if (!bytes) {
        return -ENOMEM;
    }
    char *at = bytes + version->attributes_size;
    memcpy(at, name, name_size);
    memcpy(at + name_size, &value_size, sizeof value_size);
    memcpy(at + name_size + sizeof value_size, value, size);
    version->attributes = bytes;
    version->attributes_size = all;
    return 0;
}

/* The extended attributes of the user's file: false, and none, unless there is space for all. */
static bool read_attributes(int fd, struct version *version, size_t space)
{
    struct attributes_kept kept = {.version = version, .space = space};
    if (attributes_each(fd, keep_attribute, &kept) == 0) {
        return true;
    }
    free(version->attributes);
    version->attributes = NULL;
    version->attributes_size = 0;
    return false;
}

struct version *place_read(struct keeper *keeper, int root_fd, const char *path,
                           const struct apply_facts *facts)
{
    struct version *version = version_of(facts);
    bool has_data = version && (version->kind == KIND_FILE || version->kind == KIND_LINK);
    if (!has_data || facts->bytes > keeper->limit_bytes - keeper->used_bytes) {
        return version;
    }
    version->data = malloc(facts->bytes + 1);
    defer_close int fd = version->data && S_ISREG(facts->mode)
                             ? fd_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
                             : -1;
    if (version->data) {
        version->kept = S_ISREG(facts->mode)
                            ? read_file(fd, facts, version->data)
                            : read_link(root_fd, path, facts->bytes, version->data);
        version->data[facts->bytes] = '\0';
    }
    if (version->kept && fd >= 0) {
        version->kept =
            read_attributes(fd, version, keeper->limit_bytes - keeper->used_bytes - facts->bytes);
    }
    if (version->kept) {
        keeper->used_bytes += facts->bytes + version->attributes_size;
    } else {
        free(version->data);
        version->data = NULL;
    }
    return version;
}

void place_keep(struct keeper *keeper, const char *path, struct version *version)
{
    struct version *copy =
        version->kept ? NULL : place_read(keeper, keeper->work_fd, path, &version->facts);
    if (copy && copy->kept) {
        version->data = copy->data;
        version->attributes = copy->attributes;
        version->attributes_size = copy->attributes_size;
        copy->attributes = NULL;
        copy->attributes_size = 0;
        version->bytes = copy->bytes;
        version->kept = true;
        copy->data = NULL;
    }
    version_release(keeper, &copy);
}

/* --- comparing --- */

bool place_same(int one_fd, const struct apply_facts *one, int other_fd,
                const struct apply_facts *other, const char *path)
{
    enum { TYPE = S_IFMT };
    if ((one->mode & TYPE) != (other->mode & TYPE) || one->bytes != other->bytes) {
        return false;
    }
    if (S_ISLNK(one->mode)) {
        char targets[2][KEEPER_PATH_BYTES];
        return one->bytes < KEEPER_PATH_BYTES && read_link(one_fd, path, one->bytes, targets[0]) &&
               read_link(other_fd, path, one->bytes, targets[1]) &&
               memcmp(targets[0], targets[1], one->bytes) == 0;
    }
    if ((one->mode & PERMISSIONS) != (other->mode & PERMISSIONS) || !S_ISREG(one->mode)) {
        return one->mode == 0 ||
               (S_ISDIR(one->mode) && (one->mode & PERMISSIONS) == (other->mode & PERMISSIONS));
    }
    defer_close int one_file = fd_open_beneath(one_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    defer_close int other_file = fd_open_beneath(other_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return one_file >= 0 && other_file >= 0 && content_equal(one_file, other_file, one->bytes) == 1;
}
