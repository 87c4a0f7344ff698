#include "tools/servers/tool_channel.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/text.h"
#include "schema/schema.h"
#include "tools/run/run.h"
#include "tools/servers/grants.h"
#include "tools/servers/tool_server.h"

/* Whether a call may leave: the checks, in the order that docs/TOOLS.md has, but for the user's
 * approval. */

/* How a call ends. The guest raises an exception by this word. */
#define SAID_RESULT "ok"
#define SAID_TOOL "tool"       /* ToolError */
#define SAID_DENIED "denied"   /* PermissionError */
#define SAID_UNKNOWN "unknown" /* AttributeError */
#define SAID_INVALID "invalid" /* TypeError */
#define SAID_REFUSED "refused" /* RuntimeError */

/* A word of others in a sentence. */
#define TOOL_SHOWN(word) word_show((word), strlen(word), (char[WORD_BYTES]){}, WORD_BYTES)

enum { TOOL_REASON_BYTES = 1200 };

/* How a call ends. The guest raises an exception by this word. */

/* A call; all is borrowed. */
struct tool_check {
    const struct tool_server *server;
    const struct tools_file *file;
    const char *tool;
    const char *label; /* for sentences */
    const json_t *arguments;
    /* Of a refusal: */
    const char *said;
    char text[TOOL_REASON_BYTES];
};

/* A word of others in a sentence. */

/* What the user reads for a grant with `ask` before a call leaves. Its words are those
 * of the code, which would like the user to misread it. */

enum { TOOL_APPROVAL_BYTES = 1000 /* of the arguments; nobody reads more */ };

enum { ROWS = 1 << 16, GROW = 16, SHOWN = 8 };
#define TIMES "\xC3\x97"

void ledger_done(struct ledger *ledger)
{
    for (unsigned i = 0; i < ledger->count; i++) {
        free(ledger->rows[i].label);
    }
    free(ledger->rows);
    *ledger = (struct ledger){};
}

static struct ledger_row *ledger_find(const struct ledger *ledger, unsigned cell, const char *label)
{
    for (unsigned i = ledger->count; i-- > 0;) {
        if (ledger->rows[i].cell == cell && strcmp(ledger->rows[i].label, label) == 0) {
            return &ledger->rows[i];
        }
    }
    return NULL;
}

/* A ledger that is full counts the call for the newest cell that has called the tool: so it names
 * too many rather than too few. */
static struct ledger_row *add_row(struct ledger *ledger, unsigned cell, const char *label)
{
    for (unsigned i = ledger->count; ledger->count >= ROWS && i-- > 0;) {
        if (strcmp(ledger->rows[i].label, label) == 0) {
            ledger->rows[i].cell = cell;
            ledger->rows[i].gone = false;
            return &ledger->rows[i];
        }
    }
    if (ledger->count % GROW == 0) {
        struct ledger_row *grown =
            realloc(ledger->rows, (ledger->count + GROW) * sizeof *ledger->rows);
        if (!grown) {
            return NULL;
        }
        ledger->rows = grown;
    }
    char *copy = strdup(label);
    if (!copy) {
        return NULL;
    }
    ledger->rows[ledger->count] =
        (struct ledger_row){.cell = cell, .label = copy, .before = ledger->newest};
    ledger->newest = ++ledger->count;
    return &ledger->rows[ledger->newest - 1];
}

bool ledger_add(struct ledger *ledger, unsigned cell, const char *label, bool reads)
{
    struct ledger_row *row = ledger_find(ledger, cell, label);
    row = row ? row : add_row(ledger, cell, label);
    if (row) {
        row->unknown++;
        row->writes = row->writes || !reads;
    }
    return row != NULL;
}

void ledger_responded(struct ledger *ledger, unsigned cell, const char *label, uint64_t ns)
{
    struct ledger_row *row = ledger_find(ledger, cell, label);
    if (row && row->unknown > 0) {
        row->unknown--;
        row->done++;
        row->ns += ns;
    }
}

/* What of a row is summed up. */
enum { DONE = 1, UNKNOWN = 2, TIME = 4 };

