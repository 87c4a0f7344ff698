#include "sandbox/box.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/types.h"

static int file_send(struct box *box, struct wire_request *request, const char *path,
                     init_client_fn fn, void *arg)
{
    if (strlen(path) >= sizeof request->path) {
        return -ENAMETOOLONG;
    }
    memcpy(request->path, path, strlen(path) + 1);
    return box_ask(box, request, fn, arg);
}

/* A request to init that waits for the keeper. */
struct file_ask {
    struct box *box;
    struct wire_request request;
    init_client_fn fn;
    void *arg;
};

static void followed(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct file_ask ask = *(struct file_ask *)arg;
    free(arg);
    int r =
        reply->error == ECONNRESET ? -ECONNRESET : box_ask(ask.box, &ask.request, ask.fn, ask.arg);
    if (r < 0) {
        ask.fn(ask.arg, &(struct wire_reply){.error = -r}, fds);
    }
}

/* As file_send(), once the workspace shows what the user has in DIR. */
static int file_ask(struct box *box, const struct wire_request *request, const char *path,
                    init_client_fn fn, void *arg)
{
    struct file_ask ask = {box, *request, fn, arg};
    box_refresh_workspace(box);
    struct file_ask *waiting =
        box->spec->cow && box_states_exist(box) ? malloc(sizeof *waiting) : NULL;
    if (!waiting || strlen(path) >= sizeof ask.request.path) {
        free(waiting);
        return file_send(box, &ask.request, path, fn, arg);
    }
    memcpy(ask.request.path, path, strlen(path) + 1);
    *waiting = ask;
    int r = box_ask_keeper(box, &(struct wire_request){.op = KEEP_FOLLOW}, followed, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

int box_file_open(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    return file_ask(box, &(struct wire_request){.op = WIRE_OPEN_READ}, path, fn, arg);
}

int box_file_resolve(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    return file_ask(box, &(struct wire_request){.op = WIRE_RESOLVE}, path, fn, arg);
}

int box_file_write(struct box *box, const char *path, enum wire_write_mode mode, init_client_fn fn,
                   void *arg)
{
    return file_ask(
        box,
        &(struct wire_request){.op = WIRE_OPEN_WRITE,
                               .write_mode = mode,
                               .keeps_attributes = !box->spec->cow}, /* apply keeps it */
        path, fn, arg);
}

int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, init_client_fn fn,
                    void *arg)
{
    struct wire_request request = {.op = WIRE_COMMIT, .token = token};
    if (replaced && !box->spec->cow) { /* there the user's files are compared later */
        request.expected = apply_facts_of(replaced);
    }
    return file_send(box, &request, "", fn, arg);
}

int box_output_make(struct box *box, const char *name, init_client_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_MAKE_OUTPUT}, name, fn, arg);
}

void box_output_remove(struct box *box, const char *name)
{
    (void)file_send(box, &(struct wire_request){.op = WIRE_REMOVE_OUTPUT}, name, NULL, NULL);
}

void box_file_abort(struct box *box, uint32_t token)
{
    (void)box_ask(box, &(struct wire_request){.op = WIRE_ABORT, .token = token}, NULL, NULL);
}

/* --- states of files --- */

bool box_states_exist(const struct box *box)
{
    return box->keeper.client.fd >= 0;
}

bool box_states_are_fresh(const struct box *box)
{
    return box->keeper.is_fresh || box->keeper.holds;
}

bool box_states_are_quiet(const struct box *box)
{
    struct pollfd watch = {.fd = box->keeper.watch_fd, .events = POLLIN};
    return box->keeper.is_blind ? true
                                : box->keeper.watches && watch.fd >= 0 && poll(&watch, 1, 0) == 0;
}

bool box_states_are_blind(const struct box *box)
{
    return box->keeper.is_blind;
}

const char *box_states_unseen(const struct box *box)
{
    struct host_facts host;
    if (!box_spec_is_written_through(box->spec) || box->guest.is_seen) {
        return NULL;
    }
    host_facts_read(box->spec, &host);
    return host.writes_unseen
               ? host.writes_unseen
               : "another program has the seccomp notifications of this container, or "
                 "the sandbox has no /proc";
}

bool box_states_are_edits(const struct box *box)
{
    return box->guest.is_seen || box_spec_is_written_through(box->spec);
}

void box_states_read(struct box *box, const struct wire_reply *reply, const int fds[WIRE_FDS],
                     struct buf *text)
{
    enum { TEXT_MOST = 1 << 20 };
    if (box) {
        box->keeper.watches = !reply->error && reply->kept.watched;
        box->keeper.holds = reply->error || reply->kept.held > 0;
        box->keeper.is_blind = !reply->error && reply->kept.blind;
    }
    /* Each item ends with a NUL; one without it would be read beyond the end. */
    if (keeper_read(fds[0], TEXT_MOST, text) < 0 || buf_size(text) == 0 ||
        buf_bytes(text)[buf_size(text) - 1] != '\0') {
        buf_clear(text, 0);
    }
}

const char *box_states_next(const struct buf *text, const char *at)
{
    const char *next = at ? at + strlen(at) + 1 : buf_bytes(text);
    return next < buf_bytes(text) + buf_size(text) ? next : NULL;
}

int box_states_begin(struct box *box, uint32_t owner, const struct keep_switch *call,
                     init_client_fn fn, void *arg)
{
    int64_t now_ns = clock_file_ns();
    box->keeper.is_fresh = false;
    box_refresh_workspace(box);
    return box_ask_keeper(box,
                          &(struct wire_request){.op = KEEP_BEGIN,
                                                 .begin = {.session = owner,
                                                           .from = call->from,
                                                           .to = call->to,
                                                           .looks = fn != NULL,
                                                           .since_ns = now_ns}},
                          fn, arg);
}

int box_states_end(struct box *box, const struct box_states_ended *ended, init_client_fn fn,
                   void *arg)
{
    enum { CLAIMS_MOST = 1000 };
    const char *claims = ended->claims;
    const char *end = claims + ended->size;
    unsigned count = 0;
    struct wire_request request = {.op = KEEP_END,
                                   .end = {.to = ended->to, .surely = ended->changed}};
    if (!ended->changed) { /* the precise clock is never behind the time of a change */
        request.end.until_ns = clock_wall_ns();
    }
    for (; claims < end && count < CLAIMS_MOST; count++) {
        const char *next = memchr(claims, '\n', (size_t)(end - claims));
        size_t length = (size_t)((next ? next : end) - claims);
        (void)keeper_name_path(box, claims, length);
        claims += length + 1;
    }
    return box_ask_keeper(box, &request, fn, arg);
}

int box_states_switch(struct box *box, uint32_t from, uint32_t to, init_client_fn fn, void *arg)
{
    return box_ask_keeper(box, &(struct wire_request){.op = KEEP_SWITCH, .switching = {from, to}},
                          fn, arg);
}

void box_states_keep(struct box *box, const struct keep_states *states)
{
    (void)box_ask_keeper(box, &(struct wire_request){.op = KEEP_STATES, .states = *states}, NULL,
                         NULL);
}

void box_states_note(struct box *box, const char *path)
{
    struct wire_request request = {.op = KEEP_NOTE};
    if (strlen(path) < sizeof request.path) {
        memcpy(request.path, path, strlen(path) + 1);
        (void)box_ask_keeper(box, &request, NULL, NULL);
        box->keeper.is_fresh = true; /* code of the next call could remove the file first */
    }
}
