#include "sandbox/box_states.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "sandbox/box/ask_keeper.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/spec/spec.h"

struct waiting {
    struct box *box;
    box_states_fn fn;
    void *arg;
};

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

static void on_response(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    enum { TEXT_MOST = 1 << 20 };
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct waiting waiting = *(struct waiting *)arg;
    free(arg);
    waiting.box->keeper.watches = !reply->error && reply->kept.watched;
    waiting.box->keeper.holds = reply->error || reply->kept.held > 0;
    waiting.box->keeper.is_blind = !reply->error && reply->kept.blind;
    /* Each item ends with a NUL; one without it would be read beyond the end. */
    size_t size = keeper_read(fds[0], TEXT_MOST, &text) < 0 ? 0 : buf_size(&text);
    bool whole = size > 0 && buf_bytes(&text)[size - 1] == '\0';
    waiting.fn(waiting.arg, reply->error, &reply->kept, whole ? buf_bytes(&text) : "",
               whole ? size : 0);
}

static int ask(struct box *box, struct wire_request *request, box_states_fn fn, void *arg)
{
    if (!fn) {
        return box_ask_keeper(box, request, NULL, NULL);
    }
    struct waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    *waiting = (struct waiting){box, fn, arg};
    int r = box_ask_keeper(box, request, on_response, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

int box_states_begin(struct box *box, const struct box_states_call *call, box_states_fn fn,
                     void *arg)
{
    int64_t now_ns = box_file_time_ns();
    box->keeper.is_fresh = false;
    box_refresh_workspace(box);
    return ask(box,
               &(struct wire_request){.op = KEEP_BEGIN,
                                      .begin = {.session = call->owner,
                                                .from = call->from,
                                                .to = call->to,
                                                .looks = fn != NULL,
                                                .since_ns = now_ns}},
               fn, arg);
}

int box_states_end(struct box *box, const struct box_states_ended *ended, box_states_fn fn,
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
    return ask(box, &request, fn, arg);
}

int box_states_switch(struct box *box, uint32_t from, uint32_t to, box_states_fn fn, void *arg)
{
    return ask(box, &(struct wire_request){.op = KEEP_SWITCH, .switching = {from, to}}, fn, arg);
}

void box_states_keep(struct box *box, uint32_t owner, const uint32_t *states, unsigned count)
{
    struct wire_request request = {.op = KEEP_STATES, .states = {.session = owner}};
    request.states.count = count < KEEP_STATES_MOST ? count : KEEP_STATES_MOST;
    for (unsigned i = 0; i < request.states.count; i++) {
        request.states.list[i] = states[i];
    }
    (void)ask(box, &request, NULL, NULL);
}

void box_states_note(struct box *box, const char *path)
{
    struct wire_request request = {.op = KEEP_NOTE};
    if (strlen(path) < sizeof request.path) {
        memcpy(request.path, path, strlen(path) + 1);
        (void)ask(box, &request, NULL, NULL);
        box->keeper.is_fresh = true; /* code of the next call could remove the file first */
    }
}

const char *box_states_next(const char *text, size_t size, const char *at)
{
    const char *next = at ? at + strlen(at) + 1 : text;
    return next < text + size ? next : NULL;
}
