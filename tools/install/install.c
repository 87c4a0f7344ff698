/* The installs that wait, one of which runs, in installers: sandboxes of their own, which user code
 * never sees:
 *
 *   FETCH ──► PLACE ──► a new layer
 *     ▲ │ source archives
 *     └─ BUILD
 *
 * FETCH reaches the index through the egress proxy and runs no package's code. BUILD runs a
 * package's own build and PLACE unpacks, both without any network. This file checks their replies:
 * the policy once more for every dependency, and box_packages_commit() for the staging directory.
 * Until then, nothing that the sessions see has changed. */
#include "tools/install/install.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "guest/guest.h"
#include "tools/box/overflow.h"
#include "tools/box/tool.h"
#include "tools/install/install_request.h"

/* The output of pip and the builds during one install: its beginning and end, each bounded. */
struct install_log {
    struct buf head;
    struct buf tail;
    uint64_t total;
};

struct installs {
    struct loop *loop;
    struct server_box *server_box;
    struct overflows *overflows;
    struct record *record;
    struct install_sources sources;
    struct egress_policy egress;
    struct install_op *current;
    struct install_op *queue;
    unsigned queued;
    struct loop_task task; /* begins the next one outside of the caller */

    /* of the current one: */
    uint64_t started_ns;
    enum install_step step;
    unsigned rounds; /* of building */
    struct box_installer *installer;
    struct box_installer *early; /* PLACE's, which loads pip while FETCH runs */
    struct box_installer_spec
        specs[2]; /* what the steps' sandboxes borrow; the second is PLACE's */
    char *request;
    json_t *reply;                   /* the last line that is not progress */
    json_t *built;                   /* by BUILD so far */
    char refused[EGRESS_TEXT_BYTES]; /* what the egress proxy has refused last */
    struct install_log log;
    struct overflow *overflow; /* the log while it is written to a file, which read_file reads */
};

static void begin(void *arg);
static void run_step(struct installs *installs, enum install_step step);

static void log_add(struct install_log *log, const char *bytes, size_t size)
{
    size_t used = buf_size(&log->head);
    size_t part = LIMIT_INSTALL_LOG_BYTES / 2 - used;
    part = size < part ? size : part;
    log->total += size;
    /* Without memory the log has a gap; the install goes on. */
    (void)buf_append(&log->head, bytes, part);
    (void)buf_append(&log->tail, bytes + part, size - part);
    if (buf_size(&log->tail) > LIMIT_INSTALL_LOG_BYTES) {
        buf_consume(&log->tail, buf_size(&log->tail) - LIMIT_INSTALL_LOG_BYTES / 2);
    }
}

/* --- the end --- */

/* Clears what one install leaves behind for the next. */
static void installs_clear(struct installs *installs)
{
    json_decref(take_ptr(installs->reply));
    json_decref(take_ptr(installs->built));
    buf_done(&installs->log.head);
    buf_done(&installs->log.tail);
    installs->log.total = 0;
    installs->refused[0] = '\0';
    installs->rounds = 0;
}

/* Ends the current install. path: the file of its log, or NULL. An overflow_fn. */
static void installs_done(void *arg, const char *path, uint64_t)
{
    struct installs *installs = arg;
    struct install_op *op = installs->current;
    installs->overflow = NULL;
    (void)snprintf(op->report.log, sizeof op->report.log, "%s", path ? path : "");
    op->report.duration_ns = clock_now_ns() - installs->started_ns;
    install_record(installs->record, op);
    installs_clear(installs);
    installs->current = NULL;
    loop_task_queue(installs->loop, &installs->task, begin, installs);
    op->on_done(op->arg, op);
}

static struct box_packages *packages_of(const struct installs *installs)
{
    return server_box_packages(installs->server_box);
}