/* New: label → the sum of these parts of the chosen rows, in their order. */
static json_t *sum(const struct ledger *ledger,
                   bool (*chosen)(const struct ledger_row *row, const void *arg), const void *arg,
                   unsigned parts)
{
    json_t *sums = json_object();
    for (unsigned i = 0; i < ledger->count; i++) {
        const struct ledger_row *row = &ledger->rows[i];
        uint64_t more = (parts & DONE ? row->done : 0) + (parts & UNKNOWN ? row->unknown : 0) +
                        (parts & TIME ? row->ns : 0);
        if (more > 0 && chosen(row, arg)) {
            json_int_t before = json_integer_value(json_object_get(sums, row->label));
            (void)json_object_set_new(sums, row->label, json_integer(before + (json_int_t)more));
        }
    }
    return sums;
}

/* Appends counts, and before in front of the first. times: NULL, or in nanoseconds. Frees both. */
static void append_sums(struct buf *text, const char *before, json_t *counts, json_t *times)
{
    struct word_list list = {.out = text, .before = before, .most = SHOWN};
    const char *label = NULL;
    json_t *count = NULL;
    json_object_foreach (counts, label, count) {
        if (!word_list_next(&list)) {
            continue;
        }
        (void)buf_appendf(text, "%s " TIMES "%lld", label, json_integer_value(count));
        if (times) {
            double ns = (double)json_integer_value(json_object_get(times, label));
            (void)buf_appendf(text, " (%.1f s)", ns / (double)CLOCK_NS_PER_S);
        }
    }
    word_list_end(&list);
    json_decref(counts);
    json_decref(times);
}

static bool is_of_cell(const struct ledger_row *row, const void *cell)
{
    return row->cell == *(const unsigned *)cell;
}

void ledger_list(const struct ledger *ledger, unsigned cell, struct buf *text)
{
    append_sums(text, "", sum(ledger, is_of_cell, &cell, DONE | UNKNOWN),
                sum(ledger, is_of_cell, &cell, TIME));
}

struct ledger_choice {
    enum ledger_scope scope;
    unsigned cell;
};

static bool is_taken_back(const struct ledger_row *row, const void *arg)
{
    const struct ledger_choice *scope = arg;
    bool later = row->cell > scope->cell;
    bool now = !row->gone && (later || !row->stays);
    bool chosen = scope->scope == LEDGER_ONE    ? row->cell == scope->cell
                  : scope->scope == LEDGER_UNDO ? now
                                                : now || later;
    return chosen && row->writes;
}

void ledger_take_back(struct ledger *ledger, enum ledger_scope scope, unsigned cell,
                      unsigned newest, const char *separator, struct buf *text)
{
    const struct ledger_choice chosen = {scope, cell};
    for (unsigned at = newest; at > 0; at = ledger->rows[at - 1].before) {
        ledger->rows[at - 1].stays = true;
    }
    append_sums(text, "not undone: ", sum(ledger, is_taken_back, &chosen, DONE), NULL);
    char before[32];
    (void)snprintf(before, sizeof before, "%sunknown: ", buf_size(text) > 0 ? separator : "");
    append_sums(text, before, sum(ledger, is_taken_back, &chosen, UNKNOWN), NULL);
    for (unsigned i = 0; i < ledger->count; i++) {
        struct ledger_row *row = &ledger->rows[i];
        row->gone = row->cell > cell || !row->stays;
        row->stays = false;
    }
    ledger->newest = newest;
}

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

/* Appends, with a NUL, what asks for a call of label (tool_label_new()) with these arguments.
 * Returns NULL, or why the user cannot be asked, a static sentence. */
static const char *tool_approval_write(struct buf *text, const char *label, const json_t *arguments)
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

/* New: "github.create_issue"; names that could be read as something else are in quotes. NULL: out
 * of memory. */
static char *tool_label_new(const char *server, const char *tool)
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

static bool tool_check_passes(struct tool_check *check)
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

