/* An install is carried out in boxes of its own, which user code never sees:
 *
 *   FETCH ──► PLACE ──► a new layer
 *     ▲ │ sources among it
 *     └─ BUILD
 *
 * FETCH reaches the index through the broker and runs no package's code; BUILD runs a package's own build
 * and PLACE unpacks, both without any network. What they reply is judged here: the policy once more for all
 * that came in as a dependency, and box_packages_commit() for what they have put together. Until that, nothing
 * that the sessions see has changed. */
#include "tools/install.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "guest/guest.h"
#include "sandbox/sandbox.h"
#include "tools/install_log.h"
#include "tools/install_policy.h"
#include "tools/install_request.h"
#include "tools/workspace.h"

struct installs {
    struct loop *loop;
    struct workspace *workspace;
    struct spills *spills;
    struct install_sources sources;
    struct egress_policy egress;
    struct install_job *current;
    struct install_job *queue;
    unsigned queued;
    struct loop_task task; /* begins the next one outside of the caller */

    /* of the current one */
    uint64_t started_ns;
    enum install_step step;
    unsigned rounds; /* of building */
    struct box_errand *errand;
    struct box_errand_spec errand_spec; /* what it borrows */
    char *request;
    json_t *reply;                   /* the last line that is none of progress */
    json_t *built;                   /* by BUILD so far */
    char refused[EGRESS_TEXT_BYTES]; /* what the broker has refused last */
    struct install_log log;
    struct spill *spill; /* the log on its way to a file */
};

struct install_job *install_job_new(json_t *packages)
{
    struct install_job *job = packages ? calloc(1, sizeof *job) : NULL;
    if (!job) {
        json_decref(packages);
        return NULL;
    }
    job->packages = packages;
    return job;
}

void install_job_free(struct install_job *job)
{
    if (job) {
        json_decref(job->packages);
        json_decref(job->report.fetched);
        json_decref(job->report.installed);
        free(job);
    }
}

static void add_host(void *arg, const char *word)
{
    struct installs *installs = arg;
    struct fail fail = {};
    if (egress_policy_add(&installs->egress, word, &fail) < 0) {
        char text[FAIL_TEXT + 128];
        log_warn("tools", "install: %s", fail_describe(&fail, text, sizeof text));
    }
}

int installs_new(struct loop *loop, struct workspace *workspace,
                 const struct install_config *config, struct spills *spills,
                 struct installs **ret_installs, struct fail *ret_fail)
{
    struct installs *installs = calloc(1, sizeof *installs);
    if (!installs) {
        return fail_set(ret_fail, ENOMEM, "packages");
    }
    installs->loop = loop;
    installs->workspace = workspace;
    installs->spills = spills;
    int r = install_sources_read(config, &installs->sources, ret_fail);
    if (r < 0) {
        free(installs);
        return r;
    }
    installs->egress.flag = "--index-host";
    install_sources_hosts(&installs->sources, add_host, installs);
    *ret_installs = installs;
    return 0;
}

/* What one install leaves behind for the next. */
static void installs_clear(struct installs *installs)
{
    json_decref(take_ptr(installs->reply));
    json_decref(take_ptr(installs->built));
    install_log_done(&installs->log);
    installs->refused[0] = '\0';
    installs->rounds = 0;
}