/* Where nothing was to be done, the log tells nothing. */
static void finish(struct installs *installs, bool discards)
{
    struct install_op *op = installs->current;
    struct install_log *log = &installs->log;
    if (discards) {
        box_packages_discard(packages_of(installs));
    }
    box_installer_free(take_ptr(installs->early));
    if (op->cancelled || (!op->report.failure && !op->report.installed)) {
        installs_done(installs, NULL, 0);
        return;
    }
    install_sources_redact(&installs->sources, op->report.message, strlen(op->report.message));
    uint64_t left_out = log->total - buf_size(&log->head) - buf_size(&log->tail);
    if (left_out > 0) {
        (void)buf_appendf(&log->head, "\n[... %llu bytes omitted ...]\n",
                          (unsigned long long)left_out);
    }
    (void)buf_append(&log->head, buf_bytes(&log->tail), buf_size(&log->tail));
    if (buf_size(&log->head) > 0) {
        install_sources_redact(&installs->sources, log->head.data + log->head.start,
                               buf_size(&log->head));
        installs->overflow =
            overflow_begin(installs->overflows, "install", 0, &log->head, NULL, NULL);
    }
    overflow_finish(installs->overflow, installs_done, installs);
}

__attribute__((format(printf, 3, 4))) static void
fail_with(struct installs *installs, enum install_failure failure, const char *fmt, ...)
{
    struct install_report *report = &installs->current->report;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(report->message, sizeof report->message, fmt, args);
    va_end(args);
    report->failure = failure;
    finish(installs, /* discards= */ true);
}

/* Fails by a reply that has an error. Most of what an installer cannot reach was refused by the
 * egress proxy, whose message says which flag would help. */
static void fail_by_reply(struct installs *installs, const json_t *reply)
{
    enum install_failure failure = install_failure_of(reply);
    const char *message = json_string_value(json_object_get(reply, "message"));
    const char *refused = installs->refused;
    bool network = failure == INSTALL_UNREACHABLE || failure == INSTALL_BLOCKED;
    bool reported = !network || !refused[0] || (message && strstr(message, refused));
    /* The installer has read text of packages and indexes, and may have run code of a package. */
    char words[sizeof installs->current->report.message];
    char quoted[WORD_PHRASE + 1];
    (void)snprintf(words, sizeof words, "%s%s%s", message ? message : "", reported ? "" : " ",
                   reported ? "" : refused);
    install_sources_redact(&installs->sources, words, strlen(words));
    fail_with(installs, failure, "%s",
              words[0] ? word_quote(words, strlen(words), quoted, sizeof quoted) : "");
}

/* Fails because the step's sandbox has ended without a reply. */
static void fail_by_end(struct installs *installs, const struct box_installer_end *end)
{
    unsigned long long used = end->used_bytes >> 20;
    unsigned long long limit = end->limit_bytes >> 20;
    if (end->outcome == BOX_INSTALLER_OOM || end->out_of_memory) {
        fail_with(installs, INSTALL_MEMORY, "the installer exceeded its memory limit of %llu MiB",
                  limit);
        return;
    }
    switch (end->outcome) {
    case BOX_INSTALLER_DISK:
        fail_with(installs, INSTALL_DISK, "package disk full: %llu of %llu MiB", used, limit);
        break;
    case BOX_INSTALLER_TIMEOUT:
        fail_with(installs, INSTALL_TIMEOUT, "the installer was killed after %u s",
                  LIMIT_INSTALL_STEP_MS / 1000);
        break;
    case BOX_INSTALLER_NO_BOX:
        fail_with(installs, INSTALL_UNAVAILABLE, "%s",
                  end->why ? fail_text(end->why) : "no sandbox is available");
        break;
    case BOX_INSTALLER_SIGNAL:
        fail_with(installs, INSTALL_OTHER, "installer killed by signal %d", end->code);
        break;
    case BOX_INSTALLER_EXITED:
        fail_with(installs, INSTALL_OTHER, "installer exited with status %d, no output", end->code);
        break;
    case BOX_INSTALLER_OOM:
    case BOX_INSTALLER_CANCELLED:
    case BOX_INSTALLER_LOST:
    default:
        fail_with(installs, INSTALL_OTHER, "malformed reply from installer");
        break;
    }
}

