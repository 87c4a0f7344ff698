#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/call.h"
#include "schema/schema.h"
#include "tools/box/tool.h"
#include "tools/consent.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/install/install.h"
#include "tools/jobs/jobs.h"
#include "tools/order/order.h"
#include "tools/run/result.h"
#include "tools/servers/tool_server.h"
#include "tools/session/session.h"
#include "tools/tolerance.h"

enum { VIOLATIONS_SHOWN = 16, KEEP_LAST_MS = 1500 /* clients kill after two seconds */ };

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

/* A call that is not ordered: its end is not recorded otherwise. */
static void refuse(const struct tools *tools, struct rpc_call *call, const char *name,
                   const json_t *arguments, const char *text, size_t size)
{
    json_auto_t *content = json_pack("[o]", content_text(text, size));
    const struct recorded_call recorded = {
        "tool", name, arguments, content, .is_error = true, .trace = rpc_call_trace(call)};
    recorded_call(tools->config.record, &recorded, NULL);
    content_result(call, text, size, /* is_error= */ true);
}

/* Reports all at once, so that a model corrects the call in one go. */
static void refuse_violations(const struct tools *tools, struct rpc_call *call, const char *name,
                              const json_t *arguments, const struct schema_violation *violations,
                              size_t count)
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
    refuse(tools, call, name, arguments, buf_bytes(&text), buf_size(&text));
}

/* Refuses half of a surrogate pair where a text is a name or must be found as it is. Returns
 * whether it has ended the call. */
static bool refuse_halves(const struct tools *tools, struct rpc_call *call, const char *name,
                          json_t *arguments, json_t *checked)
{
    static const char *const texts[] = {"content", "new_text", "code", "stdin"};
    struct schema_violation violation = {
        .text =
            "has half of a surrogate pair (such as \\ud83d alone), which is no character; send "
            "the whole character"};
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (checked, key, value) {
        size_t i = 0;
        while (i < sizeof texts / sizeof *texts && strcmp(key, texts[i]) != 0) {
            i++;
        }
        if (rpc_call_unmark(call, value) > 0 && i == sizeof texts / sizeof *texts) {
            (void)snprintf(violation.pointer, sizeof violation.pointer, "/%s", key);
        }
    }
    (void)rpc_call_unmark(call, arguments); /* what is not in checked */
    if (violation.pointer[0]) {
        refuse_violations(tools, call, name, arguments, &violation, 1);
    }
    return violation.pointer[0];
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
    struct fail fail = {};
    if (!record_open(tools->config.record, &fail)) {
        content_refuse(call, "%s.", fail.text);
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
    if (refuse_halves(tools, call, name, arguments, checked)) {
        return true;
    }
    size_t count = schema_validate(schema, checked, violations, VIOLATIONS_SHOWN);
    if (count > 0) {
        refuse_violations(tools, call, name, arguments, violations, count);
        return true;
    }
    enum order_kind kind = registry[row].kind;
    const char *state = rpc_call_state(call);
    if (state && kind == ORDER_RUN) { /* the user's response to a cell that runs already */
        unsigned number = jobs_number_of(tools->jobs, state);
        if (number == 0) {
            static const char unknown[] =
                "[not run: the cell that asked the user is not known any more | to run the code "
                "anew, send it without requestState]";
            refuse(tools, call, name, arguments, unknown, sizeof unknown - 1);
            return true;
        }
        json_t *job = json_pack("{s:i, s:O*}", "job", (int)number, "wait_s",
                                json_object_get(checked, "wait_s"));
        json_decref(checked);
        checked = job;
    }
    if (registry[row].begin == read_file_call && read_view(tools, call, checked)) {
        return true;
    }
    if (kind == ORDER_RUN) {
        kind = run_python_is_wait(checked) ? ORDER_WAIT
               : json_is_true(json_object_get(checked, "fresh")) ||
                       json_is_true(json_object_get(checked, "branch"))
                   ? ORDER_FRESH_RUN
                   : ORDER_RUN;
    }
    orders_add(tools->orders, call, kind, registry[row].name, checked, registry[row].begin);
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
    struct cell_elicitations elicitations;
};

static const struct jobs_hooks hooks = {.has_cell = orders_set_cell,
                                        .is_job = orders_set_job,
                                        .ended = orders_job_ended,
                                        .returned = egress_consent_note,
                                        .waits = cell_elicitations_call_waits,
                                        .polls = cell_elicitations_polled};

/* --- the record --- */

/* What the first line says of the sandbox. */
static json_t *make_start(void *arg)
{
    struct tools *tools = arg;
    const struct box_report *report = server_box_report(tools->server_box);
    struct box_python python = {};
    json_t *start = tools->config.start ? json_deep_copy(tools->config.start) : json_object();
    json_t *protections = json_array();
    static const char *const states[] = {[BOX_PROTECTION_ON] = "on",
                                         [BOX_PROTECTION_DEGRADED] = "degraded",
                                         [BOX_PROTECTION_OFF] = "off",
                                         [BOX_PROTECTION_UNKNOWN] = "unknown"};
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        (void)json_array_append_new(protections,
                                    json_pack("{s:s, s:s}", "name",
                                              box_protection_name((enum box_protection)i), "state",
                                              states[report->protections[i].state]));
    }
    box_python_look(tools->config.spec, &python);
    (void)json_object_update_new(
        start, json_pack("{s:s, s:b, s:o, s:s, s:s}", "isolation", box_level_name(report->level),
                         "tested", report->tested, "protections", protections, "python",
                         python.version, "packages", python.packages));
    return start;
}

