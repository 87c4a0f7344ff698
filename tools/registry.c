#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "schema/schema.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/content/content.h"
#include "tools/egress_consent.h"
#include "tools/install/install.h"
#include "tools/jobs/jobs.h"
#include "tools/jobs/tasks.h"
#include "tools/order/order.h"
#include "tools/session/session.h"
#include "tools/tolerance.h"

enum { VIOLATIONS_SHOWN = 16 };

/* One row a tool; the order of tools/list is the schema catalogue's. */
static const struct {
    const char *name;
    enum order_kind kind;
    order_fn begin;
} registry[] = {
    {"run_python", ORDER_RUN, run_python_call},
    {"write_file", ORDER_WRITE, write_file_call},
    {"read_file", ORDER_READ, read_file_call},
    {"install_package", ORDER_INSTALL, install_package_call},
    {"list_changes", ORDER_READ, list_changes_call},
    {"apply_changes", ORDER_WRITE, apply_changes_call},
};

static unsigned registry_find(const char *name)
{
    unsigned i = 0;
    while (i < sizeof registry / sizeof *registry && strcmp(registry[i].name, name) != 0) {
        i++;
    }
    return i;
}

bool tools_offers(const struct tools *tools, const char *name)
{
    if (strcmp(name, "list_changes") == 0 || strcmp(name, "apply_changes") == 0) {
        return tools->config.spec->cow;
    }
    return tools->installs || strcmp(name, "install_package") != 0;
}

/* Reports all at once, so that a model corrects the call in one go. */
static void refuse_violations(struct rpc_call *call, const char *name,
                              const struct schema_violation *violations, size_t count)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    size_t shown = count < VIOLATIONS_SHOWN ? count : VIOLATIONS_SHOWN;
    (void)buf_appendf(&text, "The arguments of %s are not valid:\n", name);
    for (size_t i = 0; i < shown; i++) {
        const char *pointer = violations[i].pointer; /* may have a name that the client made up */
        (void)buf_append_text(&text, "- ");
        if (pointer[0]) {
            (void)word_append(&text, pointer, strlen(pointer));
        }
        const char *hint = pointer[0] ? tolerance_argument(name, pointer + 1) : NULL;
        (void)buf_appendf(&text, "%s%s%s%s\n", pointer[0] ? ": " : "", violations[i].text,
                          hint ? ". " : "", hint ? hint : "");
    }
    if (count > shown) {
        (void)buf_appendf(&text, "- and %zu more\n", count - shown);
    }
    content_result(call, buf_bytes(&text), buf_size(&text), true);
}

static bool tools_start(void *ctx, struct rpc_call *call, const char *name, json_t *arguments)
{
    struct tools *tools = ctx;
    unsigned row = registry_find(name);
    const json_t *schema = schema_input(name);
    if (row == sizeof registry / sizeof *registry || !schema || !tools_offers(tools, name)) {
        return false;
    }
    if (tools->config.error) {
        content_refuse(call, "Invalid configuration: %s", tools->config.error);
        return true;
    }
    struct schema_violation violations[VIOLATIONS_SHOWN];
    json_auto_t *coerced = schema_coerce(schema, arguments);
    json_auto_t *checked = coerced ? json_copy(coerced) : NULL;
    int r = checked ? tolerance_apply(name, checked) : -ENOMEM;
    if (r == -EFBIG) {
        content_refuse(call, "/content: would be larger than %lu MiB as JSON text",
                       LIMIT_FILE_BYTES >> 20);
        return true;
    }
    if (r < 0) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return true;
    }
    size_t count = schema_validate(schema, checked, violations, VIOLATIONS_SHOWN);
    if (count > 0) {
        refuse_violations(call, name, violations, count);
        return true;
    }
    enum order_kind kind = registry[row].kind;
    if (kind == ORDER_RUN) {
        kind = run_python_is_wait(checked) ? ORDER_WAIT
               : json_is_true(json_object_get(checked, "fresh")) ||
                       json_is_true(json_object_get(checked, "branch"))
                   ? ORDER_FRESH_RUN
                   : ORDER_RUN;
    }
    orders_add(tools->orders, call, kind, checked, registry[row].begin);
    return true;
}

