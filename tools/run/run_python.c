#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "rpc/text.h"
#include "tools/files/content.h"
#include "tools/files/mounts.h"
#include "tools/files/resource_uri.h"
#include "tools/run/images.h"
#include "tools/run/structured.h"
#include "tools/tool.h"

/* A call from its run to its result. Between them the rest of a long output is written, then the
 * images are read; both wait for init. */
struct run_call {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct run *run;
    uint64_t since_ns;
    struct loop_timer heartbeat; /* with a progress token */
};

static void run_call_free(struct run_call *own)
{
    loop_timer_disarm(&own->heartbeat);
    run_free(own->run);
    free(own);
}

/* --- from a finished run to its result ---
 * run_python_done() waits for init to complete the overflow file, result_take_file() waits for init
 * to open the images, and result_send() ends the call. */

/* The text of a structured result is the same object, for clients that read only text. */
static json_t *structured_text(const struct run *run, const json_t *blocks, struct buf *text)
{
    json_t *structured = structured_run(run, json_array_size(blocks) > 0);
    if (structured && rpc_text_show(text, structured) < 0) {
        json_decref(structured);
        structured = NULL;
    }
    return structured;
}

/* Appends links to the files that the run has created or changed. */
static void append_links(const struct run_call *own, json_t *blocks)
{
    const char *size = run_next_item(own->run, RUN_FILE_SIZES, NULL);
    const char *kind = run_next_item(own->run, RUN_FILE_KINDS, NULL);
    unsigned count = 0;
    if (!rpc_call_wants_links(own->call)) {
        return;
    }
    for (const char *at = NULL;
         count < LIMIT_RESOURCE_LINKS && (at = run_next_item(own->run, RUN_FILES, at));) {
        uint64_t bytes = 0;
        bool is_file = (*at == '+' || *at == '~') && !(kind && *kind) && size &&
                       parse_u64(size, &bytes) == 0 && bytes < INT64_MAX;
        json_t *link = is_file ? resource_link(at + 1, bytes) : NULL;
        count += link && json_array_append_new(blocks, link) == 0;
        size = size ? run_next_item(own->run, RUN_FILE_SIZES, size) : NULL;
        kind = kind ? run_next_item(own->run, RUN_FILE_KINDS, kind) : NULL;
    }
}

static void result_send(void *arg, json_t *blocks)
{
    struct run_call *own = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_t *structured = NULL;
    if (rpc_call_wants_structured(own->call)) {
        structured = structured_text(own->run, blocks, &text);
    }
    if (!blocks || (!structured && run_compose(own->run, &text) < 0) ||
        json_array_insert_new(blocks, 0, content_text(buf_bytes(&text), buf_size(&text))) < 0) {
        json_decref(blocks);
        blocks = NULL; /* the result is an error */
    }
    if (blocks) {
        append_links(own, blocks);
    }
    rpc_call_result(own->call, blocks, structured, run_is_error(own->run));
    run_call_free(own);
}

static void result_take_file(void *arg, const char *path, uint64_t size)
{
    struct run_call *own = arg;
    struct run *run = own->run;
    struct output *outputs[] = {&run->output, &run->errors};
    bool whole = size >= run->output.total + run->errors.total;
    run->overflow = NULL;
    for (unsigned i = 0; path && i < 2; i++) {
        (void)snprintf(outputs[i]->file, sizeof outputs[i]->file, "%s", path);
        outputs[i]->file_size = whole ? outputs[i]->total : size;
    }
    images_take(own->tools->server_box, run->cancelled ? NULL : &run->parts[RUN_IMAGES],
                result_send, own);
}

/* Reports to the client how long the call has taken and what it printed last. */
static void run_python_beat(void *arg)
{
    struct run_call *own = arg;
    const struct run *run = own->run;
    uint64_t now_ns = clock_now_ns();
    uint64_t seconds = (now_ns - own->since_ns) / CLOCK_NS_PER_MS / 1000;
    char line[200];
    char printed[240];
    char text[sizeof run->doing + 24];
    (void)output_last_line(&run->output, line, sizeof line);
    const char *doing = run->doing[0] ? run->doing
                        : line[0]     ? word_quote(line, strlen(line), printed, sizeof printed)
                                      : "";
    (void)snprintf(text, sizeof text, "%u s%s%s", (unsigned)seconds, doing[0] ? ": " : "", doing);
    rpc_call_progress(own->call, (double)seconds, text);
    loop_timer_arm(own->tools->loop, &own->heartbeat,
                   now_ns + LIMIT_PROGRESS_EVERY_MS * CLOCK_NS_PER_MS, run_python_beat, own);
}

/* The client gets the instructions before there is a sandbox. The first result therefore reports
 * protections that the self-test found degraded later. */
static void report_degraded(struct tools *tools, struct run *run)
{
    unsigned degraded =
        box_report_degraded(server_box_report(tools->server_box)) & ~tools->degraded_reported;
    size_t used = 0;
    for (unsigned i = 0; degraded && i < BOX_PROTECTION_COUNT && used < sizeof run->weaker; i++) {
        if (degraded & 1U << i) {
            int size = snprintf(run->weaker + used, sizeof run->weaker - used, "%s%s",
                                used ? ", " : "", box_protection_name((enum box_protection)i));
            used += size > 0 ? (size_t)size : 0;
        }
    }
    tools->degraded_reported |= degraded;
}

