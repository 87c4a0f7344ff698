#include "tools/box/tool.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"

struct server_box {
    struct loop *loop;
    const struct box_spec *spec;
    struct box_packages *packages;
    struct box *box;
    struct box_report report; /* of this sandbox, or of the last one */
    struct box_protected_watch watch;
    bool protection_reported;
    struct server_box_waiter *waiters; /* in order */
    unsigned round;
    bool was_ready;             /* box has been ready */
    bool ending;                /* starts no sandbox any more */
    egress_event_fn on_refused; /* may be NULL */
    void *refused_arg;
    struct loop_task bury; /* frees a dead box outside of its own callbacks */
    struct box *dead;
};

static void server_box_warm_up(struct server_box *server_box);

static void server_box_bury(void *arg)
{
    struct server_box *server_box = arg;
    box_free(server_box->dead);
    server_box->dead = NULL;
    if (server_box->waiters && !server_box->box) {
        server_box_warm_up(server_box);
    }
}

static void server_box_notify(struct server_box *server_box, struct box *box,
                              const struct fail *why)
{
    /* A waiter that waits again inside its callback gets the next sandbox. */
    unsigned round = ++server_box->round;
    while (server_box->waiters && server_box->waiters->round < round) {
        struct server_box_waiter *waiter = server_box->waiters;
        server_box_wait_cancel(waiter);
        waiter->fn(waiter->arg, box, why);
    }
}

static void server_box_on_state(void *arg, enum box_state state, const struct fail *why)
{
    struct server_box *server_box = arg;
    struct fail none = {};
    if (state == BOX_READY) {
        server_box->was_ready = true;
        box_protected_watch(server_box->spec, server_box->report.protected_names.rows,
                            &server_box->watch);
        server_box_notify(server_box, server_box->box, NULL);
        return;
    }
    if (why && server_box->was_ready) { /* else it goes to those who wait */
        log_error("tools", "sandbox: %s", fail_text(why));
    }
    server_box->was_ready = false;
    server_box->dead = server_box->box;
    server_box->box = NULL;
    loop_task_queue(server_box->loop, &server_box->bury, server_box_bury, server_box);
    (void)fail_set(&none, 0, "the sandbox exited");
    server_box_notify(server_box, NULL, why ? why : &none);
}

static void server_box_on_egress(void *arg, const struct egress_event *event)
{
    const struct server_box *server_box = arg;
    if (server_box->on_refused) {
        server_box->on_refused(server_box->refused_arg, event);
    }
}

int server_box_new(struct loop *loop, const struct box_spec *spec, egress_event_fn on_refused,
                   void *arg, struct server_box **ret_server_box)
{
    struct server_box *server_box = calloc(1, sizeof *server_box);
    if (!server_box) {
        return -ENOMEM;
    }
    server_box->loop = loop;
    server_box->spec = spec;
    server_box->on_refused = on_refused;
    server_box->refused_arg = arg;
    server_box->watch.dir_fd = -1;
    if (spec->packages) {
        struct fail fail = {};
        int r = box_packages_new(loop, spec, &server_box->packages, &fail);
        if (r < 0) {
            free(server_box);
            return r;
        }
    }
    box_report_expect(spec, &server_box->report);
    *ret_server_box = server_box;
    return 0;
}

void server_box_free(struct server_box *server_box)
{
    if (server_box) {
        struct fail fail = {};
        server_box->ending = true;
        (void)fail_set(&fail, 0, "the server is stopping");
        if (server_box->box) {
            box_kill(server_box->box); /* which moves it to dead */
        }
        server_box_notify(server_box, NULL, &fail);
        loop_task_cancel(&server_box->bury);
        box_free(server_box->dead);
        box_packages_free(server_box->packages);
        box_protected_unwatch(&server_box->watch);
        free(server_box);
    }
}

bool server_box_is_ending(const struct server_box *server_box)
{
    return server_box->ending;
}

