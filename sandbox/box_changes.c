#include "sandbox/box_changes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "sandbox/box/ask_keeper.h"
#include "sandbox/box/box.h"

/* --- lists --- */

struct changes_request {
    box_changes_fn fn;
    void *arg;
};

static void changes_received(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct changes_request request = *(struct changes_request *)arg;
    OWNED(buf_done) struct buf records = BUF_EMPTY;
    free(arg);
    int error = reply->error ? reply->error : -keeper_read(fds[0], KEEPER_REPLY_BYTES, &records);
    if (error == 0 && !change_records_are_valid(buf_bytes(&records), buf_size(&records))) {
        error = EPROTO;
    }
    request.fn(request.arg, error, error ? NULL : buf_bytes(&records),
               error ? 0 : buf_size(&records), fds[1]);
}

int box_changes_ask(struct box *box, enum box_changes_request what, const char *const *paths,
                    size_t count, box_changes_fn fn, void *arg)
{
    struct wire_request request = {.op = what == BOX_CHANGES_DISCARD ? KEEP_DISCARD : KEEP_LIST,
                                   .list = what == BOX_CHANGES_PATCH  ? KEEP_LIST_PATCH
                                           : what == BOX_CHANGES_LIST ? KEEP_LIST_SHOWS
                                                                      : KEEP_LIST_COUNTS};
    struct changes_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    *waiting = (struct changes_request){.fn = fn, .arg = arg};
    int r = keeper_ask_paths(box, &request, paths, count, changes_received, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

/* --- what else writes --- */

struct count_request {
    box_count_fn fn;
    void *arg;
};

static void counted(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct count_request request = *(struct count_request *)arg;
    free(arg);
    request.fn(request.arg, reply->error ? 0 : reply->processes);
}

int box_count_processes(struct box *box, box_count_fn fn, void *arg)
{
    struct count_request *waiting = malloc(sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    *waiting = (struct count_request){fn, arg};
    int r = box_ask(box, &(struct wire_request){.op = WIRE_COUNT}, counted, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}
