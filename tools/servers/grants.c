#include "tools/servers/grants.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/text.h"

/* A word of the file in a sentence. */
#define SHOWN(word) word_quote((word), strlen(word), (char[96]){}, 96)

/* The first reason counts. */
__attribute__((format(printf, 2, 3))) static void turn_off(struct tool_entry *entry,
                                                           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!entry->off[0]) {
        (void)vsnprintf(entry->off, sizeof entry->off, fmt, args);
    }
    va_end(args);
}

enum { START_S_MOST = 600 };

static bool is_name(const char *text)
{
    return text[0] && strlen(text) < TOOL_NAME_BYTES;
}

static bool are_strings(const json_t *array)
{
    bool all = json_is_array(array);
    for (size_t i = 0; all && i < json_array_size(array); i++) {
        all = rpc_text_plain(json_array_get(array, i)) != NULL;
    }
    return all;
}

/* --- grants --- */

static void take_when(struct tool_entry *entry, struct grant *grant, json_t *when)
{
    const char *argument = NULL;
    json_t *allowed = NULL;
    if (!json_is_object(when) || json_object_size(when) == 0) {
        turn_off(entry, "when of %s must be an object: {\"argument\": [\"value\"]}",
                 SHOWN(grant->pattern));
    }
    json_object_foreach (when, argument, allowed) {
        if (!are_strings(allowed) || json_array_size(allowed) == 0) {
            turn_off(entry,
                     "when of %s: %s must be a list of strings, one of which the argument "
                     "must be",
                     SHOWN(grant->pattern), SHOWN(argument));
        }
    }
    grant->when = when;
}

static void take_grant(struct tool_entry *entry, struct grant *grant, json_t *value)
{
    static const char *const known[] = {"max_calls", "when", "ask", NULL};
    const char *key = NULL;
    json_t *member = NULL;
    grant->max_calls = UINT64_MAX;
    if (!is_name(grant->pattern)) {
        turn_off(entry, "tools: a name must have 1 to %d bytes", TOOL_NAME_BYTES - 1);
    }
    if (!json_is_object(value)) {
        turn_off(entry, "the grant %s must be an object; {} allows the tool without limits",
                 SHOWN(grant->pattern));
        return;
    }
    json_object_foreach (value, key, member) {
        if (!parse_is_among(key, known)) {
            turn_off(entry,
                     "the grant %s has the unknown key %s; a grant takes max_calls, "
                     "when and ask",
                     SHOWN(grant->pattern), SHOWN(key));
        } else if (strcmp(key, "when") == 0) {
            take_when(entry, grant, member);
        } else if (strcmp(key, "ask") == 0) {
            grant->ask = json_is_true(member);
            if (!json_is_boolean(member)) {
                turn_off(entry, "ask of %s must be true or false", SHOWN(grant->pattern));
            }
        } else if (!json_is_integer(member) || json_integer_value(member) < 0) {
            turn_off(entry, "max_calls of %s must be a number of calls, 0 or more",
                     SHOWN(grant->pattern));
        } else {
            grant->max_calls = (uint64_t)json_integer_value(member);
        }
    }
}

static void take_grants(struct tool_entry *entry, json_t *tools)
{
    const char *pattern = NULL;
    json_t *value = NULL;
    if (!json_is_object(tools)) {
        turn_off(entry, "tools must be an object: {\"NAME\": {}}");
        return;
    }
    entry->grants = calloc(json_object_size(tools) + 1, sizeof *entry->grants);
    if (!entry->grants) {
        turn_off(entry, "out of memory");
        return;
    }
    json_object_foreach (tools, pattern, value) {
        struct grant *grant = &entry->grants[entry->grant_count++];
        grant->pattern = pattern;
        take_grant(entry, grant, value);
    }
}

/* --- servers --- */

static void take_env(struct tool_entry *entry, json_t *env)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(env)) {
        turn_off(entry, "env must be an object of strings");
    }
    json_object_foreach (env, key, value) {
        if (!key[0] || strchr(key, '=') || !rpc_text_plain(value)) {
            turn_off(entry, "env: %s must be a variable's name with a string", SHOWN(key));
        }
    }
    entry->env = env;
}