/* --- the steps --- */

/* Whether all names of array key may be installed; if not, the install has failed. */
static bool is_allowed(struct installs *installs, const json_t *reply, const char *key)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(reply, key), i, item) {
        char name[REQUIREMENT_NAME_BYTES];
        char text[REQUIREMENT_TEXT_BYTES];
        const json_t *sent = json_object_get(item, "name");
        if (!json_is_string(sent) ||
            requirement_check(json_string_value(sent), json_string_length(sent), name, text)) {
            fail_with(installs, INSTALL_OTHER, "installer sent a package without a name");
            return false;
        }
        if (install_policy_refusal(installs->sources.config, name, text, sizeof text)) {
            bool requested = json_is_true(json_object_get(item, "requested"));
            fail_with(installs, INSTALL_BLOCKED, "%s%s", text,
                      requested ? "" : "; a requested package depends on it");
            return false;
        }
    }
    return true;
}

static void after_fetch(struct installs *installs)
{
    const json_t *fetched = installs->current->report.fetched;
    bool builds = json_array_size(json_object_get(fetched, "to_build")) > 0;
    if (!is_allowed(installs, fetched, "to_install") ||
        !is_allowed(installs, fetched, "to_build")) {
        return;
    }
    if (builds &&
        (!installs->sources.config->allow_sdist || installs->rounds++ == LIMIT_INSTALL_ROUNDS)) {
        fail_with(installs, INSTALL_BUILD_FAILED, "too many packages must be built from source");
    } else if (builds) {
        run_step(installs, INSTALL_BUILD);
    } else if (json_array_size(json_object_get(fetched, "to_install")) > 0) {
        run_step(installs, INSTALL_PLACE);
    } else {
        finish(installs, /* discards= */ true);
    }
}

static void after_build(struct installs *installs)
{
    if (!installs->built) {
        installs->built = json_array();
    }
    /* By the names from FETCH's reply: a build may write and reply anything. */
    (void)json_array_extend(installs->built,
                            json_object_get(installs->current->report.fetched, "to_build"));
    run_step(installs, INSTALL_FETCH);
}

static void after_place(struct installs *installs)
{
    struct box_packages_layer layer = {};
    struct fail fail = {};
    int r = box_packages_commit(packages_of(installs), &layer, &fail);
    if (r < 0) {
        bool full = r == -EDQUOT || r == -ENOSPC;
        fail_with(installs, full ? INSTALL_DISK : INSTALL_OTHER, "%s", fail_text(&fail));
        return;
    }
    log_info("tools", "install: layer %u, %llu bytes in %llu files", layer.number,
             (unsigned long long)layer.bytes, (unsigned long long)layer.files);
    finish(installs, /* discards= */ false);
}

static void after_step(struct installs *installs)
{
    static void (*const after[])(struct installs * installs) = {[INSTALL_FETCH] = after_fetch,
                                                                [INSTALL_BUILD] = after_build,
                                                                [INSTALL_PLACE] = after_place};
    struct install_report *report = &installs->current->report;
    json_t **const replies[] = {[INSTALL_FETCH] = &report->fetched,
                                [INSTALL_BUILD] = &installs->reply,
                                [INSTALL_PLACE] = &report->installed};
    json_t **reply = replies[installs->step];
    if (reply != &installs->reply) {
        json_decref(*reply);
        *reply = take_ptr(installs->reply);
    }
    if (json_is_true(json_object_get(*reply, "ok"))) {
        after[installs->step](installs);
    } else {
        fail_by_reply(installs, *reply);
    }
}

static void on_line(void *arg, const char *line, size_t size)
{
    struct installs *installs = arg;
    struct install_op *op = installs->current;
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    const char *progress = json_string_value(json_object_get(object, "progress"));
    if (progress) {
        char words[160];
        char text[200];
        (void)snprintf(words, sizeof words, "%s", progress);
        install_sources_redact(&installs->sources, words, strlen(words));
        (void)word_quote(words, strlen(words), text, sizeof text);
        if (op->on_progress && !op->cancelled) {
            op->on_progress(op->arg, text);
        }
        json_decref(object);
    } else if (object) {
        json_decref(installs->reply);
        installs->reply = object;
    }
}

