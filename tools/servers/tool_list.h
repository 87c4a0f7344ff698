#pragma once
#include <jansson.h>

#include "tools/servers/tool_server.h"
#include "tools/servers/tools_file.h"

/* New, or NULL: what code may know of the server's tools, each with whether it is granted. */
json_t *tool_list_new(const struct tool_server *server);
/* New, or NULL: name → why the server is off, or null. */
json_t *tool_list_servers_new(const struct tools_file *file);
