#pragma once
#include "bridge/clients.h"

/* One function for each file format, as bridge_client_edit(). Private to bridge. JSON may have
 * comments and commas before a closing bracket, as editors' settings do. */
int edit_json(const char *section, const struct bridge_server *server, const char *text,
              size_t size, struct buf *out, struct fail *ret_fail);
int edit_toml(const char *section, const struct bridge_server *server, const char *text,
              size_t size, struct buf *out, struct fail *ret_fail);
