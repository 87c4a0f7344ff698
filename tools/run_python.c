#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "tools/content.h"
#include "tools/tool.h"

static void run_python_done(void *arg, struct run *run)
{
    struct rpc_call *call = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (run->outcome == RUN_REFUSED) {
        content_refuse(call, "%s", run->text);
    } else if (run_compose(run, &text) < 0) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
    } else {
        content_answer(call, buf_bytes(&text), buf_size(&text), run_is_error(run));
    }
    run_free(run);
}

static uint64_t timeout_of(const struct tools *tools, const json_t *arguments)
{
    const json_t *timeout = json_object_get(arguments, "timeout_s");
    if (!timeout) {
        return tools->config.timeout_ms;
    }
    double ms = json_number_value(timeout) * 1000;
    return ms < (double)tools->config.max_timeout_ms ? (uint64_t)ms : tools->config.max_timeout_ms;
}

void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const json_t *code = json_object_get(arguments, "code");
    const json_t *input = json_object_get(arguments, "stdin");
    struct run *run =
        run_new(json_string_value(code), json_string_length(code),
                input ? json_string_value(input) : NULL, input ? json_string_length(input) : 0);
    if (!run) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    run->timeout_ms = timeout_of(tools, arguments);
    run->reset = json_is_true(json_object_get(arguments, "reset"));
    run->on_done = run_python_done;
    run->arg = call;
    rpc_call_set_data(call, run);
    int r = sessions_run(tools->sessions, json_string_value(json_object_get(arguments, "session")),
                         run);
    if (r < 0) {
        rpc_call_set_data(call, NULL);
        run_free(run);
        content_refuse(call,
                       r == -EMFILE ? "Too many sessions: use one of those that are there."
                       : r == -EBUSY
                           ? "Busy: too many calls wait in this session. Wait for their answers."
                           : "The server is out of memory.");
    }
}

void run_python_cancel(struct tools *tools, struct rpc_call *call)
{
    struct run *run = rpc_call_data(call);
    if (run) {
        sessions_cancel(tools->sessions, run);
    }
}
