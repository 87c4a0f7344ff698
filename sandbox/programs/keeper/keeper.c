#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/packet.h"

/* --- the rows of the status line --- */

/* The files that a call has changed, as its status line names them: none below hidden directories
 * except that there is a new one, and many new files of one directory as one row. */

enum { LISTED = 8 }; /* new files of one directory; more are summed up */

struct row {
    char *path;
    char sign;
    bool is_new_file;
    bool doubt;
    enum kind kind;
    unsigned links;
    uint64_t bytes;
};

/* The size of the part of path that names its first hidden directory; 0: there is none. */
static size_t hidden_size(const char *path)
{
    static const char *const hidden[] = {"__pycache__", "node_modules"};
    size_t at = 0;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(path + at, '/')) {
        size_t size = (size_t)(slash - path) - at;
        for (unsigned i = 0; i < 2; i++) {
            if (size == strlen(hidden[i]) && memcmp(path + at, hidden[i], size) == 0) {
                return at + size;
            }
        }
        if (path[at] == '.') {
            return at + size;
        }
        at += size + 1;
    }
    return 0;
}

void rows_add(struct rows *rows, const struct record *record, const struct version *from,
              enum row_kind kind)
{
    const struct version *to = record->now;
    bool hidden_directory = path_last(record->path)[0] == '.' &&
                            ((to->kind == KIND_DIRECTORY && from->kind == KIND_NONE) ||
                             (to->kind == KIND_NONE && from->kind == KIND_DIRECTORY));
    hidden_directory = hidden_directory || kind == ROW_MOVED;
    bool directory = (to->kind == KIND_DIRECTORY || to->kind == KIND_NONE) &&
                     (from->kind == KIND_DIRECTORY || from->kind == KIND_NONE);
    if (hidden_size(record->path) || (directory && !hidden_directory)) {
        return;
    }
    struct row row = {
        .path = strdup(record->path),
        .sign = (char)(from->kind == KIND_NONE ? '+'
                       : to->kind == KIND_NONE ? '-'
                                               : '~'),
        .is_new_file = from->kind == KIND_NONE && to->kind == KIND_FILE && record->links < 2,
        .kind = hidden_directory ? KIND_DIRECTORY : to->kind,
        .links = record->links,
        .doubt = kind == ROW_DOUBTED,
        .bytes = to->bytes,
    };
    if (!row.path || !array_add(rows, row)) {
        free(row.path);
    }
}

static int compare_rows(const void *one, const void *other)
{
    const struct row *a = one;
    const struct row *b = other;
    return strcmp(a->path, b->path);
}

static size_t directory_size(const struct row *row)
{
    const char *slash = strrchr(row->path, '/');
    return slash ? (size_t)(slash - row->path) : 0;
}

static bool is_beside(const struct row *one, const struct row *other)
{
    size_t size = directory_size(one);
    return one->is_new_file && other->is_new_file && directory_size(other) == size &&
           memcmp(one->path, other->path, size) == 0;
}

/* Appends one row: an item of three texts. */
static void append_row(struct buf *text, const struct row *row, uint64_t bytes, unsigned files)
{
    const char *kind = row->doubt                    ? "may be the user's"
                       : row->kind == KIND_LINK      ? "symlink"
                       : row->kind == KIND_DIRECTORY ? "directory"
                       : row->links > 1              ? "hard link"
                                                     : "";
    char number[32];
    int size = (int)(files ? directory_size(row) : strlen(row->path));
    const char *path = files && size == 0 ? "." : row->path;
    (void)buf_appendf(text, "%c%c%.*s%s", WIRE_KEPT_ROW, row->sign, files && size == 0 ? 1 : size,
                      path, files || row->kind == KIND_DIRECTORY ? "/" : "");
    (void)buf_append(text, "", 1);
    (void)buf_appendf(text, "%llu", (unsigned long long)bytes);
    (void)buf_append(text, "", 1);
    (void)snprintf(number, sizeof number, "%u files", files);
    (void)buf_append(text, files ? number : kind, strlen(files ? number : kind) + 1);
}

