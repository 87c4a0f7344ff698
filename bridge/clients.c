#include "bridge/clients.h"

#include <string.h>

#include "base/own.h"
#include "bridge/edit.h"

enum { RESULT_MS = 30000 }; /* between a call's time limit and its result, sandbox start included */

/* From each client's documentation and, where it could be run, from observing what it reads. */
const struct bridge_client bridge_clients[] = {
    {.name = "claude-code",
     .directory_variable = "CLAUDE_CONFIG_DIR",
     .directory = "",
     .file = ".claude.json",
     .section = "mcpServers",
     .type = "stdio"},
    {.name = "claude-desktop",
     .directory = ".config/Claude",
     .file = "claude_desktop_config.json",
     .section = "mcpServers"},
    {.name = "codex",
     .directory_variable = "CODEX_HOME",
     .directory = ".codex",
     .file = "config.toml",
     .section = "mcp_servers",
     .timeout = "tool_timeout_sec", /* 60 by default */
     .timeout_unit_ms = 1000,
     .toml = true},
    {.name = "copilot",
     .directory = ".copilot",
     .file = "mcp-config.json",
     .section = "mcpServers",
     .type = "local",
     .more = "{\"tools\": [\"*\"]}"},
    {.name = "cursor",
     .directory = ".cursor",
     .file = "mcp.json",
     .section = "mcpServers",
     .type = "stdio"},
    {.name = "gemini",
     .directory = ".gemini",
     .file = "settings.json",
     .section = "mcpServers",
     .timeout = "timeout", /* 600000 by default */
     .timeout_unit_ms = 1},
    {.name = "opencode",
     .directory = ".config/opencode",
     .file = "opencode.json",
     .other_file = "opencode.jsonc",
     .section = "mcp",
     .type = "local",
     .more = "{\"enabled\": true}",
     .command_is_list = true},
    {.name = "vscode",
     .directory = ".config/Code/User",
     .file = "mcp.json",
     .section = "servers",
     .type = "stdio"},
    {.name = "zed",
     .directory = ".config/zed",
     .file = "settings.json",
     .section = "context_servers",
     .more = "{\"source\": \"custom\"}"},
};
const size_t bridge_client_count = sizeof bridge_clients / sizeof *bridge_clients;

const struct bridge_client *bridge_client_find(const char *name)
{
    for (size_t i = 0; i < bridge_client_count; i++) {
        if (strcmp(bridge_clients[i].name, name) == 0) {
            return &bridge_clients[i];
        }
    }
    return NULL;
}

/* 0 or -1. */
static int add_command(const struct bridge_client *client, json_t *entry, const char *program,
                       json_t *args)
{
    if (!client->command_is_list) {
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

json_t *bridge_client_entry(const struct bridge_client *client, const char *program, json_t *args,
                            uint64_t call_ms)
{
    json_auto_t *entry = json_object();
    json_auto_t *more = client->more ? json_loads(client->more, 0, NULL) : json_object();
    if ((client->type && json_object_set_new(entry, "type", json_string(client->type)) < 0) ||
        add_command(client, entry, program, args) < 0 || json_object_update(entry, more) < 0) {
        return NULL;
    }
    if (client->timeout &&
        json_object_set_new(
            entry, client->timeout,
            json_integer((json_int_t)((call_ms + RESULT_MS) / client->timeout_unit_ms))) < 0) {
        return NULL;
    }
    return take_ptr(entry);
}

int bridge_client_edit(const struct bridge_client *client, const struct bridge_server *server,
                       const char *text, size_t size, struct buf *out, struct fail *ret_fail)
{
    return (client->toml ? edit_toml : edit_json)(client->section, server, text, size, out,
                                                  ret_fail);
}
