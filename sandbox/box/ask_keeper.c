#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "sandbox/box/box.h"

int keeper_name_path(struct box *box, const char *path, size_t size)
{
    struct wire_request request = {.op = KEEP_PATH};
    if (size >= sizeof request.path) {
        return -ENAMETOOLONG;
    }
    memcpy(request.path, path, size);
    return box_ask_keeper(box, &request, NULL, NULL);
}

int keeper_ask_paths(struct box *box, struct wire_request *request, struct path_list paths,
                     init_client_fn fn, void *arg)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < paths.count; i++) {
        r = keeper_name_path(box, paths.at[i], strlen(paths.at[i]));
    }
    return r ? r : box_ask_keeper(box, request, fn, arg);
}

int keeper_read_own(int fd, size_t most, struct buf *out)
{
    struct stat st;
    char *space = NULL;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (st.st_size < 0 || (size_t)st.st_size > most) {
        return -E2BIG;
    }
    int r = buf_reserve(out, (size_t)st.st_size, &space);
    ssize_t size = r ? r : fd_pread_all(fd, space, (size_t)st.st_size, 0);
    if (size > 0) {
        buf_commit(out, (size_t)size);
    }
    return size < 0 ? (int)size : 0;
}

/* The seals tell that it is a memfd: reading another file could block. */
int keeper_read(int fd, size_t most, struct buf *out)
{
    return fd < 0 || fcntl(fd, F_GET_SEALS) < 0 ? -EPROTO : keeper_read_own(fd, most, out);
}
