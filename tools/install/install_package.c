#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "rpc/text.h"
#include "sandbox/sandbox.h"
#include "tools/content.h"
#include "tools/install.h"
#include "tools/install_policy.h"
#include "tools/requirement.h"
#include "tools/tool.h"

/* An install's way back to its call. */
struct install_call {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct install_job *job;
    uint64_t since_ns;
    struct loop_timer heartbeat; /* with a progress token */
    char doing[200];
};

/* In the structured form the text is the same object, for hosts that read only text. */
static void answer(struct rpc_call *call, const struct install_report *report)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    OWNED(buf_done) struct buf dump = BUF_EMPTY;
    json_t *structured = NULL;
    if (install_text_compose(report, &text) < 0) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    if (rpc_call_wants_structured(call)) {
        structured = install_text_structured(report, buf_bytes(&text), buf_size(&text));
    }
    bool dumped = structured && rpc_text_show(&dump, structured) == 0;
    const struct buf *shown = dumped ? &dump : &text;
    json_t *content = json_array();
    if (content &&
        json_array_append_new(content, content_text(buf_bytes(shown), buf_size(shown))) < 0) {
        json_decref(content);
        content = NULL;
    }
    rpc_call_result(call, content, structured, report->failure != INSTALL_DONE);
}

static void install_package_done(void *arg, struct install_job *job)
{
    struct install_call *own = arg;
    struct rpc_call *call = own->call;
    loop_timer_disarm(&own->heartbeat);
    rpc_call_set_data(call, NULL);
    free(own);
    if (job->cancelled) {
        content_refuse(call, "The install was cancelled; nothing has changed.");
    } else {
        answer(call, &job->report);
    }
    install_job_free(job);
}

static void install_package_beat(void *arg)
{
    struct install_call *own = arg;
    char text[256];
    uint64_t now_ns = clock_now_ns();
    double seconds = (double)(now_ns - own->since_ns) / (1000.0 * CLOCK_NS_PER_MS);
    (void)snprintf(text, sizeof text, "%.0f s: %s", seconds, own->doing);
    rpc_call_progress(own->call, seconds, text);
    loop_timer_arm(own->tools->loop, &own->heartbeat,
                   now_ns + LIMIT_PROGRESS_EVERY_MS * CLOCK_NS_PER_MS, install_package_beat, own);
}

static void install_package_progress(void *arg, const char *text)
{
    struct install_call *own = arg;
    (void)snprintf(own->doing, sizeof own->doing, "%s", text);
    if (own->heartbeat.loop) {
        install_package_beat(own);
    }
}

/* Checks all requirements before anything is begun. Returns whether they can be tried; else the call is
 * answered, with all that is wrong. */
static bool check(const struct install_config *config, struct rpc_call *call,
                  const json_t *packages)
{
    OWNED(buf_done) struct buf wrong = BUF_EMPTY;
    OWNED(buf_done) struct buf blocked = BUF_EMPTY;
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (packages, i, item) {
        char name[REQUIREMENT_NAME_BYTES];
        char text[REQUIREMENT_TEXT_BYTES];
        if (requirement_check(json_string_value(item), json_string_length(item), name, text)) {
            (void)buf_appendf(&wrong, "- /packages/%zu: %s\n", i, text);
        } else if (install_policy_refusal(config, name, text, sizeof text)) {
            (void)buf_appendf(&blocked, "%s%s", buf_size(&blocked) ? "; " : "", text);
        }
    }
    if (buf_size(&wrong) > 0) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        (void)buf_append_text(&text, "The arguments of install_package are not valid:\n");
        (void)buf_append(&text, buf_bytes(&wrong), buf_size(&wrong));
        content_answer(call, buf_bytes(&text), buf_size(&text), true);
        return false;
    }
    if (buf_size(&blocked) > 0) {
        struct install_report report = {.failure = INSTALL_BLOCKED};
        (void)snprintf(report.message, sizeof report.message, "%.*s", (int)buf_size(&blocked),
                       buf_bytes(&blocked));
        answer(call, &report);
        return false;
    }
    return true;
}

