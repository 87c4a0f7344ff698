/* What a client gets before it calls: the tools with the limits in force, and the instructions.
 * Both stay the same as long as the process lives, since clients cache them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "schema/schema.h"
#include "tools/box/tool.h"
#include "tools/content/app_view.h"
#include "tools/content/mounts.h"
#include "tools/install/install.h"
#include "tools/install/install_request.h"
#include "tools/servers/grants.h"
#include "tools/session/session.h"

/* Space in a tool's description for what the flags decide: the whole may have 1,024 characters. */
enum { HOSTS_SHOWN = 4, NETWORK_BYTES = 400, NETWORK_BRIEF_BYTES = 80, DATA_BYTES = 84 };
/* With --tools it may have so many more. */
enum { TOOLS_BYTES = 800, GRANTS_BYTES = 480 };

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

/* Writes "no network", or what can be reached: "network: only api.example.org, b.example.org:8080",
 * as many hosts as fit into size, which is at least 64. */
static void describe_network(const struct egress_policy *policy, char *out, size_t size)
{
    static const char asked[] = " and hosts that the user approves";
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

/* With --wait off no cell becomes a job. */
static void leave_out_jobs(json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties");
    (void)json_object_del(properties, "wait_s");
    (void)json_object_del(properties, "job");
    (void)json_object_del(properties, "stop");
}

/* Writes how code calls the tools of other servers; empty: there are none. */
static void describe_calls(const struct tools_file *file, char out[TOOLS_BYTES])
{
    char grants[GRANTS_BYTES];
    out[0] = '\0';
    if (file) {
        tools_file_describe(file, grants, sizeof grants);
        (void)snprintf(
            out, TOOLS_BYTES,
            "\n\nThe code can call tools of other servers, as long as it runs: `from "
            "sandpiper import tools`; `tools.search(\"word\")` lists them with signatures; "
            "`tools.SERVER.TOOL(name=value)` returns the result as a Python value. Prefer "
            "this for many calls or large results. Granted: %s.",
            grants);
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
    char wait[24];
    char jobs[120] = "";
    (void)snprintf(wait, sizeof wait, "%g", (double)tools->config.wait_ms / 1000);
    if (tools->config.wait_ms > 0) {
        (void)snprintf(
            jobs, sizeof jobs,
            " (after %s s the code goes on as a job: wait for it with `job` or `stop` it)", wait);
    }
    char index[300] = "";
    OWNED(buf_done) struct buf policy = BUF_EMPTY;
    if (tools->installs) {
        (void)installs_source(tools->installs, index, sizeof index);
        (void)install_policy_describe(tools->config.install, &policy);
    }
    char calls[TOOLS_BYTES];
    describe_calls(tools->config.tools_file, calls);
    const struct schema_value values[] = {
        {"tools", calls},
        {"python", python},
        {"network", network},
        {"data", data},
        {"memory", memory},
        {"disk", disk},
        {"pids", pids},
        {"timeout_s", timeout},
        {"max_timeout_s", max_timeout},
        {"wait_s", wait},
        {"jobs", jobs},
        {"kept", tools->config.keep && tools->config.keep->directory
                     ? "; in the first call, also what an earlier server has kept is not loaded"
                     : ""},
        {"index", index},
        {"work", spec->paths.work},
        {"policy", buf_text(&policy)},
        {NULL, NULL},
    };
    json_t *list = json_array();
    for (size_t i = 0; list && schema_name(i); i++) {
        if (!tools_offers(tools, schema_name(i))) {
            continue;
        }
        json_t *tool = schema_describe(schema_name(i), values);
        if (tools->config.wait_ms == 0) {
            leave_out_jobs(json_object_get(tool, "inputSchema"));
        }
        if ((spec->egress || spec->calls) &&
            strcmp(schema_name(i), "run_python") == 0) { /* no other has network */
            (void)json_object_set_new(json_object_get(tool, "annotations"), "openWorldHint",
                                      json_true());
        }
        if (views_link(tools->views, tool) < 0 ||
            (tools->config.structured &&
             json_object_set_new(tool, "outputSchema", schema_output(schema_name(i))) < 0) ||
            json_array_append_new(list, tool) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Whether code's clock is in UTC: it sees this file, and no TZ of the server's. */
static bool is_utc(void)
{
    char target[PATH_MAX] = "";
    ssize_t size = readlink("/etc/localtime", target, sizeof target - 1);
    return size < 0 ? errno == ENOENT : size >= 3 && strcmp(target + size - 3, "UTC") == 0;
}

/* Appends a line about the interpreter. */
static void describe_python(struct tools *tools, struct buf *out)
{
    const struct box_python *python = python_of(tools);
    if (!python->version[0]) {
        buf_append_text(out, "Python: CPython 3; see sys.version.\n");
        return;
    }
    static const char none[] = ", its standard library, and none of the well-known packages";
    buf_appendf(out, "Python: CPython %s%s%s%s.\n", python->version,
                python->packages[0] ? " with " : none, python->packages,
                is_utc() ? "; its clock is in UTC, whatever the user's time zone is" : "");
}

/* Appends what kind of directory the workspace is: whether the user finds the files in it. */
static void describe_workspace(const struct tools *tools, struct buf *out)
{
    const struct box_spec *spec = tools->config.spec;
    bool has_writable = false;
    for (unsigned i = 0; i < spec->mount_count; i++) {
        has_writable = has_writable || spec->mounts[i].writable;
    }
    char path[300];
    if (spec->cow && spec->workspace) {
        buf_appendf(
            out,
            " (a copy of the user's directory %s: call apply_changes when the user wants the "
            "changes there, and until then tell the user that they are not; list_changes shows "
            "them; what is not applied %s%s)",
            word_show(spec->workspace, strlen(spec->workspace), path, sizeof path),
            spec->store                ? "stays for the next server"
            : box_store_is_taken(spec) ? "is gone when this server exits, because another server "
                                         "uses the store"
                                       : "is gone when this server exits",
            has_writable ? "; changes below other writable directories reach the user at once"
                         : "");
        return;
    }
    if (spec->workspace) {
        buf_appendf(out,
                    " (the user's directory %s, where the user finds the files; .git/hooks, "
                    ".vscode and the like are read-only, also for git: after a checkout or merge, "
                    "check git "
                    "status)",
                    word_show(spec->workspace, strlen(spec->workspace), path, sizeof path));
        return;
    }
    buf_appendf(out, " (%s, gone when this server exits; ",
                spec->scratch ? "temporary" : "in memory");
    buf_append_text(out, tools->config.resources ? "the user gets its files as resources)"
                         : has_writable
                             ? "the user cannot open its files: write those for the user to a "
                               "writable directory of the user's)"
                             : "the user cannot open its files: put what they need into your "
                               "answer, or tell them that --workspace DIR keeps files)");
}

json_t *describe_server(void *ctx)
{
    struct tools *tools = ctx;
    const struct box_report *report = server_box_report(tools->server_box);
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    char network[NETWORK_BYTES];
    describe_network(tools->config.spec->egress, network, sizeof network);
    if (tools->config.tools_file) {
        char servers[200];
        tools_file_summarise(tools->config.tools_file, servers, sizeof servers);
        buf_extend(network, sizeof network, ", but through tools: %s", servers);
    }
    if (tools->config.error) {
        (void)buf_appendf(&text, "Invalid configuration: %s\n", tools->config.error);
    }
    (void)buf_appendf(
        &text,
        "Runs Python in a sandbox on this machine: %s; no files of the user except in the "
        "workspace %s, which is the current directory",
        network, tools->config.spec->paths.work);
    (void)describe_workspace(tools, &text);
    (void)buf_appendf(
        &text,
        "%s. Variables, imports and files stay for the later calls of a session. Work in small "
        "steps and check each result: its last line gives the outcome of the call.\n",
        tools->config.spec->mount_count > 0 ? ", and in the directories listed below" : "");
    if (tools->config.keep && tools->config.keep->directory) {
        (void)buf_append_text(
            &text,
            "A session of an earlier server comes back with its first call, whose result "
            "then begins with what is back; `reset` in that call starts without it.\n");
    }
    (void)data_list(tools->config.spec, &text);
    (void)describe_python(tools, &text);
    if (tools->installs) {
        char source[300];
        (void)buf_appendf(&text, "Packages: install_package adds others from %s%s.\n",
                          installs_source(tools->installs, source, sizeof source),
                          tools->config.install->mode == INSTALL_ASK ? ", with the user's approval"
                                                                     : "");
    }
    (void)box_report_describe(report, tools->config.spec, &text);
    tools->degraded_reported |= box_report_degraded(report);
    return json_stringn(buf_bytes(&text), buf_size(&text));
}
