/* Installers are sandboxes of their own, which user code never sees:
 *
 *   FETCH ──► PLACE ──► a new layer
 *     ▲ │ source archives
 *     └─ BUILD
 *
 * FETCH reaches the index through the egress proxy and runs no package's code. BUILD runs a
 * package's own build and PLACE unpacks, both without any network. This file checks their replies:
 * the policy once more for every dependency, and box_packages_commit() for the staging directory.
 * Until then, nothing that the sessions see has changed. */
#include "tools/install/install_steps.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "guest/guest.h"
#include "tools/install/install_policy.h"
#include "tools/install/requirement.h"

/* Where nothing was to be done, the log tells nothing. */
static void finish(struct installs *installs)
{
    struct install_op *op = installs->current;
    bool has_changed = op->report.failure || op->report.installed;
    box_installer_free(take_ptr(installs->early));
    if (op->cancelled || !has_changed) {
        installs_done(installs, NULL, 0);
        return;
    }
    install_sources_redact(&installs->sources, op->report.message, strlen(op->report.message));
    install_log_save(&installs->log, &installs->sources, installs->overflows, &installs->overflow,
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
    box_packages_discard(server_box_packages(installs->server_box));
    finish(installs);
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
                      "too many packages must be built from source");
        } else if (builds) {
            installs_run_step(installs, INSTALL_BUILD);
        } else if (json_array_size(json_object_get(report->fetched, "to_install")) > 0) {
            installs_run_step(installs, INSTALL_PLACE);
        } else {
            box_packages_discard(server_box_packages(installs->server_box));
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
    /* By the names from FETCH's reply: a build may write and reply anything. */
    (void)json_array_extend(installs->built,
                            json_object_get(installs->current->report.fetched, "to_build"));
    installs_run_step(installs, INSTALL_FETCH);
}

static void after_place(struct installs *installs)
{
    struct install_report *report = &installs->current->report;
    struct box_packages_layer layer = {};
    struct fail fail = {};
    report->installed = take_ptr(installs->reply);
    if (!json_is_true(json_object_get(report->installed, "ok"))) {
        fail_by_reply(installs, report->installed);
        return;
    }
    int r = box_packages_commit(server_box_packages(installs->server_box), &layer, &fail);
    if (r < 0) {
        bool full = r == -EDQUOT || r == -ENOSPC;
        fail_with(installs, full ? INSTALL_DISK : INSTALL_OTHER, "%s", fail_text(&fail));
        return;
    }
    log_info("tools", "install: layer %u, %llu bytes in %llu files", layer.number,
             (unsigned long long)layer.bytes, (unsigned long long)layer.files);
    finish(installs);
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
    install_log_add(&installs->log, bytes, size);
}

static void on_egress(void *arg, const struct egress_event *event)
{
    struct installs *installs = arg;
    if (event->kind == EGRESS_ALLOWED) {
        return;
    }
    (void)snprintf(installs->refused, sizeof installs->refused, "%s", event->text);
    install_log_add(&installs->log, event->text, strlen(event->text));
    install_log_add(&installs->log, "\n", 1);
}

static void on_end(void *arg, const struct box_installer_end *end)
{
    struct installs *installs = arg;
    installs->installer = NULL;
    free(take_ptr(installs->request));
    if (installs->current->cancelled) {
        box_packages_discard(server_box_packages(installs->server_box));
        finish(installs);
    } else if (end->outcome != BOX_INSTALLER_EXITED || !installs->reply) {
        fail_by_end(installs, end);
    } else if (installs->step == INSTALL_FETCH) {
        after_fetch(installs);
    } else if (installs->step == INSTALL_BUILD) {
        after_build(installs);
    } else {
        after_place(installs);
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
    const struct box_packages *packages = server_box_packages(installs->server_box);
    const struct install_op *op = installs->current;
    struct install_input input = {
        .packages = op->packages,
        .upgrade = op->upgrade,
        .layers = box_packages_layers(packages),
        .layers_path = box_packages_path(packages),
        .bytes_most = spec->packages_bytes,
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
    return box_installer_start(server_box_packages(installs->server_box), &installs->specs[places],
                               &installer_events[places], installs, ret_installer, ret_fail);
}

/* Whether a step's sandbox may run beside another's: no build does, which runs foreign code, and
 * without namespaces all have one uid. */
static bool starts_early(const struct installs *installs)
{
    return !installs->sources.config->allow_sdist &&
           !server_box_spec(installs->server_box)->scratch;
}

void installs_run_step(struct installs *installs, enum install_step step)
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