/* New, or NULL: what code may know of the server's tools, each with whether it is granted. */
static json_t *tool_list_new(const struct tool_server *server)
{
    const struct tool_entry *entry = tool_server_entry(server);
    json_t *list = json_array();
    const char *name = NULL;
    json_t *tool = NULL;
    json_object_foreach (tool_server_tools(server), name, tool) {
        json_t *shown = json_pack("{s:s, s:O, s:b}", "name", name, "schema",
                                  json_object_get(tool, "inputSchema"), "granted",
                                  (int)grants_cover(entry, name, tool_only_reads(tool)));
        static const char *const texts[] = {"title", "description"};
        for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
            json_t *text = json_object_get(tool, texts[i]);
            if (json_is_string(text)) {
                (void)json_object_set(shown, texts[i], text);
            }
        }
        (void)json_array_append_new(list, shown);
    }
    return list;
}

/* New, or NULL: name → why the server is off, or null. */
static json_t *tool_list_servers_new(const struct tools_file *file)
{
    json_t *servers = json_object();
    for (size_t i = 0; i < file->count; i++) {
        const struct tool_entry *entry = &file->entries[i];
        (void)json_object_set_new(servers, entry->name,
                                  entry->off[0] ? json_string(entry->off) : json_null());
    }
    return servers;
}

enum {
    ID_BYTES = 24,
    WAITING_BYTES = 64 << 20,
};

#define CELL_ENDED "the cell has ended"

enum channel_step { STEP_STARTING, STEP_ASKING, STEP_QUEUED };

struct channel_call {
    struct tool_call call; /* first, so that one leads to the other */
    struct tool_waiter waiter;
    struct cell_elicitation elicitation;
    struct buf message; /* of the elicitation */
    struct channel_call *next;
    struct tool_channel *channel;
    struct tool_server *server;
    enum channel_step step;
    bool approved; /* by the user, where that is needed */
    bool counted;
    char id[ID_BYTES];
    char tool[TOOL_NAME_BYTES];
    char *label; /* NULL: it requests the list of tools, and no call */
    size_t bytes;
    char hash[SHA256_TEXT]; /* of the arguments, with a record */
    uint64_t left_ns;
};

/* --- replies --- */

static void reply(struct tool_channel *channel, const char *id, const char *said, const char *data,
                  size_t size)
{
    size_t at = 0;
    if (!channel->guest) {
        return;
    }
    if (box_session_unread(channel->guest) + size > LIMIT_TOOL_QUEUE_BYTES) {
        static const char full[] = "the code does not read its results: 256 MiB wait";
        said = SAID_REFUSED;
        data = full;
        size = sizeof full - 1;
    }
    do {
        size_t part = size - at < LIMIT_TOOL_PIECE_BYTES ? size - at : LIMIT_TOOL_PIECE_BYTES;
        bool more = at + part < size;
        const char *verb = more ? "more" : said;
        const struct box_field fields[] = {
            {verb, strlen(verb)}, {"id", 2}, {id, strlen(id)}, {"data", 4}, {data + at, part}};
        if (box_session_reply(channel->guest, fields, sizeof fields / sizeof *fields) < 0) {
            return; /* nobody waits for the rest */
        }
        at += part;
    } while (at < size);
}

