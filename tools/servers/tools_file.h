#pragma once
#include "sandbox/sandbox.h"
#include "tools/servers/grants.h"

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
