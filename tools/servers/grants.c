#include "tools/servers/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
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

enum { FILE_BYTES = 1 << 20, SHOWN_BYTES = 96 };

/* Why the open file must not be used; NULL: it may. */
static const char *problem(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return "is not a regular file";
    }
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        return "belongs to another user, who could grant tools";
    }
    if (st->st_mode & (S_IWGRP | S_IWOTH)) {
        return "is writable by others, who could grant tools: run chmod go-w";
    }
    if (st->st_nlink > 1) {
        return "has a second name (a hard link), which code may see: copy it and remove the other";
    }
    if (st->st_size > FILE_BYTES) {
        return "is larger than 1 MiB";
    }
    return NULL;
}

struct tools_file *tools_file_read(const struct box_spec *spec, const char *path,
                                   char error[TOOLS_ERROR_BYTES])
{
    struct fail fail = {};
    struct stat st;
    if (box_check_hidden(spec, "the file of --tools", path, "move it elsewhere", &fail) < 0) {
        (void)snprintf(error, TOOLS_ERROR_BYTES, "%.390s", fail.text);
        return NULL;
    }
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)snprintf(error, TOOLS_ERROR_BYTES, "--tools: cannot open %.200s: %s", path,
                       strerror(errno));
        return NULL;
    }
    const char *wrong = problem(&st);
    defer_free char *text = wrong ? NULL : malloc(FILE_BYTES);
    ssize_t size = text ? fd_pread_all(fd, text, FILE_BYTES, 0) : -ENOMEM;
    if (wrong || size < 0) {
        (void)snprintf(error, TOOLS_ERROR_BYTES, "--tools: %.200s %s", path,
                       wrong ? wrong : strerror((int)-size));
        return NULL;
    }
    struct tools_file *file = tools_file_parse(path, text, (size_t)size, error);
    if (file) {
        file->readable = st.st_mode & (S_IRGRP | S_IROTH);
    }
    return file;
}

/* --- what it says --- */

static void append_word(char *out, size_t size, const char *word)
{
    char shown[SHOWN_BYTES];
    buf_extend(out, size, "%s", word_show(word, strlen(word), shown, sizeof shown));
}

/* " (only repo=me/sandbox, state=open or 2 others)" */
static void describe_when(const json_t *when, char *out, size_t size)
{
    const char *name = NULL;
    json_t *allowed = NULL;
    const char *before = " (only ";
    char others[40] = "";
    json_object_foreach ((json_t *)(uintptr_t)when, name, allowed) {
        size_t count = json_array_size(allowed);
        buf_extend(out, size, "%s", before);
        append_word(out, size, name);
        buf_extend(out, size, "%s", "=");
        append_word(out, size, json_string_value(json_array_get(allowed, 0)));
        (void)snprintf(others, sizeof others, " or %zu other%s", count - 1, count == 2 ? "" : "s");
        buf_extend(out, size, "%s", count > 1 ? others : "");
        before = ", ";
    }
    buf_extend(out, size, "%s", ")");
}

static void describe_grant(const struct grant *grant, char *out, size_t size)
{
    char limit[48];
    append_word(out, size, grant->pattern);
    if (grant->max_calls != UINT64_MAX) {
        (void)snprintf(limit, sizeof limit, " (at most %llu calls)",
                       (unsigned long long)grant->max_calls);
        buf_extend(out, size, "%s", limit);
    }
    if (grant->when) {
        describe_when(grant->when, out, size);
    }
    buf_extend(out, size, "%s", grant->ask ? " (asks the user)" : "");
}

