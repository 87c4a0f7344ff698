#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "schema/schema.h"
#include "tools/content.h"
#include "tools/install.h"
#include "tools/tool.h"

enum { VIOLATIONS_SHOWN = 16 };

/* One row a tool; the order of tools/list is the schema catalogue's. */
static const struct {
    const char *name;
    void (*call)(struct tools *tools, struct rpc_call *call, const json_t *arguments);
} registry[] = {
    {"run_python", run_python_call},
    {"write_file", write_file_call},
    {"read_file", read_file_call},
    {"install_package", install_package_call},
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
    return tools->installs || strcmp(name, "install_package") != 0;
}

/* All at once, so that a model corrects the call in one go. */
static void answer_violations(struct rpc_call *call, const char *name,
                              const struct schema_violation *violations, size_t count)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    size_t shown = count < VIOLATIONS_SHOWN ? count : VIOLATIONS_SHOWN;
    (void)buf_appendf(&text, "The arguments of %s are not valid:\n", name);
    for (size_t i = 0; i < shown; i++) {
        const char *pointer = violations[i].pointer; /* may name what the client made up */
        (void)buf_append_text(&text, "- ");
        if (pointer[0]) {
            (void)word_append(&text, pointer, strlen(pointer));
        }
        (void)buf_appendf(&text, "%s%s\n", pointer[0] ? ": " : "", violations[i].text);
    }
    if (count > shown) {
        (void)buf_appendf(&text, "- and %zu more\n", count - shown);
    }
    content_answer(call, buf_bytes(&text), buf_size(&text), true);
}

static bool tools_start(void *ctx, struct rpc_call *call, const char *name, json_t *arguments)
{
    struct tools *tools = ctx;
    unsigned row = registry_find(name);
    const json_t *schema = schema_input(name);
    if (row == sizeof registry / sizeof *registry || !schema || !tools_offers(tools, name)) {
        return false;
    }
    if (tools->config.trouble) {
        content_refuse(call, "Sandpiper is not configured well: %s", tools->config.trouble);
        return true;
    }
    struct schema_violation violations[VIOLATIONS_SHOWN];
    json_auto_t *checked = schema_coerce(schema, arguments);
    if (!checked) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return true;
    }
    size_t count = schema_validate(schema, checked, violations, VIOLATIONS_SHOWN);
    if (count > 0) {
        answer_violations(call, name, violations, count);
        return true;
    }
    registry[row].call(tools, call, checked);
    return true;
}

static void tools_cancel(void *ctx, struct rpc_call *call)
{
    struct tool_work *work = rpc_call_data(call);
    (void)ctx;
    if (work) {
        work->cancel(work);
    }
}

static void tools_greeted(void *ctx)
{
    struct tools *tools = ctx;
    if (!tools->config.trouble) {
        sessions_warm_up(tools->sessions);
        sessions_preinstall(tools->sessions);
    }
}

/* Where the flags are wrong the configuration's trouble says so, and no call gets this far. */
static int tools_new_installs(struct tools *tools)
{
    const struct install_config *config = tools->config.install;
    struct fail fail = {};
    if (!config || config->mode == INSTALL_OFF) {
        return 0;
    }
    int r = installs_new(tools->loop, tools->workspace, config, sessions_spills(tools->sessions),
                         &tools->installs, &fail);
    if (r == 0) {
        sessions_set_installs(tools->sessions, tools->installs);
    }
    return r == -EINVAL ? 0 : r;
}

int tools_new(struct loop *loop, const struct tools_config *config, struct tools **ret_tools)
{
    struct tools *tools = calloc(1, sizeof *tools);
    if (!tools) {
        return -ENOMEM;
    }
    tools->loop = loop;
    tools->config = *config;
    int r = workspace_new(loop, config->spec, &tools->workspace);
    r = r ? r : sessions_new(loop, tools->workspace, &tools->sessions);
    r = r ? r : tools_new_installs(tools);
    if (r < 0) {
        tools_free(tools);
        return r;
    }
    host_consent_init(tools);
    *ret_tools = tools;
    return 0;
}

void tools_free(struct tools *tools)
{
    if (tools) {
        host_consent_end(tools);
        consents_done(&tools->consents);
        host_consent_done(tools);
        installs_free(tools->installs);
        workspace_free(tools->workspace);
        sessions_free(tools->sessions);
        free(tools);
    }
}

struct rpc_tools tools_for_rpc(struct tools *tools)
{
    return (struct rpc_tools){.ctx = tools,
                              .structured = tools->config.structured,
                              .resources = tools->config.resources ? &workspace_resources : NULL,
                              .list = describe_tools,
                              .instructions = describe_server,
                              .start = tools_start,
                              .cancel = tools_cancel,
                              .greeted = tools_greeted};
}
