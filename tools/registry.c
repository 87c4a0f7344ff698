#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "schema/schema.h"
#include "tools/content.h"
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
};

static unsigned registry_find(const char *name)
{
    unsigned i = 0;
    while (i < sizeof registry / sizeof *registry && strcmp(registry[i].name, name) != 0) {
        i++;
    }
    return i;
}

static json_t *tools_list(void *ctx)
{
    struct tools *tools = ctx;
    char memory[24];
    char timeout[24];
    char max_timeout[24];
    (void)snprintf(memory, sizeof memory, "%llu MiB",
                   (unsigned long long)(tools->config.spec->limits.memory_bytes >> 20));
    (void)snprintf(timeout, sizeof timeout, "%g", (double)tools->config.timeout_ms / 1000);
    (void)snprintf(max_timeout, sizeof max_timeout, "%g",
                   (double)tools->config.max_timeout_ms / 1000);
    const struct schema_value values[] = {
        {"python", "CPython 3"},        {"memory", memory}, {"timeout_s", timeout},
        {"max_timeout_s", max_timeout}, {NULL, NULL},
    };
    json_t *list = json_array();
    for (size_t i = 0; list && schema_name(i); i++) {
        json_t *tool = schema_describe(schema_name(i), values);
        if ((tools->config.structured &&
             json_object_set_new(tool, "outputSchema", schema_output(schema_name(i))) < 0) ||
            json_array_append_new(list, tool) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *tools_instructions(void *ctx)
{
    struct tools *tools = ctx;
    const struct box_grade *grade = workspace_grade(tools->workspace);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (tools->config.trouble) {
        (void)buf_appendf(&text, "Sandpiper is not configured well: %s\n", tools->config.trouble);
    }
    (void)buf_appendf(
        &text,
        "Runs Python in a sandbox on this machine: no network, no host files but the workspace "
        "/work, which is the current directory%s. Variables, imports and files persist between "
        "calls of the same session. Work in small steps and look at each result; the last line of "
        "an answer says how the call ended and what became of the state.",
        tools->config.spec->workspace ? " (a folder of the user's)" : "");
    (void)buf_append_text(&text, "\n");
    (void)box_grade_describe(grade, tools->config.spec, &text);
    tools->gaps_told |= box_grade_gaps(grade);
    return json_stringn(buf_bytes(&text), buf_size(&text));
}

/* All at once, so that a model corrects the call in one go. */
static void answer_violations(struct rpc_call *call, const char *name,
                              const struct schema_violation *violations, size_t count)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    size_t shown = count < VIOLATIONS_SHOWN ? count : VIOLATIONS_SHOWN;
    (void)buf_appendf(&text, "The arguments of %s are not valid:\n", name);
    for (size_t i = 0; i < shown; i++) {
        (void)buf_appendf(&text, "- %s%s%s\n", violations[i].pointer,
                          violations[i].pointer[0] ? ": " : "", violations[i].text);
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
    if (row == sizeof registry / sizeof *registry || !schema) {
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
    struct tools *tools = ctx;
    run_python_cancel(tools, call);
}

static void tools_greeted(void *ctx)
{
    struct tools *tools = ctx;
    if (!tools->config.trouble) {
        sessions_warm_up(tools->sessions);
    }
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
                              .list = tools_list,
                              .instructions = tools_instructions,
                              .start = tools_start,
                              .cancel = tools_cancel,
                              .greeted = tools_greeted};
}
