#include "sandbox/box_changes.h"

#include <errno.h>

#include "base/buf.h"
#include "sandbox/box/ask_keeper.h"
#include "sandbox/box/box.h"

int box_changes_ask(struct box *box, enum box_changes_request what, const char *const *paths,
                    size_t count, init_client_fn fn, void *arg)
{
    struct wire_request request = {.op = what == BOX_CHANGES_DISCARD ? KEEP_DISCARD : KEEP_LIST,
                                   .list = what == BOX_CHANGES_PATCH  ? KEEP_LIST_PATCH
                                           : what == BOX_CHANGES_LIST ? KEEP_LIST_SHOWS
                                                                      : KEEP_LIST_COUNTS};
    return keeper_ask_paths(box, &request, paths, count, fn, arg);
}

int box_changes_read(const struct wire_reply *reply, const int fds[WIRE_FDS], struct buf *records)
{
    int error = reply->error ? reply->error : -keeper_read(fds[0], KEEPER_REPLY_BYTES, records);
    if (error == 0 && !change_records_are_valid(buf_bytes(records), buf_size(records))) {
        error = EPROTO;
    }
    if (error) {
        buf_clear(records, 0);
    }
    return error;
}

int box_count_processes(struct box *box, init_client_fn fn, void *arg)
{
    return box_ask(box, &(struct wire_request){.op = WIRE_COUNT}, fn, arg);
}