/* A connection that the egress proxy has refused, or has made. */
static void on_egress(void *arg, const struct egress_event *event)
{
    struct tools *tools = arg;
    static const char *const words[EGRESS_EVENT_COUNT] = {
        [EGRESS_REFUSED_HOST] = "refused",    [EGRESS_REFUSED_ADDRESS] = "refused",
        [EGRESS_REFUSED_REQUEST] = "refused", [EGRESS_REFUSED_LIMIT] = "refused",
        [EGRESS_UNREACHABLE] = "unreachable", [EGRESS_ALLOWED] = "allowed",
        [EGRESS_UPSTREAM] = "unreachable",
    };
    record_add_missed(tools->config.record, event->missed);
    record_add_caused(tools->config.record, "network",
                      json_pack("{s:s, s:i, s:s, s:o}", "host", event->host, "port",
                                (int)event->port, "decision", words[event->kind], "rule",
                                record_message(event->text, strlen(event->text))));
    egress_consent_refused(tools, event);
}

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
    tools->elicitations = &owned->elicitations;
    cell_elicitations_init(tools);
    owned->orders.tools = tools;
    owned->jobs = (struct jobs){.tools = tools, .hooks = &hooks};
    tools->unshown_changes = json_object();
    tools->views = views_new(config->ui);
    int r = tools->unshown_changes && tools->views ? 0 : -ENOMEM;
    r = r ? r : server_box_new(loop, config->spec, on_egress, tools, &tools->server_box);
    r = r ? r : sessions_new(loop, tools->server_box, &tools->sessions);
    if (r == 0 && config->keep) {
        sessions_keep_init(tools->sessions, config->keep);
    }
    if (r == 0 && config->tools_file) {
        r = tool_servers_new(loop, config->spec, config->tools_file, config->version,
                             &tools->tool_servers);
        sessions_set_tool_servers(tools->sessions, tools->tool_servers);
    }
    if (tools->tool_servers) {
        tool_servers_set_asker(tools->tool_servers, &tools->elicitations->asker);
    }
    if (r == 0 && config->install && config->install->mode != INSTALL_OFF) {
        r = sessions_new_installs(tools->sessions, config->install, config->record,
                                  &tools->installs);
    }
    if (r < 0) {
        tools_free(tools);
        return r;
    }
    tools->consents->record = config->record;
    record_set_start(config->record, make_start, tools);
    *ret_tools = tools;
    return 0;
}

void tools_save(struct tools *tools)
{
    sessions_save_last(tools->sessions, KEEP_LAST_MS);
}

void tools_free(struct tools *tools)
{
    if (tools) {
        orders_end(tools->orders);
        tools->hosts->ending = true;
        consents_done(tools->consents);
        json_decref(tools->hosts->declined);
        json_decref(tools->unshown_changes);
        views_free(tools->views);
        installs_free(tools->installs);
        server_box_free(tools->server_box);
        sessions_free(tools->sessions);
        tool_servers_free(tools->tool_servers);
        cell_elicitations_done(tools);
        assert(!tools->orders->list); /* each call has ended */
        jobs_done(tools->jobs);
        free((struct owned_tools *)tools);
    }
}

static json_t *tools_page(void *ctx, const char *uri)
{
    const struct tools *tools = ctx;
    return views_page(tools->views, uri);
}

uint64_t tools_quiet_ms(const struct tools *tools)
{
    return jobs_quiet_ms(tools->jobs);
}

static void tools_instead(void *ctx, const char *name, struct buf *out)
{
    const struct tools *tools = ctx;
    const char *known = tolerance_tool(name);
    if (known) {
        buf_appendf(out, "%s ", known);
    } else if (tools->config.tools_file) {
        buf_append_text(out,
                        "Code of run_python calls those of other servers: from sandpiper import "
                        "tools; print(tools.search()) lists them. ");
    }
}

struct rpc_tools tools_for_rpc(struct tools *tools)
{
    return (struct rpc_tools){.ctx = tools,
                              .structured = tools->config.structured,
                              .resources = tools->config.resources ? &workspace_resources : NULL,
                              .tasks = tools->config.wait_ms ? &job_tasks : NULL,
                              .page = tools->config.ui != TOOLS_UI_OFF ? tools_page : NULL,
                              .list = describe_tools,
                              .instructions = describe_server,
                              .start = tools_start,
                              .instead = tools_instead,
                              .cancel = tools_cancel,
                              .greeted = tools_greeted};
}