static void take_member(struct tool_entry *entry, const char *key, json_t *value)
{
    if (strcmp(key, "command") == 0) {
        entry->command = rpc_text_plain(value);
    } else if (strcmp(key, "args") == 0) {
        entry->args = value;
        if (!are_strings(value)) {
            turn_off(entry, "args must be a list of strings");
        }
    } else if (strcmp(key, "env") == 0) {
        take_env(entry, value);
    } else if (strcmp(key, "cwd") == 0) {
        entry->cwd = rpc_text_plain(value);
        if (!entry->cwd || entry->cwd[0] != '/') {
            turn_off(entry, "cwd must be an absolute path");
        }
    } else if (strcmp(key, "tools") == 0) {
        take_grants(entry, value);
    } else if (strcmp(key, "trust_hints") == 0) {
        entry->trust_hints = json_is_true(value);
        if (!json_is_boolean(value)) {
            turn_off(entry, "trust_hints must be true or false");
        }
    } else if (strcmp(key, "start_s") == 0) {
        json_int_t seconds = json_integer_value(value);
        entry->start_s = seconds > 0 && seconds <= START_S_MOST ? (unsigned)seconds : 0;
        if (entry->start_s == 0) {
            turn_off(entry, "start_s must be a number of seconds, 1 to %d", START_S_MOST);
        }
    } else if (strcmp(key, "type") != 0) {
        turn_off(entry,
                 "unknown key %s; an entry takes command, args, env, cwd, start_s, tools and "
                 "trust_hints%s",
                 SHOWN(key),
                 strcmp(key, "ask") == 0
                     ? "; ask belongs to a tool: \"tools\": {\"*\": {\"ask\": true}}"
                     : "");
    } else if (!json_is_string(value) || strcmp(json_string_value(value), "stdio") != 0) {
        turn_off(entry, "type must be \"stdio\"");
    }
}

static void take_entry(struct tools_file *file, const char *name, json_t *value)
{
    struct tool_entry *entry = &file->entries[file->count++];
    const char *key = NULL;
    json_t *member = NULL;
    entry->name = name;
    entry->start_s = LIMIT_TOOL_SILENCE_MS / 1000;
    if (!is_name(name)) {
        turn_off(entry, "a server's name must have 1 to %d bytes", TOOL_NAME_BYTES - 1);
    }
    if (!json_is_object(value)) {
        turn_off(entry, "its entry must be an object with a command");
        return;
    }
    if (json_object_get(value, "url")) {
        turn_off(entry,
                 "it has a url: only programs that speak over stdin and stdout can be "
                 "called; start one that connects to the url");
    }
    json_object_foreach (value, key, member) {
        take_member(entry, key, member);
    }
    if (!entry->command || !entry->command[0]) {
        turn_off(entry, "command is missing: the program to start");
    }
}

static bool take_root(struct tools_file *file, char error[TOOLS_ERROR_BYTES])
{
    json_t *servers = json_object_get(file->root, "mcpServers");
    const char *name = NULL;
    json_t *value = NULL;
    if (!json_is_object(servers)) {
        void *first = json_object_iter(file->root);
        const char *found = first && !servers ? json_object_iter_key(first) : NULL;
        (void)snprintf(error, TOOLS_ERROR_BYTES, "%.200s must have an object \"mcpServers\"%s%s",
                       file->path, found ? ", it has " : "", found ? SHOWN(found) : "");
        return false;
    }
    if (json_object_size(servers) > TOOL_SERVERS) {
        (void)snprintf(error, TOOLS_ERROR_BYTES, "%.200s has more than %d servers", file->path,
                       TOOL_SERVERS);
        return false;
    }
    json_object_foreach (servers, name, value) {
        take_entry(file, name, value);
    }
    return true;
}

