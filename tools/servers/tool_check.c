#include "tools/servers/tool_check.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"
#include "base/utf8.h"
#include "base/word.h"
#include "rpc/text.h"
#include "schema/schema.h"

/* Blocks of scripts that are written from right to left (Unicode 15, Bidi_Class R and AL). */
static bool is_right_to_left(uint32_t code)
{
    return (code >= 0x590 && code <= 0x8FF) || (code >= 0xFB1D && code <= 0xFDFF) ||
           (code >= 0xFE70 && code <= 0xFEFF) || (code >= 0x10800 && code <= 0x10FFF) ||
           (code >= 0x1E800 && code <= 0x1EFFF);
}

/* Such letters reverse the order in which their neighbours are shown, and so what belongs to what.
 */
static bool has_right_to_left(const struct buf *text)
{
    const char *bytes = buf_bytes(text);
    size_t size = buf_size(text);
    for (size_t at = 0; at < size;) {
        int n = utf8_size(bytes + at, size - at);
        if (n > 0 && is_right_to_left(utf8_code(bytes + at, n))) {
            return true;
        }
        at += (size_t)(n > 0 ? n : -n);
    }
    return false;
}

static int append_ascii(struct buf *out, const json_t *value)
{
    defer_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII);
    return text ? buf_append_text(out, text) : -1;
}

/* Many blanks push what follows out of sight. No JSON string has the text that stands for them. */
static void append_shortened(struct buf *out, const char *text, size_t size)
{
    enum { BLANKS = 8 };
    for (size_t at = 0; at < size;) {
        size_t blanks = 0;
        while (at + blanks < size && text[at + blanks] == ' ') {
            blanks++;
        }
        size_t part = blanks ? blanks : 1;
        if (blanks > BLANKS) {
            (void)buf_appendf(out, "\\x20{%zu}", blanks);
        } else {
            (void)buf_append(out, text + at, part);
        }
        at += part;
    }
}

const char *tool_approval_write(struct buf *text, const char *label, const json_t *arguments)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    int r = rpc_text_show(&shown, arguments);
    if (r == 0 && has_right_to_left(&shown)) {
        buf_cut(&shown, 0);
        r = append_ascii(&shown, arguments);
    }
    if (r == 0 && buf_size(&shown) > TOOL_APPROVAL_BYTES) {
        return "It needs the user's approval, and the arguments are too long for the user to read: "
               "more than 1,000 bytes as JSON.";
    }
    (void)buf_appendf(text, "Python code in the sandbox wants to call %s with ", label);
    append_shortened(text, buf_bytes(&shown), buf_size(&shown));
    (void)buf_append_text(text, ". Allow this call?");
    (void)buf_append(text, "", 1);
    return r < 0 || buf_error(text) ? "The server is out of memory." : NULL;
}

/* A name of a server or a tool, whose dots are not those between names. */
#define NAMED(name) name_show((name), (char[WORD_BYTES]){})

static const char *name_show(const char *name, char *out)
{
    return strchr(name, '.') ? word_quote(name, strlen(name), out, WORD_BYTES)
                             : word_show(name, strlen(name), out, WORD_BYTES);
}

char *tool_label_new(const char *server, const char *tool)
{
    char *label = NULL;
    return asprintf(&label, "%s.%s", NAMED(server), NAMED(tool)) < 0 ? NULL : label;
}

/* Returns false. */
__attribute__((format(printf, 3, 4))) static bool refuse(struct tool_check *check, const char *said,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(check->text, sizeof check->text, fmt, args);
    va_end(args);
    check->said = said;
    return false;
}

/* Appends up to three of the names that begin alike, or hold the word. */
static void similar(json_t *names, const char *word, char *out, size_t size)
{
    enum { MOST = 3, ALIKE = 4 };
    const char *name = NULL;
    json_t *value = NULL;
    unsigned count = 0;
    json_object_foreach (names, name, value) {
        bool alike = strncmp(name, word, ALIKE) == 0 || strstr(name, word) || strstr(word, name);
        if (alike && count < MOST) {
            buf_extend(out, size, "%s%s", count++ ? ", " : "; similar: ", TOOL_SHOWN(name));
        }
    }
}

static bool is_granted(struct tool_check *check, bool reads)
{
    const struct tool_entry *entry = tool_server_entry(check->server);
    const char *file = path_last(check->file->path);
    const struct grant *by = NULL;
    enum grant_verdict verdict = grants_check(entry, check->tool, reads, check->arguments, &by);
    if (verdict == GRANT_NONE) {
        return refuse(check, SAID_DENIED,
                      "not granted: %s. The user decides this in %s, key mcpServers.%s.tools.%s; "
                      "ask them.",
                      check->label, file, NAMED(entry->name), NAMED(check->tool));
    }
    if (verdict == GRANT_WHEN) {
        OWNED(buf_done) struct buf when = BUF_EMPTY;
        (void)rpc_text_dump(&when, by->when);
        return refuse(check, SAID_DENIED,
                      "not granted with these arguments: %s. The grant %s in %s requires %.*s; ask "
                      "the user to change it.",
                      check->label, TOOL_SHOWN(by->pattern), file,
                      (int)(buf_size(&when) < 300 ? buf_size(&when) : 300),
                      buf_size(&when) ? buf_bytes(&when) : "");
    }
    if (verdict == GRANT_EXHAUSTED) {
        return refuse(check, SAID_DENIED,
                      "no calls are left: %s. The grant %s in %s allows %llu while this server "
                      "runs; ask the user to allow more.",
                      check->label, TOOL_SHOWN(by->pattern), file,
                      (unsigned long long)by->max_calls);
    }
    return true;
}

static bool is_valid(struct tool_check *check, const json_t *schema)
{
    enum { VIOLATIONS = 4 };
    struct schema_violation violations[VIOLATIONS];
    size_t count = schema ? schema_validate(schema, check->arguments, violations, VIOLATIONS) : 0;
    char text[TOOL_REASON_BYTES - 400] = "";
    for (size_t i = 0; i < count && i < VIOLATIONS; i++) {
        const char *pointer = violations[i].pointer;
        buf_extend(text, sizeof text, "%s%s%s%s", i ? "; " : "",
                   pointer[0] ? TOOL_SHOWN(pointer) : "", pointer[0] ? ": " : "",
                   violations[i].text);
    }
    return count == 0 || refuse(check, SAID_INVALID, "%s: %s", check->label, text);
}

bool tool_check_passes(struct tool_check *check)
{
    const struct tool_entry *entry = tool_server_entry(check->server);
    json_t *tools = tool_server_tools(check->server);
    const json_t *tool = json_object_get(tools, check->tool);
    bool reads = tool_only_reads(tool);
    if (!tool) {
        char text[300] = "";
        similar(tools, check->tool, text, sizeof text);
        return refuse(check, SAID_UNKNOWN, "%s has no tool %s%s", TOOL_SHOWN(entry->name),
                      TOOL_SHOWN(check->tool), text);
    }
    bool covered = grants_cover(entry, check->tool, reads);
    return (!covered || is_valid(check, json_object_get(tool, TOOL_CHECKED))) &&
           is_granted(check, reads);
}
