#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct buf;

/* The entry that an MCP client's configuration file needs for a server that it starts. Pure: text
 * in, text out. */

struct bridge_client {
    const char *name;
    const char
        *directory_variable; /* environment variable of the file's directory; NULL: there is none */
    const char *directory;   /* without the variable: this one, below the user's home directory */
    const char *file;
    const char *other_file; /* used if it exists and file does not; NULL: there is none */
    const char *section;    /* the object, or TOML table, that has the servers by name */
    const char *type;       /* "type" of the entry; NULL: it has none */
    const char *more;       /* further members, as JSON; NULL: none */
    const char *timeout;    /* the member with the time limit of a call; NULL: none */
    uint64_t timeout_unit_ms;
    bool command_is_list; /* the program and its arguments in one array */
    bool toml;
};

#define BRIDGE_CLIENT_NAMES                                                                        \
    "claude-code, claude-desktop, codex, copilot, cursor, gemini, opencode, vscode or zed"

extern const struct bridge_client bridge_clients[];
extern const size_t bridge_client_count;

/* Borrowed; NULL when there is no such client. */
const struct bridge_client *bridge_client_find(const char *name);

/* New: the entry of a server. args: an array of strings, borrowed. call_ms: the longest time of a
 * call, which goes into the entries of clients with a shorter default. NULL when out of memory. */
json_t *bridge_client_entry(const struct bridge_client *client, const char *program, json_t *args,
                            uint64_t call_ms);

enum bridge_edit {
    BRIDGE_EDIT_ADDED,
    BRIDGE_EDIT_REPLACED, /* replaced a different entry of its name */
    BRIDGE_EDIT_REMOVED,
    BRIDGE_EDIT_SAME, /* the file has this entry, or none to remove: appended nothing to out */
};

/* What is to be in the file. */
struct bridge_server {
    const char *name;    /* letters, digits, '_' and '-' */
    const json_t *entry; /* NULL: no server of this name is to be in the file */
};

/* Appends to out the file's text with the server in it, or without; every other byte stays,
 * comments and order too. text: the file as it is, size 0 where there is none. Returns enum
 * bridge_edit; -EINVAL when the text is not understood, -EEXIST when its entry of the name would be
 * lost or would stay in part; -ENOMEM. */
int bridge_client_edit(const struct bridge_client *client, const struct bridge_server *server,
                       const char *text, size_t size, struct buf *out, struct fail *ret_fail);
