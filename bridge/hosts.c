#include "bridge/hosts.h"

#include <string.h>

#include "base/own.h"
#include "bridge/edit.h"

enum { ANSWER_MS = 30000 }; /* from a call's time limit to its answer, start of a box included */

/* From each host's documentation and, where it could be run, from what it read at work. */
static const struct bridge_host hosts[] = {
    {.name = "claude-code",
     .folder_variable = "CLAUDE_CONFIG_DIR",
     .folder = "",
     .file = ".claude.json",
     .section = "mcpServers",
     .type = "stdio"},
    {.name = "claude-desktop",
     .folder = ".config/Claude",
     .file = "claude_desktop_config.json",
     .section = "mcpServers"},
    {.name = "codex",
     .folder_variable = "CODEX_HOME",
     .folder = ".codex",
     .file = "config.toml",
     .section = "mcp_servers",
     .timeout = "tool_timeout_sec", /* 60 by default */
     .timeout_unit_ms = 1000,
     .toml = true},
    {.name = "copilot",
     .folder = ".copilot",
     .file = "mcp-config.json",
     .section = "mcpServers",
     .type = "local",
     .more = "{\"tools\": [\"*\"]}"},
    {.name = "cursor",
     .folder = ".cursor",
     .file = "mcp.json",
     .section = "mcpServers",
     .type = "stdio"},
    {.name = "gemini",
     .folder = ".gemini",
     .file = "settings.json",
     .section = "mcpServers",
     .timeout = "timeout", /* 600000 by default */
     .timeout_unit_ms = 1},
    {.name = "opencode",
     .folder = ".config/opencode",
     .file = "opencode.json",
     .other_file = "opencode.jsonc",
     .section = "mcp",
     .type = "local",
     .more = "{\"enabled\": true}",
     .command_is_list = true},
    {.name = "vscode",
     .folder = ".config/Code/User",
     .file = "mcp.json",
     .section = "servers",
     .type = "stdio"},
    {.name = "zed",
     .folder = ".config/zed",
     .file = "settings.json",
     .section = "context_servers",
     .more = "{\"source\": \"custom\"}"},
};

const struct bridge_host *bridge_host_find(const char *name)
{
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (strcmp(hosts[i].name, name) == 0) {
            return &hosts[i];
        }
    }
    return NULL;
}

/* 0 or -1. */
static int add_command(const struct bridge_host *host, json_t *entry, const char *program,
                       json_t *args)
{
    if (!host->command_is_list) {
        return json_object_set_new(entry, "command", json_string(program)) |
               json_object_set(entry, "args", args);
    }
    json_t *list = json_pack("[s]", program);
    if (json_array_extend(list, args) < 0) {
        json_decref(list);
        return -1;
    }
    return json_object_set_new(entry, "command", list);
}

json_t *bridge_host_entry(const struct bridge_host *host, const char *program, json_t *args,
                          uint64_t call_ms)
{
    json_auto_t *entry = json_object();
    json_auto_t *more = host->more ? json_loads(host->more, 0, NULL) : json_object();
    if ((host->type && json_object_set_new(entry, "type", json_string(host->type)) < 0) ||
        add_command(host, entry, program, args) < 0 || json_object_update(entry, more) < 0) {
        return NULL;
    }
    if (host->timeout &&
        json_object_set_new(
            entry, host->timeout,
            json_integer((json_int_t)((call_ms + ANSWER_MS) / host->timeout_unit_ms))) < 0) {
        return NULL;
    }
    return take_ptr(entry);
}

int bridge_host_edit(const struct bridge_host *host, const struct bridge_server *server,
                     const char *text, size_t size, struct buf *out, struct fail *ret_fail)
{
    return (host->toml ? edit_toml : edit_json)(host->section, server, text, size, out, ret_fail);
}
