#include <stdio.h>
#include <string.h>

#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/content/content.h"
#include "tools/jobs/jobs.h"
#include "tools/order/order.h"
#include "tools/run/result.h"
#include "tools/run/run.h"
#include "tools/session/session.h"

/* Milliseconds; notes where it is capped. */
static uint64_t limit_of(const struct tools *tools, const json_t *arguments, struct run *run)
{
    const json_t *timeout = json_object_get(arguments, "timeout_s");
    double ms = json_number_value(timeout) * 1000;
    uint64_t most_ms = tools->config.max_timeout_ms;
    bool capped = timeout && ms > (double)most_ms;
    if (capped && !run_fact(run, RUN_CAPPED)[0]) {
        run_addf(run, RUN_CAPPED, "%g", (double)most_ms / 1000);
    }
    return !timeout ? tools->config.timeout_ms : capped ? most_ms : (uint64_t)ms;
}

/* The schema bounds its length. */
static void copy_name(char *out, size_t size, const json_t *name)
{
    (void)snprintf(out, size, "%s", name ? json_string_value(name) : "");
}

static bool is_true(const json_t *arguments, const char *name)
{
    return json_is_true(json_object_get(arguments, name));
}

bool run_python_is_wait(const json_t *arguments)
{
    return json_is_integer(json_object_get(arguments, "job")) || is_true(arguments, "stop");
}

/* A call that waits for a job may give it a longer time limit. */
static void extend(const struct tools *tools, const json_t *arguments)
{
    json_int_t number = json_integer_value(json_object_get(arguments, "job"));
    struct run *run = sessions_job(tools->sessions, number);
    if (run && json_object_get(arguments, "timeout_s") && !is_true(arguments, "stop")) {
        sessions_extend(tools->sessions, run, limit_of(tools, arguments, run));
    }
}

/* A call that waits for a job or stops one does nothing else. */
static const char *contradiction_of_wait(const json_t *arguments)
{
    static const char *const others[] = {"code", "stdin", "restore", "checkpoint", "drop"};
    bool acts = is_true(arguments, "undo") || is_true(arguments, "fresh") ||
                is_true(arguments, "branch") || is_true(arguments, "reset");
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        acts = acts || json_string_length(json_object_get(arguments, others[i])) > 0;
    }
    return acts ? "job and stop are about a job that runs already: send them without code, undo, "
                  "restore, reset, fresh, branch, checkpoint or drop. Nothing was run."
                : NULL;
}

/* Why the arguments exclude each other, as a sentence; NULL: they do not. */
static const char *contradiction(const json_t *arguments)
{
    if (run_python_is_wait(arguments)) {
        return contradiction_of_wait(arguments);
    }
    if (!json_is_string(json_object_get(arguments, "code"))) {
        return "Nothing to do: send code, or one of undo, restore, reset, checkpoint and drop, or "
               "job to wait for a job.";
    }
    bool undo = json_is_true(json_object_get(arguments, "undo"));
    bool restore = json_object_get(arguments, "restore") != NULL;
    bool save = json_object_get(arguments, "checkpoint") != NULL;
    bool fresh = json_is_true(json_object_get(arguments, "fresh"));
    bool reset = json_is_true(json_object_get(arguments, "reset"));
    if (is_true(arguments, "branch") &&
        (fresh || undo || restore || save || reset || json_object_get(arguments, "drop"))) {
        return "A branch is a copy that is discarded: branch cannot be combined with undo, "
               "restore, "
               "reset, checkpoint, drop or fresh. Nothing was run.";
    }
    if (save &&
        strcmp(json_string_value(json_object_get(arguments, "checkpoint")), RUN_LEFT) == 0) {
        return "checkpoint: the name " RUN_LEFT
               " is for the state that the last undo or restore has "
               "left; choose another one. Nothing was run.";
    }
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

static void run_python_begin(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    char waited[128];
    struct run *run =
        run_new_from(json_object_get(arguments, "code"), json_object_get(arguments, "stdin"));
    if (!run) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    orders_waited(tools->orders, call, waited, sizeof waited);
    struct run_request *request = &run->request;
    run_addf(run, RUN_WAITED, "%s", waited);
    size_t halves = rpc_call_halves(call);
    if (halves > 0) {
        run_addf(
            run, RUN_NOTES,
            "%zu unpaired surrogate%s became U+FFFD; for Python's escape send two backslashes, "
            "\\\\ud83d",
            halves, halves == 1 ? "" : "s");
    }
    run_add_number(run, RUN_STOPPED_JOB, orders_stopped_job(tools->orders, call));
    recorded_begin(run, tools->config.record, arguments);
    request->timeout_ms = limit_of(tools, arguments, run);
    request->reset = json_is_true(json_object_get(arguments, "reset"));
    request->fresh = json_is_true(json_object_get(arguments, "fresh"));
    request->branch = json_is_true(json_object_get(arguments, "branch"));
    request->shown = rpc_call_wants_view(call);
    request->trace = json_incref(rpc_call_trace(call));
    request->undo = json_is_true(json_object_get(arguments, "undo"));
    copy_name(request->restore, sizeof request->restore, json_object_get(arguments, "restore"));
    copy_name(request->save, sizeof request->save, json_object_get(arguments, "checkpoint"));
    copy_name(request->drop, sizeof request->drop, json_object_get(arguments, "drop"));
    run_addf(run, RUN_SAVE_NAME, "%s", request->save);
    jobs_begin(tools->jobs, call, run, arguments);
}

void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *wrong = contradiction(arguments);
    if (wrong) {
        content_refuse(call, "%s", wrong);
    } else if (run_python_is_wait(arguments)) {
        extend(tools, arguments);
        jobs_wait(tools->jobs, call, arguments);
    } else if (!egress_consent_hold(tools, call, arguments, run_python_begin)) {
        run_python_begin(tools, call, arguments);
    }
}