uint32_t rows_tell(struct rows *rows, struct buf *text)
{
    uint32_t shown_rows = 0;
    uint32_t more = 0;
    if (rows->count > 0) {
        qsort(rows->list, rows->count, sizeof(struct row), compare_rows);
    }
    for (size_t i = 0; i < rows->count; i++) {
        struct row *row = &rows->list[i];
        uint64_t bytes = 0;
        unsigned files = 0;
        if (shown_rows == KEEPER_ROWS) { /* each is compared with all after it: only so many are */
            more += row->sign != '\0';
            continue;
        }
        for (size_t k = i; row->is_new_file && k < rows->count; k++) {
            bool beside = is_beside(row, &rows->list[k]);
            bytes += beside ? rows->list[k].bytes : 0;
            files += beside;
        }
        bool summed = files > LISTED;
        if (row->sign) {
            append_row(text, row, summed ? bytes : row->bytes, summed ? files : 0);
            shown_rows++;
        }
        for (size_t k = i + 1; summed && k < rows->count; k++) {
            if (is_beside(row, &rows->list[k])) { /* its directory has a row */
                rows->list[k].is_new_file = false;
                rows->list[k].sign = '\0';
            }
        }
    }
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->list[i].path);
    }
    free(rows->list);
    return more;
}

/* What a call has made of one path, by all its edits. */
struct outcome {
    char *path;
    size_t order;
    const struct version *from;
    struct version *to;
    unsigned links;
    bool moved; /* a directory */
    bool rewritten;
};

struct outcomes {
    struct outcome *list;
    size_t count;
    size_t space;
};

static void outcome_add(struct outcomes *outcomes, const char *path, const struct version *from,
                        struct version *to, const struct edit *edit)
{
    struct outcome outcome = {.path = strdup(path),
                              .order = outcomes->count,
                              .from = from,
                              .to = to,
                              .links = edit->links,
                              .moved = edit->moves && edit->to->kind == KIND_DIRECTORY,
                              .rewritten = edit->rewritten};
    if (!outcome.path || !array_add(outcomes, outcome)) {
        free(outcome.path);
    }
}

/* What the call has made in a directory is where that is now. */
static void outcomes_move(struct outcomes *outcomes, const char *from, const char *to)
{
    for (size_t i = 0; i < outcomes->count; i++) {
        char *path = NULL;
        if (apply_path_is_below(outcomes->list[i].path, from) &&
            asprintf(&path, "%s%s", to, outcomes->list[i].path + strlen(from)) >= 0) {
            free(outcomes->list[i].path);
            outcomes->list[i].path = path;
        }
    }
}