static void install_package_cancel(struct tool_work *work)
{
    struct install_call *own = (struct install_call *)work;
    installs_cancel(own->tools->installs, own->job);
}

/* Queues the install, whose requirements are good. packages: stolen. */
static void begin(struct tools *tools, struct rpc_call *call, json_t *packages, bool upgrade)
{
    struct install_call *own = calloc(1, sizeof *own);
    struct install_job *job = install_job_new(packages);
    if (!own || !job) {
        free(own);
        install_job_free(job);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *own = (struct install_call){.work.cancel = install_package_cancel,
                                 .tools = tools,
                                 .call = call,
                                 .job = job,
                                 .since_ns = clock_now_ns()};
    (void)snprintf(own->doing, sizeof own->doing, "waiting for the install before this one");
    job->upgrade = upgrade;
    job->on_done = install_package_done;
    job->on_progress = install_package_progress;
    job->arg = own;
    if (installs_add(tools->installs, job) < 0) {
        free(own);
        install_job_free(job);
        content_refuse(call, "Busy: %u installs wait, no more can. Wait for their answers.",
                       LIMIT_INSTALL_QUEUE);
        return;
    }
    rpc_call_set_data(call, own);
    if (rpc_call_wants_progress(call)) {
        loop_timer_arm(tools->loop, &own->heartbeat,
                       own->since_ns + LIMIT_PROGRESS_FIRST_MS * CLOCK_NS_PER_MS,
                       install_package_beat, own);
    }
}

/* --- --install ask --- */

struct install_question {
    struct tools *tools;
    struct rpc_call *call;
    json_t *packages;
    bool upgrade;
};

static void answered(void *arg, enum consent_outcome outcome, const char *why)
{
    struct install_question *question = arg;
    if (outcome == CONSENT_GIVEN) {
        begin(question->tools, question->call, take_ptr(question->packages), question->upgrade);
    } else if (outcome == CONSENT_REFUSED) {
        struct install_report report = {.failure = INSTALL_BLOCKED};
        (void)snprintf(report.message, sizeof report.message, "%s", why);
        answer(question->call, &report);
    } else if (outcome == CONSENT_GONE) {
        rpc_call_fail(question->call, RPC_INTERNAL_ERROR, "the call did not begin");
    }
    json_decref(question->packages);
    free(question);
}

/* packages: stolen. */
static void ask(struct tools *tools, struct rpc_call *call, json_t *packages, bool upgrade)
{
    struct install_question *question = calloc(1, sizeof *question);
    OWNED(buf_done) struct buf names = BUF_EMPTY;
    OWNED(buf_done) struct buf message = BUF_EMPTY;
    char source[300];
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (packages, i, item) {
        char shown[REQUIREMENT_BYTES];
        (void)buf_appendf(&names, "%s%s", i > 0 ? ", " : "",
                          requirement_show(json_string_value(item), shown));
    }
    (void)buf_append(&names, "", 1);
    (void)buf_appendf(&message, "Install %s into the sandbox, from %s?", buf_bytes(&names),
                      installs_source(tools->installs, source, sizeof source));
    if (!question || buf_append(&message, "", 1) < 0) {
        json_decref(packages);
        free(question);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *question = (struct install_question){tools, call, packages, upgrade};
    const struct consent consent = {.kind = "install",
                                    .subject = buf_bytes(&names),
                                    .message = buf_bytes(&message),
                                    .always = "Install other packages too without asking",
                                    .flag = "--install on"};
    consents_ask(&tools->consents, call, &consent, answered, question);
}

void install_package_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const struct install_config *config = installs_config(tools->installs);
    json_t *packages = json_object_get(arguments, "packages");
    bool upgrade = json_is_true(json_object_get(arguments, "upgrade"));
    if (!check(config, call, packages)) {
        return;
    }
    sessions_preinstall(tools->sessions); /* before this one, where it has not begun */
    if (config->mode == INSTALL_ASK) {
        ask(tools, call, json_deep_copy(packages), upgrade);
    } else {
        begin(tools, call, json_deep_copy(packages), upgrade);
    }
}
