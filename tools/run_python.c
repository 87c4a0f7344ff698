#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "rpc/text.h"
#include "tools/content.h"
#include "tools/images.h"
#include "tools/structured.h"
#include "tools/tool.h"

/* A run's way back to its call. */
struct call_arg {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call;
    struct run *run;
    uint64_t since_ns;
    struct loop_timer heartbeat; /* with a progress token */
};

/* What a run left behind when it was done: its answer waits for the file of a long output, then for
 * the images. */
struct answer {
    struct tools *tools;
    struct rpc_call *call;
    struct run *run;
};

/* The text of an answer in the structured form is the same object, for hosts that read only text. */
static json_t *structured_answer(const struct answer *answer, const json_t *blocks,
                                 struct buf *text)
{
    json_t *structured = structured_run(answer->run, json_array_size(blocks) > 0);
    if (structured && rpc_text_show(text, structured) < 0) {
        json_decref(structured);
        structured = NULL;
    }
    return structured;
}

static void answer_with_images(void *arg, json_t *blocks)
{
    struct answer *answer = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_t *structured = NULL;
    if (rpc_call_wants_structured(answer->call)) {
        structured = structured_answer(answer, blocks, &text);
    }
    if (!blocks || (!structured && run_compose(answer->run, &text) < 0) ||
        json_array_insert_new(blocks, 0, content_text(buf_bytes(&text), buf_size(&text))) < 0) {
        json_decref(blocks);
        blocks = NULL; /* answers with an error */
    }
    rpc_call_result(answer->call, blocks, structured, run_is_error(answer->run));
    run_free(answer->run);
    free(answer);
}

static void answer_with_file(void *arg, const char *path, uint64_t size)
{
    struct answer *answer = arg;
    struct run *run = answer->run;
    run->spill = NULL;
    struct output *outputs[] = {&run->output, &run->errors};
    bool whole = size >= run->output.total + run->errors.total;
    for (unsigned i = 0; path && i < 2; i++) {
        (void)snprintf(outputs[i]->file, sizeof outputs[i]->file, "%s", path);
        outputs[i]->file_size = whole ? outputs[i]->total : size;
    }
    images_take(answer->tools->workspace, run->cancelled ? NULL : &run->parts[RUN_IMAGES],
                answer_with_images, answer);
}

/* Tells the host how long the call has taken and what it printed last. */
static void run_python_beat(void *arg)
{
    struct call_arg *own = arg;
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

/* The first answer to a host comes before there is a sandbox; what only showed then goes with the first
 * result. */
static void tell_gaps(struct tools *tools, struct run *run)
{
    unsigned gaps = box_grade_gaps(workspace_grade(tools->workspace)) & ~tools->gaps_told;
    size_t used = 0;
    for (unsigned i = 0; gaps && i < BOX_LAYER_COUNT && used < sizeof run->weaker; i++) {
        if (gaps & 1U << i) {
            int size = snprintf(run->weaker + used, sizeof run->weaker - used, "%s%s",
                                used ? ", " : "", box_layer_name((enum box_layer)i));
            used += size > 0 ? (size_t)size : 0;
        }
    }
    tools->gaps_told |= gaps;
}

static void run_python_done(void *arg, struct run *run)
{
    struct call_arg *own = arg;
    struct rpc_call *call = own->call;
    struct tools *tools = own->tools;
    loop_timer_disarm(&own->heartbeat);
    free(own);
    rpc_call_set_data(call, NULL);
    struct answer *answer = calloc(1, sizeof *answer);
    if (run->outcome == RUN_REFUSED || !answer) {
        content_refuse(call, "%s", answer ? run->text : "The server is out of memory.");
        run_free(run);
        free(answer);
        return;
    }
    *answer = (struct answer){tools, call, run};
    if (!run->cancelled) {
        tell_gaps(tools, run);
        workspace_protection(tools->workspace, run->protected_note, sizeof run->protected_note);
        workspace_protected_news(tools->workspace, run->protected_news, sizeof run->protected_news);
        host_consent_note(tools, call, run);
    }
    if (run->spill) {
        spill_finish(run->spill, answer_with_file, answer);
    } else {
        answer_with_file(answer, NULL, 0);
    }
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

/* What cannot be asked for together, as a sentence; NULL: nothing. */
static const char *contradiction(const json_t *arguments)
{
    bool undo = json_is_true(json_object_get(arguments, "undo"));
    bool restore = json_object_get(arguments, "restore") != NULL;
    bool save = json_object_get(arguments, "checkpoint") != NULL;
    if (json_is_true(json_object_get(arguments, "fresh")) && (undo || restore || save)) {
        return "fresh runs keep nothing: undo, restore and checkpoint do not go with fresh. Leave "
               "one of them out.";
    }
    if (undo + restore + json_is_true(json_object_get(arguments, "reset")) > 1) {
        return "undo, restore and reset each choose the state to start from: send only one of "
               "them.";
    }
    return NULL;
}

/* error: of sessions_run(). */
static void refuse(struct rpc_call *call, int error)
{
    switch (error) {
    case -EMFILE:
        content_refuse(call,
                       "Too many sessions: no more than %u can be open. Use one of those that are "
                       "there.",
                       LIMIT_SESSIONS);
        break;
    case -EBUSY:
        content_refuse(call,
                       "Busy: %u calls wait in this session, no more can. Wait for their answers.",
                       LIMIT_SESSION_QUEUE);
        break;
    default:
        content_refuse(call, "The server is out of memory.");
        break;
    }
}

static void run_python_cancel(struct tool_work *work)
{
    struct call_arg *own = (struct call_arg *)work;
    sessions_cancel(own->tools->sessions, own->run);
}

static void run_python_begin(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    struct run *run =
        run_new_from(json_object_get(arguments, "code"), json_object_get(arguments, "stdin"));
    struct call_arg *own = calloc(1, sizeof *own);
    if (!run || !own) {
        run_free(run);
        free(own);
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    *own = (struct call_arg){.work.cancel = run_python_cancel,
                             .tools = tools,
                             .call = call,
                             .run = run,
                             .since_ns = clock_now_ns()};
    set_timeout(run, tools, arguments);
    run->reset = json_is_true(json_object_get(arguments, "reset"));
    run->fresh = json_is_true(json_object_get(arguments, "fresh"));
    run->undo = json_is_true(json_object_get(arguments, "undo"));
    copy_name(run->restore, sizeof run->restore, json_object_get(arguments, "restore"));
    copy_name(run->save, sizeof run->save, json_object_get(arguments, "checkpoint"));
    run->on_done = run_python_done;
    run->arg = own;
    rpc_call_set_data(call, own);
    if (rpc_call_wants_progress(call)) {
        loop_timer_arm(tools->loop, &own->heartbeat,
                       own->since_ns + LIMIT_PROGRESS_FIRST_MS * CLOCK_NS_PER_MS, run_python_beat,
                       own);
    }
    int r = sessions_run(tools->sessions, json_string_value(json_object_get(arguments, "session")),
                         run);
    if (r < 0) {
        rpc_call_set_data(call, NULL);
        run_free(run);
        loop_timer_disarm(&own->heartbeat);
        free(own);
        refuse(call, r);
    }
}

void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *wrong = contradiction(arguments);
    if (wrong) {
        content_refuse(call, "%s", wrong);
    } else if (!host_consent_hold(tools, call, arguments, run_python_begin)) {
        run_python_begin(tools, call, arguments);
    }
}