struct tools_file *tools_file_parse(const char *path, const char *text, size_t size,
                                    char error[TOOLS_ERROR_BYTES])
{
    json_error_t why = {};
    struct tools_file *file = calloc(1, sizeof *file);
    if (!file) {
        (void)snprintf(error, TOOLS_ERROR_BYTES, "out of memory");
        return NULL;
    }
    file->path = path;
    bool deep =
        scan_size((struct span){text, size}, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES) != SCAN_FITS;
    file->root = deep ? NULL : rpc_text_load(text, size, &why);
    if (!file->root) {
        char shown[160];
        (void)snprintf(error, TOOLS_ERROR_BYTES, "%.200s:%d: not valid JSON: %s", path,
                       deep ? 1 : why.line,
                       deep ? "nested too deeply" : word_line(why.text, shown, sizeof shown));
    }
    if (!file->root || !take_root(file, error)) {
        tools_file_free(file);
        return NULL;
    }
    return file;
}

void tools_file_free(struct tools_file *file)
{
    if (file) {
        for (size_t i = 0; i < file->count; i++) {
            free(file->entries[i].grants);
        }
        json_decref(file->root);
        free(file);
    }
}

struct tool_entry *tools_file_find(struct tools_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->entries[i].name, name) == 0) {
            return &file->entries[i];
        }
    }
    return NULL;
}

/* --- which grants apply --- */

/* A '*' stands for any characters, also none. Goes back to the last one only, so takes no more than
 * the product of both lengths. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL;
    const char *from = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

static const struct grant *exact_grant(const struct tool_entry *entry, const char *tool)
{
    for (size_t i = 0; i < entry->grant_count; i++) {
        if (!strchr(entry->grants[i].pattern, '*') && strcmp(entry->grants[i].pattern, tool) == 0) {
            return &entry->grants[i];
        }
    }
    return NULL;
}

/* The grant that follows at (NULL: the first) among those that apply together; NULL: none. */
static struct grant *next_grant(const struct tool_entry *entry, const char *tool,
                                const struct grant *at)
{
    const struct grant *exact = exact_grant(entry, tool);
    for (size_t i = at ? (size_t)(at - entry->grants) + 1 : 0; i < entry->grant_count; i++) {
        struct grant *grant = &entry->grants[i];
        if (exact ? grant == exact : matches(grant->pattern, tool)) {
            return grant;
        }
    }
    return NULL;
}

static bool when_holds(const struct grant *grant, const json_t *arguments)
{
    json_t *when = (json_t *)(uintptr_t)grant->when; /* jansson's iterators take no const */
    const char *argument = NULL;
    json_t *allowed = NULL;
    json_object_foreach (when, argument, allowed) {
        const json_t *sent = json_object_get(arguments, argument);
        bool found = false;
        for (size_t i = 0; json_is_string(sent) && i < json_array_size(allowed); i++) {
            found = found || json_equal(json_array_get(allowed, i), sent);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

bool grants_cover(const struct tool_entry *entry, const char *tool, bool reads)
{
    return !entry->off[0] && (next_grant(entry, tool, NULL) || (entry->trust_hints && reads));
}

enum grant_verdict grants_check(const struct tool_entry *entry, const char *tool, bool reads,
                                const json_t *arguments, const struct grant **ret_by)
{
    *ret_by = NULL;
    if (!grants_cover(entry, tool, reads)) {
        return GRANT_NONE;
    }
    const struct grant *at = NULL;
    while ((at = next_grant(entry, tool, at))) {
        if (!when_holds(at, arguments)) {
            *ret_by = at;
            return GRANT_WHEN;
        }
    }
    while ((at = next_grant(entry, tool, at))) {
        if (at->used >= at->max_calls) {
            *ret_by = at;
            return GRANT_EXHAUSTED;
        }
    }
    return GRANT_GIVEN;
}

bool grants_ask(const struct tool_entry *entry, const char *tool)
{
    const struct grant *at = NULL;
    while ((at = next_grant(entry, tool, at)) && !at->ask) {
    }
    return at != NULL;
}

void grants_count(struct tool_entry *entry, const char *tool)
{
    struct grant *at = NULL;
    while ((at = next_grant(entry, tool, at))) {
        at->used++;
    }
}