/* Starts the sandbox if there is none; does not wait. */
static void server_box_warm_up(struct server_box *server_box)
{
    struct fail fail = {};
    if (server_box->box || server_box->dead) {
        return;
    }
    struct box_owner owner = {server_box->loop, server_box_on_state, server_box,
                              &server_box->report, server_box_on_egress};
    int r = box_start(server_box->spec, server_box->packages, &owner, &server_box->box, &fail);
    if (r < 0) {
        server_box_notify(server_box, NULL, &fail);
    }
}

void server_box_wait(struct server_box *server_box, struct server_box_waiter *waiter,
                     server_box_fn fn, void *arg)
{
    if (server_box->box && box_state(server_box->box) == BOX_READY) {
        fn(arg, server_box->box, NULL);
        return;
    }
    if (server_box->ending) {
        struct fail fail = {};
        (void)fail_set(&fail, 0, "the server is stopping");
        fn(arg, NULL, &fail);
        return;
    }
    *waiter = (struct server_box_waiter){
        .server_box = server_box, .round = server_box->round, .fn = fn, .arg = arg};
    list_append(&server_box->waiters, waiter);
    server_box_warm_up(server_box);
}

void server_box_wait_cancel(struct server_box_waiter *waiter)
{
    if (waiter->server_box) {
        list_remove(&waiter->server_box->waiters, waiter);
        waiter->server_box = NULL;
    }
}

struct box *server_box_get(const struct server_box *server_box)
{
    return server_box->box && box_state(server_box->box) == BOX_READY ? server_box->box : NULL;
}

struct box_packages *server_box_packages(const struct server_box *server_box)
{
    return server_box->packages;
}

const struct box_spec *server_box_spec(const struct server_box *server_box)
{
    return server_box->spec;
}

const struct box_report *server_box_report(const struct server_box *server_box)
{
    return &server_box->report;
}

void server_box_protected_news(struct server_box *server_box, char *text, size_t size)
{
    (void)box_protected_news(server_box->spec, &server_box->watch, text, size);
}

/* Appends what separates the next clause. */
static struct buf *next_clause(struct buf *text)
{
    buf_append_text(text, buf_size(text) > 0 ? "; " : "");
    return text;
}

void server_box_protection(struct server_box *server_box, struct buf *text)
{
    const struct box_protected *found = &server_box->report.protected_names;
    if (box_protected_is_elsewhere(server_box->spec, &server_box->watch)) {
        buf_append_text(text,
                        "its directory was moved, removed or replaced: code has the old one "
                        "until the server restarts");
        return;
    }
    if (!server_box->spec->workspace || server_box->protection_reported) {
        return;
    }
    server_box->protection_reported = true;
    if (server_box->spec->cow) {
        buf_append_text(text, box_store_is_taken(server_box->spec)
                                  ? "another server uses the store of this workspace: unapplied "
                                    "changes are gone when this server exits"
                                  : "");
        return;
    }
    if (!found->enforced) {
        buf_append_text(text,
                        "settings of other programs (.git/hooks, .vscode, ...) are writable "
                        "at this isolation level; changes are reported");
    }
    if (found->links_open > 0) {
        buf_appendf(next_clause(text),
                    "%u hard-linked files are writable: writing to them changes the files outside "
                    "too",
                    found->links_open);
    } else if (found->links > 0) {
        buf_appendf(text, "%u hard-linked files or package directories are read-only",
                    found->links);
    }
    if (found->shared) {
        buf_append_text(next_clause(text),
                        "another sandbox uses the workspace: a settings file that it moved while "
                        "this one started may be writable here; the user can restart this one");
    }
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (server_box->watch.partial & 1ULL << i) {
            buf_appendf(next_clause(text), "%s is not watched completely", box_protected_name(i));
        }
    }
    if (found->incomplete) {
        buf_appendf(next_clause(text),
                    "more than %d entries: the remaining settings and hard links are not protected",
                    PROTECTED_ENTRIES);
    }
}

void server_box_open_file(struct server_box *server_box, const char *path, init_client_fn fn,
                          void *arg)
{
    struct box *box = server_box_get(server_box);
    int r = box ? box_file_open(box, path, fn, arg) : -ECONNRESET;
    if (r < 0) {
        fn(arg, &(struct wire_reply){.error = -r}, (int[WIRE_FDS]){-1, -1, -1});
    }
}
