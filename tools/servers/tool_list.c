#include "tools/servers/tool_list.h"

json_t *tool_list_new(const struct tool_server *server)
{
    const struct tool_entry *entry = tool_server_entry(server);
    json_t *list = json_array();
    const char *name = NULL;
    json_t *tool = NULL;
    json_object_foreach (tool_server_tools(server), name, tool) {
        json_t *shown = json_pack("{s:s, s:O, s:b}", "name", name, "schema",
                                  json_object_get(tool, "inputSchema"), "granted",
                                  (int)grants_cover(entry, name, tool_only_reads(tool)));
        static const char *const texts[] = {"title", "description"};
        for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
            json_t *text = json_object_get(tool, texts[i]);
            if (json_is_string(text)) {
                (void)json_object_set(shown, texts[i], text);
            }
        }
        (void)json_array_append_new(list, shown);
    }
    return list;
}

json_t *tool_list_servers_new(const struct tools_file *file)
{
    json_t *servers = json_object();
    for (size_t i = 0; i < file->count; i++) {
        const struct tool_entry *entry = &file->entries[i];
        (void)json_object_set_new(servers, entry->name,
                                  entry->off[0] ? json_string(entry->off) : json_null());
    }
    return servers;
}