/* One server, in a text of its own so that it is shown whole, or else by its numbers. */
static void describe_entry(const struct tool_entry *entry, char *out, size_t size)
{
    out[0] = '\0';
    append_word(out, size, entry->name);
    buf_extend(out, size, "%s", entry->off[0] ? " (off)" : ": ");
    for (size_t i = 0; !entry->off[0] && i < entry->grant_count; i++) {
        buf_extend(out, size, "%s", i ? ", " : "");
        describe_grant(&entry->grants[i], out, size);
    }
    if (!entry->off[0] && entry->trust_hints) {
        buf_extend(out, size, "%s", entry->grant_count ? ", what only reads" : "what only reads");
    } else if (!entry->off[0] && entry->grant_count == 0) {
        buf_extend(out, size, "nothing");
    }
}

static void summarise_entry(const struct tool_entry *entry, char *out, size_t size)
{
    char count[64];
    out[0] = '\0';
    append_word(out, size, entry->name);
    (void)snprintf(count, sizeof count, " (%zu granted%s)", entry->grant_count,
                   entry->trust_hints ? ", and what only reads" : "");
    buf_extend(out, size, "%s", entry->off[0] ? " (off)" : count);
}

static void list_entries(const struct tools_file *file, const char *separator,
                         void (*describe)(const struct tool_entry *entry, char *out, size_t size),
                         char *out, size_t size)
{
    enum { MORE_BYTES = 24 };
    char text[400];
    (void)snprintf(out, size, "%s", file->count > 0 ? "" : "nothing");
    for (size_t i = 0; i < file->count; i++) {
        size_t used = strlen(out) + strlen(separator) + MORE_BYTES;
        describe(&file->entries[i], text, sizeof text);
        if (strlen(text) + 1 == sizeof text || used + strlen(text) > size) {
            summarise_entry(&file->entries[i], text, sizeof text);
        }
        if (used + strlen(text) > size) {
            (void)snprintf(text, sizeof text, " and %zu more", file->count - i);
            buf_extend(out, size, "%s", text);
            return;
        }
        buf_extend(out, size, "%s", i ? separator : "");
        buf_extend(out, size, "%s", text);
    }
}

void tools_file_describe(const struct tools_file *file, char *out, size_t size)
{
    list_entries(file, "; ", describe_entry, out, size);
}

void tools_file_summarise(const struct tools_file *file, char *out, size_t size)
{
    list_entries(file, ", ", summarise_entry, out, size);
}

/* --- doctor --- */

static void add_fact(const struct box_spec *spec, const struct tool_entry *entry,
                     struct box_fact *fact)
{
    struct fail fail = {};
    char path[PATH_MAX];
    char summary[200];
    const char *argv[] = {entry->command, NULL};
    const char *directory = tool_entry_directory(entry);
    *fact = (struct box_fact){.name = "tools"};
    summarise_entry(entry, summary, sizeof summary);
    int r =
        entry->off[0] ? -EINVAL : box_program_find(spec, entry->command, directory, path, &fail);
    r = r ? r : box_program_check(spec, directory, argv, &fail);
    fact->warning = r < 0;
    (void)snprintf(fact->text, sizeof fact->text, "%.90s: %.300s", summary,
                   entry->off[0] ? entry->off
                   : r < 0       ? fail.text
                                 : path);
    if (r == 0 && entry->trust_hints) {
        buf_extend(fact->text, sizeof fact->text,
                   "; what only reads, only the server itself says (trust_hints)");
    }
}

unsigned tools_file_facts(const struct box_spec *spec, const struct tools_file *file,
                          struct box_fact facts[TOOL_SERVERS + 1])
{
    unsigned count = 0;
    if (file->readable) {
        facts[count] = (struct box_fact){.name = "tools", .warning = true};
        (void)snprintf(facts[count++].text, sizeof facts->text,
                       "%.200s can be read by other users, and may hold tokens: run chmod go-r",
                       file->path);
    }
    for (size_t i = 0; i < file->count; i++) {
        add_fact(spec, &file->entries[i], &facts[count++]);
    }
    return count;
}

const char *tool_entry_directory(const struct tool_entry *entry)
{
    const char *home = getenv("HOME");
    return entry->cwd ? entry->cwd : home && home[0] == '/' ? home : "/";
}
