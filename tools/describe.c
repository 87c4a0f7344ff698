/* What a host is told before it calls: the tools with the limits in force, and the instructions. Both
 * stay the same as long as the process lives, since hosts keep them. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "schema/schema.h"
#include "tools/data.h"
#include "tools/install.h"
#include "tools/install_policy.h"
#include "tools/tool.h"

/* The room that a tool's description has for what the flags decide: it may have 1,024 characters. */
enum { HOSTS_SHOWN = 4, NETWORK_BYTES = 400, NETWORK_BRIEF_BYTES = 80, DATA_BYTES = 84 };

static const struct box_python *python_of(struct tools *tools)
{
    if (!tools->python_seen) {
        box_python_look(tools->config.spec, &tools->python);
        tools->python_seen = true;
    }
    return &tools->python;
}

/* "1 GiB", "300 MiB". */
static void describe_size(char out[24], uint64_t bytes)
{
    unsigned long long mebibytes = bytes >> 20;
    bool whole = mebibytes % 1024 == 0;
    (void)snprintf(out, 24, "%llu %s", whole ? mebibytes / 1024 : mebibytes, whole ? "GiB" : "MiB");
}

/* "api.example.org", "[2001:db8::1]:8080". */
static void describe_host(const struct egress_row *row, char out[80])
{
    const char *quote = strchr(row->host, ':') ? "[]" : "";
    char port[8] = "";
    if (!row->ports[1]) {
        (void)snprintf(port, sizeof port, ":%u", row->ports[0]);
    }
    (void)snprintf(out, 80, "%.1s%.60s%s%s", quote, row->host, *quote ? quote + 1 : "", port);
}

/* "no network", or what can be reached: "network: only api.example.org, b.example.org:8080", as many of
 * them as have room in size, which is at least 64. */
static void describe_network(const struct egress_policy *policy, char *out, size_t size)
{
    static const char asked[] = " and what the user allows when asked";
    unsigned shown = 0;
    if (!policy) {
        (void)snprintf(out, size, "no network");
        return;
    }
    size_t used = (size_t)snprintf(out, size, "network: %s", policy->count ? "only " : "nothing");
    for (; shown < policy->count && shown < HOSTS_SHOWN; shown++) {
        char host[80];
        describe_host(&policy->rows[shown], host);
        size_t behind = shown + 1 < policy->count ? sizeof " and 99 more"
                        : policy->ask             ? sizeof asked
                                                  : 1;
        if (used + 2 + strlen(host) + behind > size) {
            break;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", shown ? ", " : "", host);
    }
    if (shown < policy->count) {
        (void)snprintf(out + used, size - used, shown ? " and %u more" : "%u named hosts",
                       policy->count - shown);
    } else if (policy->ask) {
        (void)snprintf(out + used, size - used, "%s%s", policy->count ? " and" : " but", asked + 4);
    }
}

/* Of all tools run_python alone leads out. */
static void hint_network(json_t *tool, const char *name, const struct egress_policy *policy)
{
    if (policy && strcmp(name, "run_python") == 0) {
        (void)json_object_set_new(json_object_get(tool, "annotations"), "openWorldHint",
                                  json_true());
    }
}

json_t *describe_tools(void *ctx)
{
    struct tools *tools = ctx;
    const struct box_spec *spec = tools->config.spec;
    char python[24];
    char memory[24];
    char disk[24];
    char pids[16];
    char network[NETWORK_BRIEF_BYTES];
    char data[DATA_BYTES];
    char timeout[24];
    char max_timeout[24];
    const char *version = python_of(tools)->version;
    (void)snprintf(python, sizeof python, "CPython %s", *version ? version : "3");
    describe_size(memory, spec->limits.memory_bytes);
    describe_size(disk, box_spec_disk_bytes(spec));
    describe_network(spec->egress, network, sizeof network);
    data_describe(spec, data, sizeof data);
    (void)snprintf(pids, sizeof pids, "%u", spec->limits.pids);
    (void)snprintf(timeout, sizeof timeout, "%g", (double)tools->config.timeout_ms / 1000);
    (void)snprintf(max_timeout, sizeof max_timeout, "%g",
                   (double)tools->config.max_timeout_ms / 1000);
    char index[300] = "";
    OWNED(buf_done) struct buf policy = BUF_EMPTY;
    if (tools->installs) {
        (void)installs_source(tools->installs, index, sizeof index);
        (void)install_policy_describe(tools->config.install, &policy);
    }
    (void)buf_append(&policy, "", 1);
    const struct schema_value values[] = {
        {"python", python},
        {"network", network},
        {"data", data},
        {"memory", memory},
        {"disk", disk},
        {"pids", pids},
        {"timeout_s", timeout},
        {"max_timeout_s", max_timeout},
        {"index", index},
        {"work", spec->view.work},
        {"policy", buf_size(&policy) > 0 ? buf_bytes(&policy) : ""},
        {NULL, NULL},
    };
    json_t *list = json_array();
    for (size_t i = 0; list && schema_name(i); i++) {
        if (!tools_offers(tools, schema_name(i))) {
            continue;
        }
        json_t *tool = schema_describe(schema_name(i), values);
        hint_network(tool, schema_name(i), spec->egress);
        if ((tools->config.structured &&
             json_object_set_new(tool, "outputSchema", schema_output(schema_name(i))) < 0) ||
            json_array_append_new(list, tool) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Appends a line about the interpreter. */
static int describe_python(struct tools *tools, struct buf *out)
{
    const struct box_python *python = python_of(tools);
    if (!python->version[0]) {
        return buf_append_text(out, "Python: CPython 3; sys.version says which.\n");
    }
    return python->packages[0] ? buf_appendf(out, "Python: CPython %s with %s.\n", python->version,
                                             python->packages)
                               : buf_appendf(out,
                                             "Python: CPython %s, its standard library, and none "
                                             "of the well-known packages.\n",
                                             python->version);
}

json_t *describe_server(void *ctx)
{
    struct tools *tools = ctx;
    const struct box_grade *grade = workspace_grade(tools->workspace);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char network[NETWORK_BYTES];
    describe_network(tools->config.spec->egress, network, sizeof network);
    if (tools->config.trouble) {
        (void)buf_appendf(&text, "Sandpiper is not configured well: %s\n", tools->config.trouble);
    }
    (void)buf_appendf(
        &text,
        "Runs Python in a sandbox on this machine: %s; no host files but the workspace "
        "%s, which is the current directory%s%s. Variables, imports and files persist between "
        "calls of the same session. Work in small steps and look at each result; the last line of "
        "an answer says how the call ended and what became of the state.\n",
        network, tools->config.spec->view.work,
        tools->config.spec->workspace
            ? " (a folder of the user's; settings in it that other programs act on, such as "
              ".git/hooks and .vscode, are not to be changed, and git cannot replace them: after a "
              "checkout or merge that should, look at git status before you commit)"
            : "",
        tools->config.spec->mount_count > 0 ? ", and the user's folders that follow" : "");
    (void)data_list(tools->config.spec, &text);
    (void)describe_python(tools, &text);
    if (tools->installs) {
        char source[300];
        (void)buf_appendf(&text, "Packages: install_package adds others from %s%s.\n",
                          installs_source(tools->installs, source, sizeof source),
                          tools->config.install->mode == INSTALL_ASK ? ", when the user agrees"
                                                                     : "");
    }
    (void)box_grade_describe(grade, tools->config.spec, &text);
    tools->gaps_told |= box_grade_gaps(grade);
    return json_stringn(buf_bytes(&text), buf_size(&text));
}