static void tools_cancel(void *, struct rpc_call *call)
{
    struct tool_work *work = rpc_call_data(call);
    if (work) {
        work->cancel(work);
    }
}

static void tools_greeted(void *ctx)
{
    struct tools *tools = ctx;
    if (!tools->config.error) {
        sessions_warm_up(tools->sessions);
        sessions_preinstall(tools->sessions);
    }
}

/* The tools, first, and what they share. */
struct owned_tools {
    struct tools tools;
    struct orders orders;
    struct jobs jobs;
    struct consents consents;
    struct egress_consent hosts;
};

static void run_has_cell(struct tools *tools, const struct rpc_call *call, unsigned cell)
{
    orders_set_cell(tools->orders, call, cell);
}

static void run_is_job(struct tools *tools, const struct rpc_call *call, unsigned number)
{
    orders_set_job(tools->orders, call, number);
}

static void job_ended(struct tools *tools, unsigned number)
{
    orders_job_ended(tools->orders, number);
}

static const struct jobs_hooks hooks = {.has_cell = run_has_cell,
                                        .is_job = run_is_job,
                                        .returned = egress_consent_note,
                                        .ended = job_ended};

int tools_new(struct loop *loop, const struct tools_config *config, struct tools **ret_tools)
{
    struct owned_tools *owned = calloc(1, sizeof *owned);
    struct tools *tools = &owned->tools;
    if (!owned) {
        return -ENOMEM;
    }
    tools->loop = loop;
    tools->config = *config;
    tools->orders = &owned->orders;
    tools->jobs = &owned->jobs;
    tools->consents = &owned->consents;
    tools->hosts = &owned->hosts;
    orders_init(tools->orders, tools);
    jobs_init(tools->jobs, tools, &hooks);
    tools->unshown_changes = json_object();
    bool asks = config->hosts && config->hosts->ask;
    int r = tools->unshown_changes ? 0 : -ENOMEM;
    r = r ? r
          : server_box_new(loop, config->spec, asks ? egress_consent_refused : NULL, tools,
                           &tools->server_box);
    r = r ? r : sessions_new(loop, tools->server_box, &tools->sessions);
    if (r == 0 && config->install && config->install->mode != INSTALL_OFF) {
        r = sessions_new_installs(tools->sessions, config->install, &tools->installs);
    }
    if (r < 0) {
        tools_free(tools);
        return r;
    }
    *ret_tools = tools;
    return 0;
}

void tools_free(struct tools *tools)
{
    if (tools) {
        orders_end(tools->orders);
        tools->hosts->ending = true;
        consents_done(tools->consents);
        json_decref(tools->hosts->declined);
        json_decref(tools->unshown_changes);
        installs_free(tools->installs);
        server_box_free(tools->server_box);
        sessions_free(tools->sessions);
        assert(!tools->orders->list); /* each call has ended */
        jobs_done(tools->jobs);
        free((struct owned_tools *)tools);
    }
}

uint64_t tools_quiet_ms(const struct tools *tools)
{
    return jobs_quiet_ms(tools->jobs);
}

struct rpc_tools tools_for_rpc(struct tools *tools)
{
    return (struct rpc_tools){.ctx = tools,
                              .structured = tools->config.structured,
                              .resources = tools->config.resources ? &workspace_resources : NULL,
                              .tasks = tools->config.wait_ms ? &job_tasks : NULL,
                              .list = describe_tools,
                              .instructions = describe_server,
                              .start = tools_start,
                              .instead = tolerance_tool,
                              .cancel = tools_cancel,
                              .greeted = tools_greeted};
}
