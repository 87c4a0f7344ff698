#include "tools/servers/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/word.h"

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
