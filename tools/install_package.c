#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "sandbox/sandbox.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/content/content.h"
#include "tools/install/install.h"
#include "tools/install/install_request.h"
#include "tools/session/session.h"

/* Connects an install with its call, from the user's approval on. */
struct install_call {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct install_op *op; /* its own until it is queued */
    uint64_t since_ns;
    struct loop_timer heartbeat; /* with a progress token */
    char doing[200];
};

/* In the structured form the text is the same object, for clients that read only text. */
static void end(struct rpc_call *call, const struct install_report *report)
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
    json_t *content = json_pack("[o]", content_text(buf_bytes(shown), buf_size(shown)));
    rpc_call_result(call, content, structured, report->failure != INSTALL_DONE);
}

static void install_package_done(void *arg, struct install_op *op)
{
    struct install_call *own = arg;
    struct rpc_call *call = own->call;
    loop_timer_disarm(&own->heartbeat);
    rpc_call_set_data(call, NULL);
    free(own);
    if (op->cancelled) {
        content_refuse(call, "The install was cancelled; nothing has changed.");
    } else {
        end(call, &op->report);
    }
    install_op_free(op);
}

static void install_package_beat(void *arg)
{
    struct install_call *own = arg;
    char text[256];
    double seconds = (double)(clock_now_ns() - own->since_ns) / (1000.0 * CLOCK_NS_PER_MS);
    (void)snprintf(text, sizeof text, "%.0f s: %s", seconds, own->doing);
    rpc_call_progress(own->call, seconds, text);
    loop_timer_in(own->tools->loop, &own->heartbeat, LIMIT_PROGRESS_EVERY_MS, install_package_beat,
                  own);
}

static void install_package_progress(void *arg, const char *text)
{
    struct install_call *own = arg;
    (void)snprintf(own->doing, sizeof own->doing, "%s", text);
    if (own->heartbeat.loop) {
        install_package_beat(own);
    }
}

/* Checks all requirements before the install begins. Returns whether all are valid; if not, ends
 * the call with all violations. */
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
            static const char head[] = "The arguments of install_package are not valid:\n";
            (void)buf_appendf(&wrong, "%s- /packages/%zu: %s\n", buf_size(&wrong) ? "" : head, i,
                              text);
        } else if (install_policy_refusal(config, name, text, sizeof text)) {
            (void)buf_appendf(&blocked, "%s%s", buf_size(&blocked) ? "; " : "", text);
        }
    }
    if (buf_size(&wrong) > 0) {
        content_result(call, buf_bytes(&wrong), buf_size(&wrong), true);
        return false;
    }
    if (buf_size(&blocked) > 0) {
        struct install_report report = {.failure = INSTALL_BLOCKED};
        (void)snprintf(report.message, sizeof report.message, "%.*s", (int)buf_size(&blocked),
                       buf_bytes(&blocked));
        end(call, &report);
        return false;
    }
    return true;
}

static void install_package_cancel(struct tool_work *work)
{
    struct install_call *own = (struct install_call *)work;
    installs_cancel(own->tools->installs, own->op);
}

static void install_call_free(struct install_call *own)
{
    install_op_free(own->op);
    free(own);
}

/* Queues the install, whose requirements are valid. */
static void begin(struct install_call *own)
{
    struct tools *tools = own->tools;
    struct rpc_call *call = own->call;
    if (installs_add(tools->installs, own->op) < 0) {
        install_call_free(own);
        content_refuse(call,
                       "Busy: %u installs are waiting, which is the limit. Wait for their results.",
                       LIMIT_INSTALL_QUEUE);
        return;
    }
    rpc_call_set_data(call, own);
    if (rpc_call_wants_progress(call)) {
        loop_timer_in(tools->loop, &own->heartbeat, LIMIT_PROGRESS_FIRST_MS, install_package_beat,
                      own);
    }
}

/* --- --install ask --- */

static void responded(void *arg, enum consent_outcome outcome, const char *why, const json_t *)
{
    struct install_call *own = arg;
    if (outcome == CONSENT_GIVEN) {
        begin(own);
        return;
    }
    if (outcome == CONSENT_REFUSED) {
        struct install_report report = {.failure = INSTALL_BLOCKED};
        (void)snprintf(report.message, sizeof report.message, "%s", why);
        end(own->call, &report);
    } else if (outcome == CONSENT_GONE) {
        rpc_call_fail(own->call, RPC_INTERNAL_ERROR, "the call did not start");
    }
    install_call_free(own);
}

static void ask(struct install_call *own)
{
    OWNED(buf_done) struct buf names = BUF_EMPTY;
    OWNED(buf_done) struct buf message = BUF_EMPTY;
    char source[300];
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (own->op->packages, i, item) {
        char shown[REQUIREMENT_BYTES];
        (void)buf_appendf(&names, "%s%s", i > 0 ? ", " : "",
                          requirement_show(json_string_value(item), shown));
    }
    (void)buf_appendf(&message, "Install %s into the sandbox, from %s?", buf_text(&names),
                      installs_source(own->tools->installs, source, sizeof source));
    if (buf_error(&names) || buf_error(&message)) {
        rpc_call_fail(own->call, RPC_INTERNAL_ERROR, "out of memory");
        install_call_free(own);
        return;
    }
    const struct consent consent = {.kind = "install",
                                    .subject = buf_text(&names),
                                    .message = buf_text(&message),
                                    .always = "Also install other packages without asking",
                                    .flag = "--install on"};
    consents_ask(own->tools->consents, own->call, &consent, responded, own);
}

void install_package_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const struct install_config *config = installs_config(tools->installs);
    const json_t *packages = json_object_get(arguments, "packages");
    if (!check(config, call, packages)) {
        return;
    }
    sessions_preinstall(tools->sessions); /* before this one, if it has not begun */
    struct install_call *own = calloc(1, sizeof *own);
    struct install_op *op = install_op_new(json_deep_copy(packages));
    if (!own || !op) {
        free(own);
        install_op_free(op);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *own = (struct install_call){.work.cancel = install_package_cancel,
                                 .tools = tools,
                                 .call = call,
                                 .op = op,
                                 .since_ns = rpc_call_since_ns(call)};
    (void)snprintf(own->doing, sizeof own->doing, "waiting for the installer");
    op->upgrade = json_is_true(json_object_get(arguments, "upgrade"));
    op->on_done = install_package_done;
    op->on_progress = install_package_progress;
    op->arg = own;
    if (config->mode == INSTALL_ASK) {
        ask(own);
    } else {
        begin(own);
    }
}
