#include "tools/jobs/images.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/content/content.h"
#include "tools/content/magic.h"

struct images {
    struct server_box *server_box;
    images_fn fn;
    void *arg;
    char *paths; /* each with a NUL behind it */
    size_t paths_size;
    const char *path; /* of them, which is read */
    size_t next;      /* in paths */
    unsigned count;
    size_t bytes;
    json_t *blocks;
};

static void images_next(struct images *images);

/* A client that was sent it could refuse the whole conversation. */
static void name_damaged(struct images *images)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    buf_append_text(&text, "[");
    word_append(&text, images->path, strlen(images->path));
    buf_append_text(&text, " is incomplete or damaged, so it is not shown]\n");
    images->count++;
    (void)json_array_append_new(images->blocks, content_text(buf_bytes(&text), buf_size(&text)));
}

/* The file may be replaced or grow while it is read: it is never trusted to be what it was. */
static void take_image(struct images *images, int fd, uint64_t size)
{
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    if (size > LIMIT_IMAGES_BYTES - images->bytes ||
        content_read(fd, 0, (size_t)size, &content) < 0) {
        return;
    }
    size_t have = buf_size(&content);
    const char *mime = content_image_type(buf_bytes(&content), have);
    if (!content_image_fits(buf_bytes(&content), have)) {
        if (mime && !magic_is_whole(buf_bytes(&content), have)) {
            name_damaged(images);
        }
        return;
    }
    images->bytes += have;
    images->count++;
    (void)json_array_append_new(images->blocks, content_image(buf_bytes(&content), have, mime));
}

static void image_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct images *images = arg;
    if (!reply->error && S_ISREG(reply->file.mode)) {
        take_image(images, fds[0], reply->file.size_bytes);
    }
    images_next(images);
}

static void images_next(struct images *images)
{
    if (images->next < images->paths_size && images->count < LIMIT_IMAGES) {
        images->path = images->paths + images->next;
        images->next += strlen(images->path) + 1;
        server_box_open_file(images->server_box, images->path, image_opened, images);
        return;
    }
    images_fn fn = images->fn;
    void *arg = images->arg;
    json_t *blocks = images->blocks;
    free(images->paths);
    free(images);
    fn(arg, blocks);
}

void images_take(struct server_box *server_box, const struct run_text *paths, images_fn fn,
                 void *arg)
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
    *images = (struct images){.server_box = server_box,
                              .fn = fn,
                              .arg = arg,
                              .paths = copy,
                              .paths_size = size,
                              .blocks = blocks};
    images_next(images);
}
