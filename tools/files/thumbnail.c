#include "tools/files/thumbnail.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "guest/guest.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/run/run.h"
#include "tools/session/session.h"

enum { THUMBNAIL_TIMEOUT_MS = 10000, REASON_BYTES = 200 };

struct thumbnail {
    thumbnail_fn fn;
    void *arg;
    struct buf image; /* all that it wrote to stdout */
    char reason[REASON_BYTES];
    size_t reason_size;
};

static void thumbnail_end(struct thumbnail *thumbnail, enum thumbnail_outcome outcome,
                          const char *reason)
{
    bool made = outcome == THUMBNAIL_MADE;
    thumbnail->fn(thumbnail->arg, outcome, made ? buf_bytes(&thumbnail->image) : NULL,
                  made ? buf_size(&thumbnail->image) : 0, reason);
    buf_done(&thumbnail->image);
    free(thumbnail);
}

/* What it writes is the guest's word: bounded here, and taken for an image by its bytes only. */
static void thumbnail_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct thumbnail *thumbnail = arg;
    if (stream == BOX_STDOUT) {
        if (buf_size(&thumbnail->image) <= LIMIT_IMAGES_BYTES) {
            (void)buf_append(&thumbnail->image, bytes, size);
        }
        return;
    }
    size_t space = sizeof thumbnail->reason - 1 - thumbnail->reason_size;
    size = size < space ? size : space;
    memcpy(thumbnail->reason + thumbnail->reason_size, bytes, size);
    thumbnail->reason_size += size;
}

static void thumbnail_done(void *arg, struct run *run)
{
    struct thumbnail *thumbnail = arg;
    char said[REASON_BYTES];
    const char *reason = "it could not be scaled down";
    enum thumbnail_outcome outcome = THUMBNAIL_FAILED;
    if (run->end.outcome == RUN_EXIT && run->end.process.code == GUEST_EXIT_NO_PILLOW) {
        outcome = THUMBNAIL_NO_TOOL;
        reason = "this Python has no Pillow to convert it";
    } else if (run->end.outcome == RUN_OK &&
               content_image_fits(buf_bytes(&thumbnail->image), buf_size(&thumbnail->image))) {
        outcome = THUMBNAIL_MADE;
    } else if (run->end.outcome == RUN_TIMEOUT) {
        reason = "it takes too long to scale it down";
    } else if (run->end.outcome == RUN_OOM) {
        reason = "there is not enough memory to scale it down";
    } else if (thumbnail->reason_size > 0) {
        reason = word_quote(thumbnail->reason, thumbnail->reason_size, said, sizeof said);
    }
    run_free(run);
    thumbnail_end(thumbnail, outcome, reason);
}

void thumbnail_make(struct tools *tools, const char *path, thumbnail_fn fn, void *arg)
{
    struct thumbnail *thumbnail = calloc(1, sizeof *thumbnail);
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    /* The file comes with the driver's, see guest/. */
    int r =
        buf_appendf(&code, "exec(open('%s/thumbnail.py').read())\n", tools->config.spec->paths.run);
    struct run *run = r < 0 ? NULL : run_new(buf_bytes(&code), buf_size(&code), path, strlen(path));
    if (!thumbnail || !run) {
        free(thumbnail);
        run_free(run);
        fn(arg, THUMBNAIL_FAILED, NULL, 0, "the server is out of memory");
        return;
    }
    *thumbnail = (struct thumbnail){.fn = fn, .arg = arg};
    run->request.fresh = true;
    run->request.timeout_ms = THUMBNAIL_TIMEOUT_MS;
    run->on_output = thumbnail_output;
    run->on_done = thumbnail_done;
    run->arg = thumbnail;
    r = sessions_run(tools->sessions, NULL, run);
    if (r < 0) {
        run_free(run);
        thumbnail_end(thumbnail, THUMBNAIL_FAILED,
                      "too many sessions are running to scale it down");
    }
}