void installs_free(struct installs *installs)
{
    if (!installs) {
        return;
    }
    box_errand_free(installs->errand);
    spill_free(installs->spill);
    loop_task_cancel(&installs->task);
    struct install_job *job = installs->current;
    if (job) {
        job->next = installs->queue;
    } else {
        job = installs->queue;
    }
    while (job) {
        struct install_job *next = job->next;
        job->cancelled = true;
        job->on_done(job->arg, job);
        job = next;
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

/* --- the end of an install --- */

static void installs_begin(void *arg);

static void installs_done(void *arg, const char *path, uint64_t size)
{
    struct installs *installs = arg;
    struct install_job *job = installs->current;
    (void)size;
    installs->spill = NULL;
    (void)snprintf(job->report.log, sizeof job->report.log, "%s", path ? path : "");
    job->report.duration_ns = clock_now_ns() - installs->started_ns;
    installs_clear(installs);
    installs->current = NULL;
    loop_task_queue(installs->loop, &installs->task, installs_begin, installs);
    job->on_done(job->arg, job);
}

static void finish(struct installs *installs)
{
    struct install_job *job = installs->current;
    if (job->cancelled) {
        installs_done(installs, NULL, 0);
        return;
    }
    install_sources_redact(&installs->sources, job->report.message, strlen(job->report.message));
    install_log_save(&installs->log, &installs->sources, installs->spills, &installs->spill,
                     installs_done, installs);
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
    box_packages_discard(workspace_packages(installs->workspace));
    finish(installs);
}

/* A reply that says why it could not be. What the broker has refused is the reason of most of what an
 * installer finds unreachable, and says which flag would help. */
static void fail_by_reply(struct installs *installs, const json_t *reply)
{
    enum install_failure failure = install_failure_of(reply);
    const char *message = json_string_value(json_object_get(reply, "message"));
    const char *refused = installs->refused;
    bool network = failure == INSTALL_UNREACHABLE || failure == INSTALL_BLOCKED;
    bool told = !network || !refused[0] || (message && strstr(message, refused));
    /* The installer has read what packages and indexes say, and may have run what a package brought. */
    char words[sizeof installs->current->report.message];
    char quoted[WORD_PHRASE + 1];
    (void)snprintf(words, sizeof words, "%s%s%s", message ? message : "", told ? "" : " ",
                   told ? "" : refused);
    install_sources_redact(&installs->sources, words, strlen(words));
    fail_with(installs, failure, "%s",
              words[0] ? word_quote(words, strlen(words), quoted, sizeof quoted) : "");
}

/* The step's box has ended without the reply that it owes. */
static void fail_by_end(struct installs *installs, const struct box_errand_end *end)
{
    char text[FAIL_TEXT + 128];
    unsigned long long used = end->used_bytes >> 20;
    unsigned long long limit = end->limit_bytes >> 20;
    if (end->outcome == BOX_ERRAND_OOM || end->out_of_memory) {
        fail_with(installs, INSTALL_MEMORY, "The installer needs more than its %llu MiB", limit);
        return;
    }
    switch (end->outcome) {
    case BOX_ERRAND_DISK:
        fail_with(installs, INSTALL_DISK,
                  "What was to be installed takes %llu of %llu MiB and more", used, limit);
        break;
    case BOX_ERRAND_TIMEOUT:
        fail_with(installs, INSTALL_TIMEOUT, "The installer was ended after %u s",
                  LIMIT_INSTALL_STEP_MS / 1000);
        break;
    case BOX_ERRAND_NO_BOX:
        fail_with(installs, INSTALL_UNAVAILABLE, "%s",
                  end->why ? fail_describe(end->why, text, sizeof text) : "there is no sandbox");
        break;
    case BOX_ERRAND_SIGNAL:
        fail_with(installs, INSTALL_OTHER, "It was ended by signal %d", end->code);
        break;
    case BOX_ERRAND_EXITED:
        fail_with(installs, INSTALL_OTHER, "It ended with status %d and without a word", end->code);
        break;
    case BOX_ERRAND_OOM:
    case BOX_ERRAND_CANCELLED:
    case BOX_ERRAND_LOST:
    default:
        fail_with(installs, INSTALL_OTHER, "It did not keep to the protocol");
        break;
    }
}

/* --- the steps --- */

static void run_step(struct installs *installs, enum install_step step);

/* Whether all names of array key may be installed; else the install has failed. */
static bool is_allowed(struct installs *installs, const json_t *reply, const char *key)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(reply, key), i, item) {
        char text[256];
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name) {
            fail_with(installs, INSTALL_OTHER, "It named something without a name");
            return false;
        }
        if (install_policy_refusal(installs->sources.config, name, text, sizeof text)) {
            bool requested = json_is_true(json_object_get(item, "requested"));
            fail_with(installs, INSTALL_BLOCKED, "%s%s", text,
                      requested ? "" : "; what was asked for needs it");
            return false;
        }
    }
    return true;
}