__attribute__((format(printf, 4, 5))) static void say(struct tool_channel *channel, const char *id,
                                                      const char *said, const char *fmt, ...)
{
    char text[TOOL_REASON_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    reply(channel, id, said, text, strlen(text));
}

static void call_free(struct channel_call *call)
{
    struct tool_channel *channel = call->channel;
    list_remove(&channel->calls, call);
    channel->count--;
    channel->bytes -= call->bytes;
    json_decref(call->call.arguments);
    json_decref(call->call.input);
    free(call->label);
    buf_done(&call->message);
    free(call);
}

static const struct recording *recording_of(const struct tool_channel *channel)
{
    return channel->run && channel->run->recording.record ? &channel->run->recording : NULL;
}

/* Adds the call to the record, as hashes: what went there and came back is the code's and the tool
 * server's. said: why it has no result, or "ok"; reason: a sentence of ours, or NULL. */
static void record_call(const struct channel_call *call, const char *said, const char *result,
                        size_t size, const char *reason)
{
    const struct recording *recording = recording_of(call->channel);
    char hash[SHA256_TEXT];
    if (!recording || !call->label) {
        return;
    }
    json_t *event = recorded_event(recording);
    (void)json_object_update_new(
        event, json_pack("{s:i, s:o, s:s, s:b, s:b, s:I, s:s, s:I, s:s}", "cell",
                         (int)call->call.run->cell, "tool",
                         rpc_text(call->label, strlen(call->label)), "outcome", said, "is_error",
                         strcmp(said, SAID_RESULT) != 0, "sent", call->counted, "arguments_bytes",
                         (json_int_t)call->bytes, "arguments_sha256", call->hash, "result_bytes",
                         (json_int_t)size, "result_sha256", sha256_of(result, size, hash)));
    if (reason) {
        (void)json_object_set_new(
            event, "content",
            json_pack("[{s:s, s:o}]", "type", "text", "text", rpc_text(reason, strlen(reason))));
    }
    record_add_caused(recording->record, "tool", event);
}

/* Ends the call with a sentence. */
__attribute__((format(printf, 3, 4))) static void end_with(struct channel_call *call,
                                                           const char *said, const char *fmt, ...)
{
    char text[TOOL_REASON_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    record_call(call, said, "", 0, text);
    reply(call->channel, call->id, said, text, strlen(text));
    call_free(call);
}

/* Whether nothing is against the call; else ends it. */
static bool passes(struct channel_call *call)
{
    struct tool_check check = {.server = call->server,
                               .file = tool_servers_file(call->channel->servers),
                               .tool = call->tool,
                               .label = call->label,
                               .arguments = call->call.arguments};
    bool passed = tool_check_passes(&check);
    if (!passed) {
        end_with(call, check.said, "%s", check.text);
    }
    return passed;
}

/* --- the tool server's side --- */

static bool call_leaves(struct tool_call *base)
{
    struct channel_call *call = (struct channel_call *)base;
    struct tool_channel *channel = call->channel;
    if (!passes(call)) { /* others have left, and tools may have changed */
        return false;
    }
    const json_t *tool = json_object_get(tool_server_tools(call->server), call->tool);
    if (!ledger_add(&channel->ledger, call->call.run->cell, call->label, tool_only_reads(tool))) {
        end_with(call, SAID_REFUSED, "out of memory");
        return false;
    }
    grants_count(tool_server_entry(call->server), call->tool);
    call->counted = true;
    call->left_ns = clock_now_ns();
    return true;
}

static void log_call(const struct channel_call *call, const char *outcome, size_t size)
{
    log_info("tools", "call %s: %s, arguments of %zu bytes, result of %zu", call->label, outcome,
             call->bytes, size);
}

static void call_done(struct tool_call *base, enum tool_outcome outcome, struct span text)
{
    struct channel_call *call = (struct channel_call *)base;
    struct tool_channel *channel = call->channel;
    const char *name = tool_server_entry(call->server)->name;
    if (call->counted && outcome != TOOL_NOTHING) {
        ledger_responded(&channel->ledger, call->call.run->cell, call->label,
                         clock_now_ns() - call->left_ns);
    }
    if (outcome == TOOL_ERROR) {
        log_call(call, "refused by the server", text.size);
        record_call(call, SAID_TOOL, text.bytes, text.size, NULL);
        reply(channel, call->id, SAID_TOOL, text.bytes, text.size);
        call_free(call);
    } else if (outcome == TOOL_NOTHING) {
        log_call(call, "no response", 0);
        end_with(call, SAID_TOOL, "%s %.*s%s", TOOL_SHOWN(name), (int)text.size, text.bytes,
                 call->counted ? "; whether the call was carried out is unknown" : "");
    } else if (text.size > LIMIT_TOOL_RESULT_BYTES) {
        log_call(call, "too long", text.size);
        end_with(call, SAID_TOOL, "the call was carried out, but its result is longer than 64 MiB");
    } else {
        log_call(call, "ok", text.size);
        record_call(call, SAID_RESULT, text.bytes, text.size, NULL);
        reply(channel, call->id, SAID_RESULT, text.bytes, text.size);
        call_free(call);
    }
}

static void send_json(struct tool_channel *channel, const char *id, const json_t *value)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (!value || rpc_text_dump(&text, value) < 0) {
        say(channel, id, SAID_REFUSED, "out of memory");
    } else {
        reply(channel, id, SAID_RESULT, buf_bytes(&text), buf_size(&text));
    }
}

/* --- the user's side --- */

static void server_known(void *arg, const char *why);

static void user_responded(struct cell_elicitation *elicitation, const char *why, const json_t *)
{
    struct channel_call *call =
        (struct channel_call *)((char *)elicitation - offsetof(struct channel_call, elicitation));
    if (why) {
        end_with(call, SAID_DENIED, "not approved: %s. %s", call->label, why);
        return;
    }
    call->approved = true;
    call->step = STEP_STARTING; /* the server may have exited meanwhile, or have other tools */
    tool_server_want(call->server, &call->waiter, server_known, call);
}

/* Asks before this call, and about no other. */
static void ask_user(struct channel_call *call)
{
    const struct cell_asker *asker = tool_servers_asker(call->channel->servers);
    const char *why = !asker
                          ? "It needs the user's approval, and nobody can be asked."
                          : tool_approval_write(&call->message, call->label, call->call.arguments);
    if (why) {
        user_responded(&call->elicitation, why, NULL);
        return;
    }
    call->step = STEP_ASKING;
    call->elicitation = (struct cell_elicitation){.kind = "tool",
                                                  .subject = call->label,
                                                  .message = buf_bytes(&call->message),
                                                  .run = call->channel->run,
                                                  .fn = user_responded};
    asker->ask(asker->ctx, &call->elicitation);
}

/* --- the guest's side --- */

static void server_known(void *arg, const char *why)
{
    struct channel_call *call = arg;
    const struct tool_entry *entry = tool_server_entry(call->server);
    if (why) {
        end_with(call, SAID_TOOL, "%s %s", TOOL_SHOWN(entry->name), why);
        return;
    }
    if (!call->label) {
        json_auto_t *list = tool_list_new(call->server);
        send_json(call->channel, call->id, list);
        call_free(call);
    } else if (!passes(call)) {
        return;
    } else if (!call->approved && grants_ask(entry, call->tool)) {
        ask_user(call);
    } else {
        call->step = STEP_QUEUED;
        tool_server_add(call->server, &call->call);
    }
}

/* A field as a NUL-terminated string. False: missing, too long, or with a NUL in it. */
static bool take_text(const struct box_message *message, const char *name, char *out, size_t size)
{
    struct box_field field = {};
    bool fits = box_message_get(message, name, &field) && field.size < size &&
                !memchr(field.data, '\0', field.size);
    if (fits && field.size > 0) {
        memcpy(out, field.data, field.size);
    }
    out[fits ? field.size : 0] = '\0';
    return fits;
}

/* New: an object, or NULL with *ret_why. */
static json_t *parse_arguments(const struct box_field *field, const char **ret_why)
{
    json_error_t error = {};
    *ret_why = "too long: more than 4 MiB";
    if (field->size > LIMIT_TOOL_ARGUMENTS_BYTES) {
        return NULL;
    }
    *ret_why = "nested too deeply, or too many values";
    if (scan_size((struct span){field->data, field->size}, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES) !=
        SCAN_FITS) {
        return NULL;
    }
    bool marked = false;
    json_t *arguments = rpc_text_load_marked(field->data, field->size, &error, &marked);
    *ret_why = marked ? "a text has half of a surrogate pair, which is no character"
               : json_error_code(&error) == json_error_duplicate_key ? "a key occurs twice"
               : json_error_code(&error) == json_error_numeric_overflow
                   ? "a number is out of range: integers are from -2**63 to 2**63 - 1"
                   : "not a JSON object";
    if (marked || !json_is_object(arguments)) {
        json_decref(arguments);
        return NULL;
    }
    return arguments;
}

static struct channel_call *call_new(struct tool_channel *channel, const char *id,
                                     struct tool_server *server)
{
    struct channel_call *call = calloc(1, sizeof *call);
    if (call) {
        (void)snprintf(call->id, sizeof call->id, "%s", id);
        call->channel = channel;
        call->server = server;
        call->call.run = channel->run;
        call->call.session = channel->session;
        call->call.leave = call_leaves;
        call->call.done = call_done;
        call->call.tool = call->tool;
        call->next = channel->calls;
        channel->calls = call;
        channel->count++;
    }
    return call;
}

static void take_call(struct tool_channel *channel, const struct box_message *message,
                      const char *id, struct tool_server *server)
{
    struct box_field arguments = {};
    const char *why = NULL;
    struct channel_call *call = call_new(channel, id, server);
    if (!call) {
        say(channel, id, SAID_REFUSED, "out of memory");
        return;
    }
    const char *name = tool_server_entry(server)->name;
    if (box_field_is(&message->fields[0], "call")) {
        if (!take_text(message, "tool", call->tool, sizeof call->tool) || !call->tool[0] ||
            !box_message_get(message, "arguments", &arguments) ||
            !(call->label = tool_label_new(name, call->tool))) {
            end_with(call, SAID_UNKNOWN, "%s has no such tool", TOOL_SHOWN(name));
            return;
        }
        call->call.arguments = parse_arguments(&arguments, &why);
        if (!call->call.arguments) {
            end_with(call, SAID_INVALID, "the arguments of %s: %s", call->label, why);
            return;
        }
        call->bytes = arguments.size;
        if (recording_of(channel)) {
            (void)sha256_of(arguments.data, arguments.size, call->hash);
        }
        channel->bytes += call->bytes;
    }
    tool_server_want(server, &call->waiter, server_known, call);
}

/* reason: why it gets no response. */
static void drop_call(struct channel_call *call, const char *reason)
{
    record_call(call, SAID_REFUSED, "", 0, reason);
    if (call->waiter.server) {
        tool_server_forget(&call->waiter);
    } else if (call->step == STEP_ASKING) {
        const struct cell_asker *asker = tool_servers_asker(call->channel->servers);
        asker->withdraw(asker->ctx, &call->elicitation);
    } else if (call->step == STEP_QUEUED) {
        tool_calls_drop(&call->call);
    }
    call_free(call);
}

static void cancel_call(const struct tool_channel *channel, const char *id)
{
    for (struct channel_call *call = channel->calls; call; call = call->next) {
        if (strcmp(call->id, id) == 0) {
            drop_call(call, "the code has cancelled it");
            return;
        }
    }
}

void tool_channel_receive(struct tool_channel *channel, const struct box_message *message)
{
    char id[ID_BYTES];
    char name[TOOL_NAME_BYTES];
    const struct box_field *verb = &message->fields[0];
    bool known = box_field_is(verb, "call") || box_field_is(verb, "list");
    if (!take_text(message, "id", id, sizeof id) || !channel->servers || !channel->guest) {
        return;
    }
    if (box_field_is(verb, "cancel")) {
        cancel_call(channel, id);
        return;
    }
    if (box_field_is(verb, "servers")) {
        json_auto_t *servers = tool_list_servers_new(tool_servers_file(channel->servers));
        send_json(channel, id, servers);
        return;
    }
    struct tool_server *server = known && take_text(message, "server", name, sizeof name)
                                     ? tool_servers_find(channel->servers, name)
                                     : NULL;
    if (!channel->run) {
        say(channel, id, SAID_REFUSED, "no cell runs: tools can be called only while one does");
    } else if (!server) {
        say(channel, id, SAID_UNKNOWN, "there is no such tool server");
    } else if (tool_server_entry(server)->off[0]) {
        say(channel, id, SAID_TOOL, "%s is off: %s", TOOL_SHOWN(name),
            tool_server_entry(server)->off);
    } else if (channel->count >= LIMIT_TOOL_WAITING || channel->bytes > WAITING_BYTES) {
        say(channel, id, SAID_REFUSED, "too many calls wait: at most %u, with 64 MiB of arguments",
            LIMIT_TOOL_WAITING);
    } else {
        take_call(channel, message, id, server);
    }
}

void tool_channel_begin(struct tool_channel *channel, struct box_session *guest, struct run *run)
{
    channel->guest = guest;
    channel->run = run;
}

void tool_channel_end(struct tool_channel *channel)
{
    while (channel->calls) {
        say(channel, channel->calls->id, SAID_REFUSED, CELL_ENDED);
        drop_call(channel->calls, CELL_ENDED);
    }
    channel->run = NULL;
}

void tool_channel_done(struct tool_channel *channel)
{
    channel->guest = NULL;
    tool_channel_end(channel);
    ledger_done(&channel->ledger);
}
