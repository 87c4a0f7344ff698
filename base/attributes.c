#include "base/attributes.h"

#include <errno.h>
#include <linux/limits.h> /* XATTR_LIST_MAX */
#include <string.h>
#include <sys/xattr.h>

/* The kernel has no longer lists and values, listxattr(2): a file system's is E2BIG. */
static char names[XATTR_LIST_MAX];
static char values[2][XATTR_SIZE_MAX];

static bool is_own(const char *name)
{
    static const char user[] = "user.";
    static const char overlay[] = "user.overlay.";
    return strncmp(name, user, sizeof user - 1) == 0 &&
           strncmp(name, overlay, sizeof overlay - 1) != 0;
}

static bool is_none(int error)
{
    return error == ENODATA || error == EOPNOTSUPP;
}

static int find(int fd, const char *name,
                int (*found)(void *arg, const char *name, const void *value, size_t size),
                void *arg)
{
    ssize_t size = fgetxattr(fd, name, values[0], sizeof values[0]);
    if (size < 0) {
        return is_none(errno) ? 0 : -errno;
    }
    return found(arg, name, values[0], (size_t)size);
}

int attributes_each(int fd,
                    int (*found)(void *arg, const char *name, const void *value, size_t size),
                    void *arg)
{
    ssize_t size = flistxattr(fd, names, sizeof names);
    int r = size < 0 && !is_none(errno) ? -errno : 0;
    for (const char *name = names; r == 0 && name < names + size; name += strlen(name) + 1) {
        r = is_own(name) ? find(fd, name, found, arg) : 0;
    }
    return r ? r : find(fd, ATTRIBUTES_ACL, found, arg); /* some lists leave it out */
}

int attributes_set(int fd, const char *name, const void *value, size_t size)
{
    if (fsetxattr(fd, name, value, size, 0) == 0) {
        return 0;
    }
    /* An access control list that names users whom the sandbox does not know cannot be set. */
    int error = errno;
    bool has = fgetxattr(fd, name, values[1], sizeof values[1]) == (ssize_t)size &&
               memcmp(value, values[1], size) == 0;
    return has ? 0 : -error;
}

bool attributes_has_acl(int fd)
{
    return fgetxattr(fd, ATTRIBUTES_ACL, NULL, 0) >= 0 || !is_none(errno);
}

int attributes_remove_acl(int fd)
{
    return fremovexattr(fd, ATTRIBUTES_ACL) == 0 || is_none(errno) ? 0 : -errno;
}

struct copying {
    int to_fd;
    bool has_acl;
};

static int copy_one(void *arg, const char *name, const void *value, size_t size)
{
    struct copying *copying = arg;
    copying->has_acl = copying->has_acl || strcmp(name, ATTRIBUTES_ACL) == 0;
    return attributes_set(copying->to_fd, name, value, size);
}

int attributes_copy(int from_fd, int to_fd)
{
    struct copying copying = {.to_fd = to_fd};
    int r = attributes_each(from_fd, copy_one, &copying);
    r = r || copying.has_acl ? r : attributes_remove_acl(to_fd);
    return r ? -EOPNOTSUPP : 0;
}