static void after_fetch(struct installs *installs)
{
    struct install_report *report = &installs->current->report;
    json_decref(report->fetched);
    report->fetched = take_ptr(installs->reply);
    bool builds = json_array_size(json_object_get(report->fetched, "to_build")) > 0;
    if (!json_is_true(json_object_get(report->fetched, "ok"))) {
        fail_by_reply(installs, report->fetched);
    } else if (is_allowed(installs, report->fetched, "to_install") &&
               is_allowed(installs, report->fetched, "to_build")) {
        if (builds && (!installs->sources.config->allow_sdist ||
                       installs->rounds++ == LIMIT_INSTALL_ROUNDS)) {
            fail_with(installs, INSTALL_BUILD_FAILED,
                      "Too much would have to be built from source");
        } else if (builds) {
            run_step(installs, INSTALL_BUILD);
        } else if (json_array_size(json_object_get(report->fetched, "to_install")) > 0) {
            run_step(installs, INSTALL_PLACE);
        } else {
            box_packages_discard(workspace_packages(installs->workspace));
            finish(installs);
        }
    }
}

static void after_build(struct installs *installs)
{
    json_auto_t *reply = take_ptr(installs->reply);
    if (!json_is_true(json_object_get(reply, "ok"))) {
        fail_by_reply(installs, reply);
        return;
    }
    if (!installs->built) {
        installs->built = json_array();
    }
    /* By the names that FETCH gave: a build may write and say what it likes. */
    (void)json_array_extend(installs->built,
                            json_object_get(installs->current->report.fetched, "to_build"));
    run_step(installs, INSTALL_FETCH);
}

static void after_place(struct installs *installs)
{
    struct install_report *report = &installs->current->report;
    struct box_layer_made layer = {};
    struct fail fail = {};
    char text[FAIL_TEXT + 128];
    report->installed = take_ptr(installs->reply);
    if (!json_is_true(json_object_get(report->installed, "ok"))) {
        fail_by_reply(installs, report->installed);
        return;
    }
    int r = box_packages_commit(workspace_packages(installs->workspace), &layer, &fail);
    if (r < 0) {
        bool full = r == -EDQUOT || r == -ENOSPC;
        fail_with(installs, full ? INSTALL_DISK : INSTALL_OTHER, "%s",
                  fail_describe(&fail, text, sizeof text));
        return;
    }
    log_info("tools", "install: layer %u, %llu bytes in %llu files", layer.number,
             (unsigned long long)layer.bytes, (unsigned long long)layer.files);
    finish(installs);
}