/* Code does not know the host's paths of the user's directories, and a model may have used one. */
static void explain_paths(const struct tools *tools, struct run *run)
{
    char hint[2 * WORD_BYTES + 64];
    const struct run_text *type = &run->parts[RUN_ERROR_TYPE];
    const struct run_text *message = &run->parts[RUN_ERROR_MESSAGE];
    if (run->outcome == RUN_ERROR && type->data && message->data &&
        strcmp(type->data, "FileNotFoundError") == 0 &&
        data_explain(tools->config.spec, message->data, hint, sizeof hint)) {
        run_set_part(run, RUN_HINT, hint, strlen(hint));
    }
}

static void run_python_done(void *arg, struct run *run)
{
    struct run_call *own = arg;
    struct tools *tools = own->tools;
    loop_timer_disarm(&own->heartbeat);
    rpc_call_set_data(own->call, NULL); /* nothing is left to cancel */
    orders_set_cell(&tools->orders, own->call, run->cell);
    if (run->outcome == RUN_REFUSED) {
        content_refuse(own->call, "%s", run->text);
        run_call_free(own);
        return;
    }
    explain_paths(tools, run);
    if (!run->cancelled) {
        report_degraded(tools, run);
        server_box_protection(tools->server_box, run->protected_note, sizeof run->protected_note);
        server_box_protected_news(tools->server_box, run->protected_news,
                                  sizeof run->protected_news);
        egress_consent_note(tools, own->call, run);
    }
    overflow_finish(run->overflow, result_take_file, own);
}

static void set_timeout(struct run *run, const struct tools *tools, const json_t *arguments)
{
    const json_t *timeout = json_object_get(arguments, "timeout_s");
    double ms = json_number_value(timeout) * 1000;
    run->clamped = timeout && ms > (double)tools->config.max_timeout_ms;
    run->timeout_ms = !timeout       ? tools->config.timeout_ms
                      : run->clamped ? tools->config.max_timeout_ms
                                     : (uint64_t)ms;
}

/* The schema bounds its length. */
static void copy_name(char *out, size_t size, const json_t *name)
{
    (void)snprintf(out, size, "%s", name ? json_string_value(name) : "");
}

/* Why the arguments exclude each other, as a sentence; NULL: they do not. */
static const char *contradiction(const json_t *arguments)
{
    bool undo = json_is_true(json_object_get(arguments, "undo"));
    bool restore = json_object_get(arguments, "restore") != NULL;
    bool save = json_object_get(arguments, "checkpoint") != NULL;
    bool fresh = json_is_true(json_object_get(arguments, "fresh"));
    bool reset = json_is_true(json_object_get(arguments, "reset"));
    if (fresh && (undo || restore || save)) {
        return "A fresh run keeps no state: fresh cannot be combined with undo, restore or "
               "checkpoint.";
    }
    if (undo + restore + reset > 1) {
        return "undo, restore and reset each choose the initial state: send only one of them.";
    }
    if (json_object_get(arguments, "drop") && (fresh || undo + restore + reset > 0)) {
        return "drop cannot be combined with undo, restore, reset or fresh: drop the name in a "
               "call of its own.";
    }
    return NULL;
}

/* error: of sessions_run(). */
static void refuse(struct rpc_call *call, int error)
{
    if (error == -EMFILE) {
        content_refuse(call, "Too many sessions: at most %u can be open. Use an existing session.",
                       LIMIT_SESSIONS);
    } else {
        content_refuse(call, "The server is out of memory.");
    }
}

static void run_python_cancel(struct tool_work *work)
{
    struct run_call *own = (struct run_call *)work;
    sessions_cancel(own->tools->sessions, own->run);
}

static void run_python_begin(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    struct run *run =
        run_new_from(json_object_get(arguments, "code"), json_object_get(arguments, "stdin"));
    struct run_call *own = calloc(1, sizeof *own);
    if (!run || !own) {
        run_free(run);
        free(own);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *own = (struct run_call){.work.cancel = run_python_cancel,
                             .tools = tools,
                             .call = call,
                             .run = run,
                             .since_ns = rpc_call_since_ns(call)};
    orders_waited(&tools->orders, call, run->waited, sizeof run->waited);
    set_timeout(run, tools, arguments);
    run->reset = json_is_true(json_object_get(arguments, "reset"));
    run->fresh = json_is_true(json_object_get(arguments, "fresh"));
    run->undo = json_is_true(json_object_get(arguments, "undo"));
    copy_name(run->restore, sizeof run->restore, json_object_get(arguments, "restore"));
    copy_name(run->save, sizeof run->save, json_object_get(arguments, "checkpoint"));
    copy_name(run->drop, sizeof run->drop, json_object_get(arguments, "drop"));
    run->on_done = run_python_done;
    run->arg = own;
    rpc_call_set_data(call, own);
    if (rpc_call_wants_progress(call)) {
        loop_timer_arm(tools->loop, &own->heartbeat,
                       clock_now_ns() + LIMIT_PROGRESS_FIRST_MS * CLOCK_NS_PER_MS, run_python_beat,
                       own);
    }
    int r = sessions_run(tools->sessions, json_string_value(json_object_get(arguments, "session")),
                         run);
    if (r < 0) {
        rpc_call_set_data(call, NULL);
        run_call_free(own);
        refuse(call, r);
    }
}

void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *wrong = contradiction(arguments);
    if (wrong) {
        content_refuse(call, "%s", wrong);
    } else if (!egress_consent_hold(tools, call, arguments, run_python_begin)) {
        run_python_begin(tools, call, arguments);
    }
}
