#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct buf;

/* What the configuration files of agent hosts want to have of a server that they start. Pure: text
 * in, text out. */

struct bridge_host {
    const char *name;
    const char *folder_variable; /* of the environment: the file's folder; NULL: there is none */
    const char *folder;          /* else this one below the user's home folder */
    const char *file;
    const char *other_file; /* taken where it exists and file does not; NULL: there is none */
    const char *section;    /* the object, or TOML table, that has the servers by name */
    const char *type;       /* "type" of the entry; NULL: it has none */
    const char *more;       /* further members, as JSON; NULL: none */
    const char *timeout;    /* the member with the time that a call may take; NULL: none */
    uint64_t timeout_unit_ms;
    bool command_is_list; /* the program and its arguments in one array */
    bool toml;
};

#define BRIDGE_HOST_NAMES                                                                          \
    "claude-code, claude-desktop, codex, copilot, cursor, gemini, opencode, vscode or zed"

/* Borrowed; NULL when there is no such host. */
const struct bridge_host *bridge_host_find(const char *name);

/* New: the entry of a server. args: an array of strings, borrowed. call_ms: the longest that a call
 * may take; hosts that would give up before are told. NULL when there is no memory. */
json_t *bridge_host_entry(const struct bridge_host *host, const char *program, json_t *args,
                          uint64_t call_ms);

enum bridge_edit {
    BRIDGE_EDIT_ADDED,
    BRIDGE_EDIT_REPLACED, /* an entry of its name was there, and was another */
    BRIDGE_EDIT_SAME,     /* the file has this entry: nothing was appended to out */
};

/* What is to be in the file. */
struct bridge_server {
    const char *name; /* letters, digits, '_' and '-' */
    const json_t *entry;
};

/* Appends to out the file's text with the server in it; every other byte stays, comments and order
 * too. text: the file as it is, size 0 where there is none. Returns enum bridge_edit; -EINVAL when the
 * text is not understood, -EEXIST when its entry of the name would be lost; -ENOMEM. */
int bridge_host_edit(const struct bridge_host *host, const struct bridge_server *server,
                     const char *text, size_t size, struct buf *out, struct fail *ret_fail);