static void on_line(void *arg, const char *line, size_t size)
{
    struct installs *installs = arg;
    struct install_job *job = installs->current;
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    const char *progress = json_string_value(json_object_get(object, "progress"));
    if (progress) {
        char words[160];
        char text[200];
        (void)snprintf(words, sizeof words, "%s", progress);
        install_sources_redact(&installs->sources, words, strlen(words));
        (void)word_quote(words, strlen(words), text, sizeof text);
        if (job->on_progress && !job->cancelled) {
            job->on_progress(job->arg, text);
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
    install_log_add(&installs->log, bytes, size);
}

static void on_egress(void *arg, const struct egress_event *event)
{
    struct installs *installs = arg;
    (void)snprintf(installs->refused, sizeof installs->refused, "%s", event->text);
    install_log_add(&installs->log, event->text, strlen(event->text));
    install_log_add(&installs->log, "\n", 1);
}

static void on_end(void *arg, const struct box_errand_end *end)
{
    struct installs *installs = arg;
    installs->errand = NULL;
    free(take_ptr(installs->request));
    if (installs->current->cancelled) {
        box_packages_discard(workspace_packages(installs->workspace));
        finish(installs);
    } else if (end->outcome != BOX_ERRAND_EXITED || !installs->reply) {
        fail_by_end(installs, end);
    } else if (installs->step == INSTALL_FETCH) {
        after_fetch(installs);
    } else if (installs->step == INSTALL_BUILD) {
        after_build(installs);
    } else {
        after_place(installs);
    }
}

static const struct box_errand_events errand_events = {
    .on_line = on_line, .on_log = on_log, .on_egress = on_egress, .on_end = on_end};

/* New: the request as text; NULL when there is no memory. */
static char *compose_request(const struct installs *installs, enum install_step step)
{
    const struct box_spec *spec = workspace_spec(installs->workspace);
    const struct box_packages *packages = workspace_packages(installs->workspace);
    const struct install_job *job = installs->current;
    struct install_wish wish = {
        .packages = job->packages,
        .upgrade = job->upgrade,
        .layers = box_packages_layers(packages),
        .layers_path = box_packages_path(packages),
        .bytes_most = spec->packages_bytes,
        .fetched = job->report.fetched,
        .built = installs->built,
    };
    json_auto_t *request = install_request(&installs->sources, step, &wish);
    return request ? json_dumps(request, JSON_COMPACT) : NULL;
}

static void run_step(struct installs *installs, enum install_step step)
{
    const struct install_config *config = installs->sources.config;
    struct fail fail = {};
    char text[FAIL_TEXT + 128];
    bool fetches = step == INSTALL_FETCH;
    installs->step = step;
    json_decref(take_ptr(installs->reply));
    installs->request = compose_request(installs, step);
    if (!installs->request) {
        fail_with(installs, INSTALL_OTHER, "The server is out of memory");
        return;
    }
    installs->errand_spec = (struct box_errand_spec){
        .program = installer_catalog,
        .main = "installer.py",
        .request = installs->request,
        .request_size = strlen(installs->request),
        .egress = fetches && installs->sources.count > 0 ? &installs->egress : NULL,
        .cache = fetches,
        .find_links = fetches ? config->find_links : NULL,
        .constraint = fetches ? config->constraint : NULL,
        .cert = fetches ? config->index_cert : NULL,
        .time_limit_ms = LIMIT_INSTALL_STEP_MS,
    };
    int r = box_errand_start(workspace_packages(installs->workspace), &installs->errand_spec,
                             &errand_events, installs, &installs->errand, &fail);
    if (r < 0) {
        free(take_ptr(installs->request));
        fail_with(installs, INSTALL_UNAVAILABLE, "%s", fail_describe(&fail, text, sizeof text));
    }
}

/* --- the queue --- */

static void installs_begin(void *arg)
{
    struct installs *installs = arg;
    if (installs->current || !installs->queue) {
        return;
    }
    installs->current = installs->queue;
    installs->queue = installs->current->next;
    installs->queued--;
    installs->started_ns = clock_now_ns();
    box_packages_discard(workspace_packages(installs->workspace));
    run_step(installs, INSTALL_FETCH);
}

int installs_add(struct installs *installs, struct install_job *job)
{
    struct install_job **at = &installs->queue;
    if (installs->queued == LIMIT_INSTALL_QUEUE) {
        return -EBUSY;
    }
    while (*at) {
        at = &(*at)->next;
    }
    job->next = NULL;
    *at = job;
    installs->queued++;
    loop_task_queue(installs->loop, &installs->task, installs_begin, installs);
    return 0;
}

void installs_cancel(struct installs *installs, struct install_job *job)
{
    struct install_job **at = &installs->queue;
    if (installs->current == job) {
        job->cancelled = true;
        if (installs->errand) {
            box_errand_cancel(installs->errand);
        }
        return;
    }
    while (*at && *at != job) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = job->next;
        installs->queued--;
        job->cancelled = true;
        job->on_done(job->arg, job);
    }
}
