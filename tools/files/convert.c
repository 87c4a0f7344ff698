#include "tools/files/convert.h"

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

enum { CONVERT_TIMEOUT_MS = 10000, REASON_BYTES = 200 };

struct convert {
    convert_fn fn;
    void *arg;
    struct buf image; /* all that it wrote to stdout */
    char reason[REASON_BYTES];
    size_t reason_size;
};

static void convert_end(struct convert *convert, enum convert_outcome outcome, const char *reason)
{
    bool made = outcome == CONVERT_MADE;
    convert->fn(convert->arg, outcome, made ? buf_bytes(&convert->image) : NULL,
                made ? buf_size(&convert->image) : 0, reason);
    buf_done(&convert->image);
    free(convert);
}

/* What it writes is the guest's word: bounded here, and taken for an image by its bytes only. */
static void convert_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct convert *convert = arg;
    if (stream == BOX_STDOUT) {
        if (buf_size(&convert->image) <= LIMIT_IMAGES_BYTES) {
            (void)buf_append(&convert->image, bytes, size);
        }
        return;
    }
    size_t space = sizeof convert->reason - 1 - convert->reason_size;
    size = size < space ? size : space;
    memcpy(convert->reason + convert->reason_size, bytes, size);
    convert->reason_size += size;
}

static void convert_done(void *arg, struct run *run)
{
    struct convert *convert = arg;
    char said[REASON_BYTES];
    const char *reason = "it could not be scaled down";
    enum convert_outcome outcome = CONVERT_FAILED;
    if (run->end.outcome == RUN_EXIT && run->end.process.code == GUEST_EXIT_NO_LIBRARY) {
        outcome = CONVERT_NO_TOOL;
        reason = "this Python has no Pillow to convert it";
    } else if (run->end.outcome == RUN_OK &&
               content_image_fits(buf_bytes(&convert->image), buf_size(&convert->image))) {
        outcome = CONVERT_MADE;
    } else if (run->end.outcome == RUN_TIMEOUT) {
        reason = "it takes too long to scale it down";
    } else if (run->end.outcome == RUN_OOM) {
        reason = "there is not enough memory to scale it down";
    } else if (convert->reason_size > 0) {
        reason = word_quote(convert->reason, convert->reason_size, said, sizeof said);
    }
    run_free(run);
    convert_end(convert, outcome, reason);
}

void convert_begin(struct tools *tools, const char *path, convert_fn fn, void *arg)
{
    struct convert *convert = calloc(1, sizeof *convert);
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    /* The file comes with the driver's, see guest/. */
    int r =
        buf_appendf(&code, "exec(open('%s/convert.py').read())\n", tools->config.spec->paths.run);
    struct run *run = r < 0 ? NULL : run_new(buf_bytes(&code), buf_size(&code), path, strlen(path));
    if (!convert || !run) {
        free(convert);
        run_free(run);
        fn(arg, CONVERT_FAILED, NULL, 0, "the server is out of memory");
        return;
    }
    *convert = (struct convert){.fn = fn, .arg = arg};
    run->request.fresh = true;
    run->request.timeout_ms = CONVERT_TIMEOUT_MS;
    run->on_output = convert_output;
    run->on_done = convert_done;
    run->arg = convert;
    r = sessions_run(tools->sessions, NULL, run);
    if (r < 0) {
        run_free(run);
        convert_end(convert, CONVERT_FAILED, "too many sessions are running to scale it down");
    }
}