static void on_log(void *arg, const char *bytes, size_t size)
{
    struct installs *installs = arg;
    log_add(&installs->log, bytes, size);
}

static void on_egress(void *arg, const struct egress_event *event)
{
    struct installs *installs = arg;
    if (event->kind == EGRESS_ALLOWED) {
        return;
    }
    (void)snprintf(installs->refused, sizeof installs->refused, "%s", event->text);
    log_add(&installs->log, event->text, strlen(event->text));
    log_add(&installs->log, "\n", 1);
}

static void on_end(void *arg, const struct box_installer_end *end)
{
    struct installs *installs = arg;
    installs->installer = NULL;
    free(take_ptr(installs->request));
    if (installs->current->cancelled) {
        finish(installs, /* discards= */ true);
    } else if (end->outcome != BOX_INSTALLER_EXITED || !installs->reply) {
        fail_by_end(installs, end);
    } else {
        after_step(installs);
    }
}

static void on_place_end(void *arg, const struct box_installer_end *end)
{
    struct installs *installs = arg;
    if (installs->early) {
        installs->early = NULL; /* PLACE starts another one, which reports why */
    } else {
        on_end(installs, end);
    }
}

static const struct box_installer_events installer_events[] = {
    {.on_line = on_line, .on_log = on_log, .on_egress = on_egress, .on_end = on_end},
    {.on_line = on_line, .on_log = on_log, .on_end = on_place_end}};

/* New: the request as text; NULL when out of memory. */
static char *compose_request(const struct installs *installs, enum install_step step)
{
    const struct box_spec *spec = server_box_spec(installs->server_box);
    const struct box_packages *packages = packages_of(installs);
    const struct install_op *op = installs->current;
    struct install_input input = {
        .packages = op->packages,
        .upgrade = op->upgrade,
        .layers = box_packages_layers(packages),
        .layers_path = box_packages_path(packages),
        .bytes_most = spec->packages_bytes,
        .upstream = spec->ways != NULL,
        .fetched = op->report.fetched,
        .built = installs->built,
    };
    json_auto_t *request = install_request(&installs->sources, step, &input);
    return request ? json_dumps(request, JSON_COMPACT) : NULL;
}

static int start_step(struct installs *installs, enum install_step step,
                      struct box_installer **ret_installer, struct fail *ret_fail)
{
    const struct install_config *config = installs->sources.config;
    bool fetches = step == INSTALL_FETCH;
    bool places = step == INSTALL_PLACE;
    installs->specs[places] = (struct box_installer_spec){
        .program = installer_catalog,
        .main = "installer.py",
        .argument = places ? "install" : NULL,
        .request = installs->request,
        .request_size = installs->request ? strlen(installs->request) : 0,
        .egress = fetches && installs->sources.count > 0 ? &installs->egress : NULL,
        .cache = fetches,
        .find_links = fetches ? config->find_links : NULL,
        .constraint = fetches ? config->constraint : NULL,
        .cert = fetches ? config->index_cert : NULL,
        .time_limit_ms = LIMIT_INSTALL_STEP_MS,
    };
    return box_installer_start(packages_of(installs), &installs->specs[places],
                               &installer_events[places], installs, ret_installer, ret_fail);
}

/* Whether a step's sandbox may run beside another's: no build does, which runs foreign code, and
 * without namespaces all have one uid. */
static bool starts_early(const struct installs *installs)
{
    return !installs->sources.config->allow_sdist &&
           !server_box_spec(installs->server_box)->scratch;
}

