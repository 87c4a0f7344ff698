#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/sandbox.h"

/* The file of --tools: which programs of the user's are tool servers, and which of their tools code
 * may call. Pure: text in, grants out. Whatever is not understood grants nothing. */

enum {
    TOOL_SERVERS = 32,
    TOOL_NAME_BYTES = 128, /* of a server's name, a pattern, and a tool's name, with a NUL */
    TOOLS_ERROR_BYTES = 400,
};

/* What code may call. Zeroed but for what the file says; used is the process's own. */
struct grant {
    const char *pattern;
    const json_t *when; /* argument → array of the strings that it may be; NULL: anything */
    uint64_t max_calls;
    bool ask;      /* the user, before each call */
    uint64_t used; /* calls that have left; nothing gives one back */
};

struct tool_entry {
    const char *name;
    char off[TOOLS_ERROR_BYTES]; /* why nothing of it can be called; empty: it can */
    const char *command;
    const json_t *args; /* array of strings, or NULL */
    const json_t *env;  /* object of strings, or NULL */
    const char *cwd;    /* NULL: the user's home directory */
    bool trust_hints;
    unsigned start_s; /* how long it may take until it responds */
    struct grant *grants;
    size_t grant_count;
};

struct tools_file {
    json_t *root; /* owns the strings */
    const char *path;
    struct tool_entry entries[TOOL_SERVERS];
    size_t count;
    bool readable; /* others can read it */
};

/* path: borrowed, for messages. Returns NULL and fills error with a sentence where the file as a
 * whole is unusable. */
struct tools_file *tools_file_parse(const char *path, const char *text, size_t size,
                                    char error[TOOLS_ERROR_BYTES]);
void tools_file_free(struct tools_file *file);

struct tool_entry *tools_file_find(struct tools_file *file, const char *name);

enum grant_verdict {
    GRANT_GIVEN,
    GRANT_NONE,      /* no pattern matches */
    GRANT_WHEN,      /* an argument is missing, or is another */
    GRANT_EXHAUSTED, /* max_calls */
};

/* Whether code may call the tool now. reads: the tool's readOnlyHint. *ret_by: of the refusal.
 * Counts nothing. */
enum grant_verdict grants_check(const struct tool_entry *entry, const char *tool, bool reads,
                                const json_t *arguments, const struct grant **ret_by);
/* Whether a grant or trust_hints applies to it at all. */
bool grants_cover(const struct tool_entry *entry, const char *tool, bool reads);
/* Whether the user must be asked before each call. */
bool grants_ask(const struct tool_entry *entry, const char *tool);
/* The call leaves. */
void grants_count(struct tool_entry *entry, const char *tool);

/* Reads the file of --tools, which may hold tokens. Refuses one that code can see or others can
 * write. path: borrowed. Returns NULL and fills error with a sentence. */
struct tools_file *tools_file_read(const struct box_spec *spec, const char *path,
                                   char error[TOOLS_ERROR_BYTES]);

/* The directory in which a server starts. */
const char *tool_entry_directory(const struct tool_entry *entry);

/* Fills facts for doctor, one a server: where its command was found, or why it is off. Returns how
 * many. */
unsigned tools_file_facts(const struct box_spec *spec, const struct tools_file *file,
                          struct box_fact facts[TOOL_SERVERS + 1]);

/* Writes what can be called, for a description: "github: search_*, create_issue (at most 3 calls)".
 * Cuts what does not fit. */
void tools_file_describe(const struct tools_file *file, char *out, size_t size);
/* The same in a few words: "github (2 granted), files (off)". */
void tools_file_summarise(const struct tools_file *file, char *out, size_t size);
