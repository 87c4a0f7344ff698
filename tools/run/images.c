#include "tools/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "tools/content.h"

struct images {
    struct workspace *workspace;
    images_fn fn;
    void *arg;
    char *paths; /* each with a NUL behind it */
    size_t paths_size;
    size_t next; /* in paths */
    unsigned count;
    size_t bytes;
    json_t *blocks;
};

static void images_next(struct images *images);

/* The file may be replaced or grow while it is read: it is never trusted to be what it was. */
static void take_image(struct images *images, int fd, uint64_t size)
{
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    char *space = NULL;
    if (size > LIMIT_IMAGES_BYTES - images->bytes ||
        buf_reserve(&content, (size_t)size + 1, &space) < 0) {
        return;
    }
    size_t have = 0;
    while (have < size) {
        ssize_t n = pread(fd, space + have, (size_t)size - have, (off_t)have);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        have += (size_t)n;
    }
    const char *mime = content_image_type(space, have);
    if (!mime) {
        return;
    }
    images->bytes += have;
    images->count++;
    (void)json_array_append_new(images->blocks, content_image(space, have, mime));
}

static void image_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct images *images = arg;
    defer_close int own = fd;
    if (!error && S_ISREG(file->mode)) {
        take_image(images, own, file->size_bytes);
    }
    images_next(images);
}

static void images_next(struct images *images)
{
    struct box *box = workspace_box(images->workspace);
    while (images->next < images->paths_size && box && images->count < LIMIT_IMAGES) {
        const char *path = images->paths + images->next;
        images->next += strlen(path) + 1;
        if (box_file_open(box, path, image_opened, images) == 0) {
            return;
        }
    }
    images_fn fn = images->fn;
    void *arg = images->arg;
    json_t *blocks = images->blocks;
    free(images->paths);
    free(images);
    fn(arg, blocks);
}

void images_take(struct workspace *workspace, const struct run_text *paths, images_fn fn, void *arg)
{
    struct images *images = calloc(1, sizeof *images);
    json_t *blocks = json_array();
    size_t size = paths ? paths->size : 0;
    char *copy = size > 0 ? malloc(size) : NULL;
    if (!images || !blocks || !copy) {
        free(images);
        free(copy);
        fn(arg, blocks);
        return;
    }
    memcpy(copy, paths->data, size);
    *images = (struct images){.workspace = workspace,
                              .fn = fn,
                              .arg = arg,
                              .paths = copy,
                              .paths_size = size,
                              .blocks = blocks};
    images_next(images);
}