static void run_step(struct installs *installs, enum install_step step)
{
    struct fail fail = {};
    installs->step = step;
    json_decref(take_ptr(installs->reply));
    char *request = compose_request(installs, step);
    if (!request) {
        fail_with(installs, INSTALL_OTHER, "The server is out of memory");
        return;
    }
    if (step == INSTALL_FETCH && starts_early(installs) &&
        start_step(installs, INSTALL_PLACE, &installs->early, &fail) < 0) {
        log_debug("tools", "install: %s", fail_text(&fail));
    }
    installs->request = request;
    if (step == INSTALL_PLACE && installs->early) {
        installs->installer = take_ptr(installs->early);
        installs->specs[1].request = request;
        installs->specs[1].request_size = strlen(request);
        box_installer_request(installs->installer);
        return;
    }
    if (start_step(installs, step, &installs->installer, &fail) < 0) {
        free(take_ptr(installs->request));
        fail_with(installs, INSTALL_UNAVAILABLE, "%s", fail_text(&fail));
    }
}

/* --- the queue --- */

struct install_op *install_op_new(json_t *packages)
{
    struct install_op *op = packages ? calloc(1, sizeof *op) : NULL;
    if (!op) {
        json_decref(packages);
        return NULL;
    }
    op->packages = packages;
    return op;
}

void install_op_free(struct install_op *op)
{
    if (op) {
        json_decref(op->packages);
        json_decref(op->report.fetched);
        json_decref(op->report.installed);
        free(op);
    }
}

static void add_host(void *arg, const char *word)
{
    struct installs *installs = arg;
    struct fail fail = {};
    if (egress_policy_add(&installs->egress, word, &fail) < 0) {
        log_warn("tools", "install: %s", fail_text(&fail));
    }
}

int installs_new(struct loop *loop, struct server_box *server_box,
                 const struct install_config *config, struct overflows *overflows,
                 struct record *record, struct installs **ret_installs)
{
    struct installs *installs = calloc(1, sizeof *installs);
    if (!installs) {
        return -ENOMEM;
    }
    installs->loop = loop;
    installs->server_box = server_box;
    installs->overflows = overflows;
    installs->record = record;
    install_sources_read(config, &installs->sources);
    installs->egress.flag = "--index-host";
    installs->egress.any_address = true; /* an index or its mirror may be in the user's network */
    install_sources_hosts(&installs->sources, add_host, installs);
    *ret_installs = installs;
    return 0;
}

void installs_free(struct installs *installs)
{
    if (!installs) {
        return;
    }
    box_installer_free(installs->installer);
    box_installer_free(installs->early);
    overflow_free(installs->overflow);
    loop_task_cancel(&installs->task);
    struct install_op *op = installs->current;
    if (op) {
        op->next = installs->queue;
    } else {
        op = installs->queue;
    }
    while (op) {
        struct install_op *next = op->next;
        op->cancelled = true;
        op->on_done(op->arg, op);
        op = next;
    }
    installs_clear(installs);
    free(installs->request);
    free(installs);
}

const struct install_config *installs_config(const struct installs *installs)
{
    return installs->sources.config;
}

const char *installs_source(const struct installs *installs, char *out, size_t size)
{
    return install_sources_describe(&installs->sources, out, size);
}

static void begin(void *arg)
{
    struct installs *installs = arg;
    if (installs->current || !installs->queue) {
        return;
    }
    installs->current = installs->queue;
    installs->queue = installs->current->next;
    installs->queued--;
    installs->started_ns = clock_now_ns();
    box_packages_discard(packages_of(installs));
    run_step(installs, INSTALL_FETCH);
}

int installs_add(struct installs *installs, struct install_op *op)
{
    if (installs->queued == LIMIT_INSTALL_QUEUE) {
        return -EBUSY;
    }
    list_append(&installs->queue, op);
    installs->queued++;
    loop_task_queue(installs->loop, &installs->task, begin, installs);
    return 0;
}

void installs_cancel(struct installs *installs, struct install_op *op)
{
    if (installs->current == op) {
        op->cancelled = true;
        if (installs->installer) {
            box_installer_cancel(installs->installer);
        }
    } else if (list_remove(&installs->queue, op)) {
        installs->queued--;
        op->cancelled = true;
        op->on_done(op->arg, op);
    }
}