static int compare_outcomes(const void *one, const void *other)
{
    const struct outcome *a = one;
    const struct outcome *b = other;
    int order = strcmp(a->path, b->path);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static void add_edit(struct outcomes *outcomes, const struct edit *edit)
{
    if (!edit->moves) {
        outcome_add(outcomes, edit->path, edit->from, edit->to, edit);
        return;
    }
    if (edit->to->kind == KIND_DIRECTORY) {
        outcomes_move(outcomes, edit->path, edit->target);
    }
    outcome_add(outcomes, edit->path, edit->to, edits_none(), edit);
    outcome_add(outcomes, edit->target, edit->from, edit->to, edit);
}

/* A row of the status line for each. */
static void edits_rows(const struct keeper *keeper, const struct edits *edits, struct rows *rows)
{
    struct outcomes outcomes = {};
    for (size_t i = 0; i < edits->count; i++) {
        add_edit(&outcomes, edits->list[i]);
    }
    if (outcomes.count > 0) {
        qsort(outcomes.list, outcomes.count, sizeof *outcomes.list, compare_outcomes);
    }
    for (size_t i = 0; i < outcomes.count; i++) {
        struct outcome *first = &outcomes.list[i];
        for (; i + 1 < outcomes.count && strcmp(outcomes.list[i + 1].path, first->path) == 0; i++) {
            first->to = outcomes.list[i + 1].to;
            first->moved = first->moved || outcomes.list[i + 1].moved;
            first->rewritten = first->rewritten || outcomes.list[i + 1].rewritten;
        }
        struct record record = {.path = first->path, .now = first->to, .links = first->links};
        struct apply_facts now = place_facts(keeper->work_fd, first->path);
        /* What code has open may be what it was; and what the system has refused has not been. */
        if (first->rewritten || (version_differs(first->from, first->to) &&
                                 !apply_facts_alike(&first->from->facts, &first->to->facts) &&
                                 !apply_facts_alike(&first->from->facts, &now))) {
            rows_add(rows, &record, first->from, first->moved ? ROW_MOVED : ROW_SURE);
        }
    }
    for (size_t i = 0; i < outcomes.count; i++) {
        free(outcomes.list[i].path);
    }
    free(outcomes.list);
}

/* --- the process --- */

void keeper_reply(const struct keeper *keeper, struct wire_reply *reply, const int *fds,
                  size_t count)
{
    reply->event = WIRE_RESPONSE;
    reply->kept.watched = keeper->watch.on;
    reply->kept.blind = keeper->too_many && keeper_is_plain(keeper);
    reply->kept.held = keeper->edits.held_count + (uint32_t)keeper->touched.count;
    reply->kept.left_out = keeper->left_out;
    if (reply->id != 0 &&
        packet_send(keeper->socket_fd, reply, wire_reply_size(reply), fds, count, 0) < 0) {
        _exit(0); /* the server has exited */
    }
}

int keeper_memfd(const struct buf *bytes)
{
    defer_close int fd = memfd_create("changes", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, buf_bytes(bytes), buf_size(bytes));
    return r < 0 ? r : take_fd(&fd);
}

static void keeper_error(const struct keeper *keeper, const struct wire_request *request, int r)
{
    keeper_reply(keeper, &(struct wire_reply){.id = request->id, .error = -r}, NULL, 0);
}

/* --- the paths of the next request --- */

static void paths_add(struct keeper *keeper, const struct wire_request *request)
{
    char *path = strdup(request->path);
    if (!path || !array_add(&keeper->filters, path)) {
        free(path);
        keeper->filters.lost = true;
    }
}

static void paths_clear(struct keeper *keeper)
{
    for (size_t i = 0; i < keeper->filters.count; i++) {
        free(keeper->filters.list[i]);
    }
    keeper->filters.count = 0;
    keeper->filters.lost = false;
}

bool keeper_claims(const struct keeper *keeper, const char *path)
{
    size_t i = 0;
    while (i < keeper->filters.count && !path_behind(path, keeper->filters.list[i])) {
        i++;
    }
    return i < keeper->filters.count;
}

bool keeper_wants(const struct keeper *keeper, const char *path)
{
    bool all = keeper->filters.count == 0;
    for (size_t i = 0; i < keeper->filters.count; i++) {
        all = all || !*keeper->filters.list[i];
    }
    return all || keeper_claims(keeper, path);
}

/* --- what a call has changed, and what an undo has put back --- */

struct telling {
    struct keeper *keeper;
    struct rows rows;
    struct buf text; /* items: a letter, the name, a NUL */
    struct wire_kept kept;
};

static void tell_name(struct telling *telling, char letter, const char *path, uint32_t *count)
{
    if (++*count <= KEEPER_NAMES) {
        (void)buf_append(&telling->text, &letter, 1);
        (void)buf_append(&telling->text, path, strlen(path) + 1);
    }
}

static void tell_change(void *arg, const struct record *record, const struct version *from)
{
    struct telling *telling = arg;
    const struct keeper *keeper = telling->keeper;
    bool plain = keeper_is_plain(keeper);
    telling->kept.changed++;
    rows_add(&telling->rows, record, from,
             plain && !keeper_claims(keeper, record->path) ? ROW_DOUBTED : ROW_SURE);
    if (!plain && !record->now->kept && record->now->kind == KIND_FILE) {
        tell_name(telling, WIRE_KEPT_UNKEPT, record->path, &telling->kept.unkept);
    }
}

/* Edits are what goes back; where nothing is scanned, they are also what is listed. */
static void tell_edits(struct telling *telling, const struct state *state)
{
    for (size_t i = 0; state && i < state->edits.count; i++) {
        const struct edit *edit = state->edits.list[i];
        bool comes = !edit->unsure && (edit->moves || edit->from->kept);
        if (!comes && edit->from->kind == KIND_FILE) {
            tell_name(telling, WIRE_KEPT_UNKEPT, edit_place(edit), &telling->kept.unkept);
        }
    }
    telling->kept.lost = state && state->edits.lost;
    if (state && (telling->keeper->too_many || telling->keeper->seen)) {
        for (size_t i = 0; i < state->edits.count; i++) {
            telling->kept.changed += state->edits.list[i]->from != state->edits.list[i]->to;
        }
        edits_rows(telling->keeper, &state->edits, &telling->rows);
    }
}

static void tell_put(void *arg, enum put put, const struct record *record)
{
    struct telling *telling = arg;
    if (put == PUT_FOR_GOOD) {
        tell_name(telling, WIRE_KEPT_UNKEPT, record->path, &telling->kept.unkept);
    }
    telling->kept.applied += put_is_back(put) && record->cow.applied;
    if (put == PUT_LINKED) {
        tell_name(telling, WIRE_KEPT_LINKED, record->path, &telling->kept.linked);
        return;
    }
    if (put == PUT_STAYS) {
        tell_name(telling, WIRE_KEPT_STAYS, record->path, &telling->kept.stays);
    } else if (put == PUT_MISSED) {
        tell_name(telling, WIRE_KEPT_MISSED, record->path, &telling->kept.missed);
    } else if (put == PUT_FULL) {
        tell_name(telling, WIRE_KEPT_FULL, record->path, &telling->kept.full);
    } else if (put == PUT_CLOSED) {
        tell_name(telling, WIRE_KEPT_CLOSED, record->path, &telling->kept.closed);
    } else if (place_facts(telling->keeper->work_fd, record->path).mode) {
        tell_name(telling, WIRE_KEPT_BACK, record->path, &telling->kept.back);
    } else {
        tell_name(telling, WIRE_KEPT_GONE, record->path, &telling->kept.gone);
    }
}

static void tell(struct telling *telling, const struct wire_request *request, int r)
{
    defer_close int fd = buf_size(&telling->text) > 0 ? keeper_memfd(&telling->text) : -1;
    struct wire_reply reply = {.id = request->id, .error = -r, .kept = telling->kept};
    reply.kept.too_many = telling->keeper->too_many;
    reply.kept.pending = !telling->keeper->cow       ? 0
                         : telling->keeper->too_many ? WIRE_PENDING_MANY
                                                     : changes_count(telling->keeper);
    keeper_reply(telling->keeper, &reply, &fd, fd >= 0);
    buf_done(&telling->text);
}

static void end(struct keeper *keeper, const struct wire_request *request)
{
    struct telling telling = {.keeper = keeper, .text = BUF_EMPTY};
    int r = states_end(keeper, &request->end, tell_change, &telling);
    tell_edits(&telling, states_find(keeper, request->end.to));
    telling.kept.rows_more = rows_tell(&telling.rows, &telling.text);
    tell(&telling, request, r);
}

static void tell_nothing(void *, enum put, const struct record *)
{
}

/* All or nothing where the disk is full: the user can make space, and repeat it. */
static void switch_states(struct keeper *keeper, const struct wire_request *request)
{
    struct telling telling = {.keeper = keeper, .text = BUF_EMPTY};
    if (keeper->cow) {
        states_look(keeper);
        changes_follow(keeper);
    }
    int r = states_switch(keeper, &request->switching, tell_put, &telling);
    if (telling.kept.full > 0) {
        const struct keep_switch back = {request->switching.to, request->switching.from};
        (void)states_switch(keeper, &back, tell_nothing, NULL);
        telling.kept = (struct wire_kept){.full = telling.kept.full, .unkept = telling.kept.unkept};
    }
    telling.kept.lost = r & STATES_LOST;
    telling.kept.unseen = r & STATES_UNSEEN;
    tell(&telling, request, r < 0 ? r : 0);
}

/* --- the process --- */

static void begin(struct keeper *keeper, const struct wire_request *request)
{
    int r = states_begin(keeper, &request->begin);
    changes_follow(keeper);
    keeper_error(keeper, request, r);
}

static void follow(struct keeper *keeper, const struct wire_request *request)
{
    states_look(keeper);
    changes_follow(keeper);
    keeper_error(keeper, request, 0);
}

static void note(struct keeper *keeper, const struct wire_request *request)
{
    states_note_path(keeper, request->path);
    keeper_error(keeper, request, 0);
}

static void keep(struct keeper *keeper, const struct wire_request *request)
{
    states_keep(keeper, &request->states);
    keeper_error(keeper, request, 0);
}

static void dispatch(struct keeper *keeper, const struct wire_request *request)
{
    static void (*const serve[])(struct keeper *, const struct wire_request *) = {
        [KEEP_BEGIN] = begin,
        [KEEP_END] = end,
        [KEEP_NOTE] = note,
        [KEEP_FOLLOW] = follow,
        [KEEP_SWITCH] = switch_states,
        [KEEP_STATES] = keep,
        [KEEP_LIST] = changes_list,
        [KEEP_DISCARD] = changes_discard,
        [KEEP_COLLECT] = changes_collect,
        [KEEP_APPLIED] = changes_applied,
    };
    uint32_t op = request->op;
    keeper->fresh_ns = request->fresh_ns;
    bool filters = op == KEEP_LIST || op == KEEP_DISCARD || op == KEEP_COLLECT;
    if (filters && keeper->filters.lost) { /* fewer paths could mean all */
        keeper_error(keeper, request, -ENOMEM);
        paths_clear(keeper);
        return;
    }
    if (op == KEEP_PATH) {
        paths_add(keeper, request);
        return;
    }
    if (op < sizeof serve / sizeof *serve) {
        serve[op](keeper, request);
    } else {
        keeper_error(keeper, request, -ENOSYS);
    }
    paths_clear(keeper);
}

/* --- sessions --- */

/* A session's process brings a connection. There is a bound, since code can do it too. */
static void greet(struct keeper *keeper)
{
    char nothing[16];
    int fd = -1;
    unsigned at = 0;
    ssize_t size = packet_receive(keeper->edits.greet_fd, nothing, sizeof nothing, &fd, 1);
    if (size == 0) {
        own_close(&keeper->edits.greet_fd);
    }
    while (at < KEEPER_CONNECTIONS && keeper->edits.connections[at]) {
        at++;
    }
    if (fd >= 0 && at < KEEPER_CONNECTIONS) {
        keeper->edits.connections[at] = fd;
    } else {
        own_close(&fd);
    }
}

/* A message, and the response. One to init must arrive: the code's call waits for it. Returns
 * whether the connection can go on. */
static bool serve_touch(struct keeper *keeper, int fd, int flags)
{
    static struct wire_touch touch;
    enum { HEAD = offsetof(struct wire_touch, paths) };
    ssize_t size = recv(fd, &touch, sizeof touch, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    const char *end = size > HEAD ? (const char *)&touch + size : NULL;
    const char *second = end ? memchr(touch.paths, '\0', (size_t)size - HEAD) : NULL;
    const char *third = second ? memchr(second + 1, '\0', (size_t)(end - second - 1)) : NULL;
    if (!third || !memchr(third + 1, '\0', (size_t)(end - third - 1))) {
        return false;
    }
    edits_touch(keeper, &touch);
    return keeper->own || send(fd, &touch.number, sizeof touch.number, flags | MSG_NOSIGNAL) > 0;
}

/* In the sandbox's own workspace calls do not wait: what the server requests comes after all that
 * was touched before. An answer tells init that there is space again. */
static void serve_init(struct keeper *keeper)
{
    enum { MOST = 1024 }; /* more than a queue holds: code can fill it as fast */
    struct pollfd more = {.fd = keeper->edits.touch_fd, .events = POLLIN};
    bool goes_on = serve_touch(keeper, more.fd, 0);
    for (unsigned i = 0; keeper->own && goes_on && i < MOST && poll(&more, 1, 0) > 0; i++) {
        goes_on = serve_touch(keeper, more.fd, 0);
    }
    goes_on = goes_on &&
              (!keeper->own ||
               send(more.fd, &(uint32_t){0}, sizeof(uint32_t), MSG_DONTWAIT | MSG_NOSIGNAL) > 0 ||
               errno == EAGAIN);
    if (!goes_on) {
        own_close(&keeper->edits.touch_fd);
    }
}

/* Waits until there is a request of the server's, and serves sessions meanwhile: each waits for its
 * response before its code goes on, and none can keep the server waiting. */
static void serve_sessions(struct keeper *keeper)
{
    enum { OTHERS = 4, LAND_MS = 5 };
    struct pollfd polled[OTHERS + KEEPER_CONNECTIONS];
    for (;;) {
        polled[0] = (struct pollfd){.fd = keeper->socket_fd, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = keeper->edits.greet_fd, .events = POLLIN};
        polled[2] = (struct pollfd){.fd = keeper->edits.fd, .events = POLLIN};
        polled[3] = (struct pollfd){.fd = keeper->edits.touch_fd, .events = POLLIN};
        for (unsigned i = 0; i < KEEPER_CONNECTIONS; i++) {
            int fd = keeper->edits.connections[i];
            polled[OTHERS + i] = (struct pollfd){.fd = fd ? fd : -1, .events = POLLIN};
        }
        int timeout_ms = edits_land(keeper) ? LAND_MS : -1;
        if (poll(polled, OTHERS + KEEPER_CONNECTIONS, timeout_ms) < 0) {
            continue;
        }
        if (polled[2].revents) {
            edits_follow(keeper);
        }
        for (unsigned i = 0; i < KEEPER_CONNECTIONS; i++) {
            int *fd = &keeper->edits.connections[i];
            if (polled[OTHERS + i].revents && !serve_touch(keeper, *fd, MSG_DONTWAIT)) {
                (void)close(*fd);
                *fd = 0;
            }
        }
        if (polled[3].revents) {
            serve_init(keeper);
        }
        if (polled[1].revents) {
            greet(keeper);
        }
        if (polled[0].revents) {
            return;
        }
    }
}

/* Only what the keeper works with stays open. */
static bool keep_descriptors(struct keeper *keeper, const struct keeper_setup *setup)
{
    enum { FIRST = 3, COUNT = 9 };
    int work_fd = openat(AT_FDCWD, setup->work, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct {
        int *to;
        int fd;
    } kept[COUNT] = {
        {&keeper->socket_fd, setup->socket_fd},
        {&keeper->work_fd, work_fd},
        {&keeper->upper_fd, keeper->cow ? WIRE_UPPER_FD : -1},
        {&keeper->lower_fd, keeper->cow ? WIRE_LOWER_FD : -1},
        {&keeper->store_fd, setup->cow == WIRE_COW_STORE ? WIRE_STORE_FD : -1},
        {&keeper->output_fd, setup->output_fd},
        {&keeper->watch.fd, setup->watch_fd},
        {&keeper->edits.greet_fd, setup->greet_fd},
        {&keeper->edits.touch_fd, setup->touch_fd},
    };
    for (unsigned i = 0; i < COUNT; i++) {
        *kept[i].to = kept[i].fd < 0 ? -1 : fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 64);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        int *fd = kept[i].to;
        if (*fd >= 0 && (*fd = dup3(*fd, (int)(FIRST + i), O_CLOEXEC)) < 0) {
            return false;
        }
    }
    fd_close_range(FIRST + COUNT, ~0U);
    keeper->seen = keeper->edits.touch_fd >= 0;
    keeper->watch.on = keeper->seen;
    keeper->edits.fd = keeper_is_plain(keeper) ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
    return keeper->socket_fd >= 0 && keeper->work_fd >= 0;
}

void keeper_main(const struct keeper_setup *setup)
{
    static struct keeper keeper;
    static struct wire_request request;
    /* With the server, init or both: nobody needs it then. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "sp-keeper");
    /* Holes of copies take no memory: each large one is a mapping, of small pages. */
    (void)mallopt(M_MMAP_THRESHOLD, 100000);
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    keeper.cow = setup->cow != WIRE_COW_NONE;
    keeper.own = setup->own;
    keeper.limit_bytes = setup->limit_bytes;
    keeper.edits.answers = setup->answers;
    keeper.edits.first = 1;
    (void)signal(SIGIO, SIG_IGN); /* of a lease, see edits.c */
    if (!keep_descriptors(&keeper, setup)) {
        _exit(1);
    }
    if (keeper.cow) {
        base_load(&keeper);
    }
    /* A change without an entry in the store: a kill or a full disk has taken that. */
    keeper.again = setup->again || keeper.store_fd >= 0;
    states_look(&keeper);
    base_loaded(&keeper);
    keeper.again = false;
    for (;;) {
        serve_sessions(&keeper);
        ssize_t size = recv(keeper.socket_fd, &request, sizeof request, 0);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            _exit(0);
        }
        request.path[sizeof request.path - 1] = '\0';
        dispatch(&keeper, &request);
    }
}
