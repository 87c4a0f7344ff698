/* Puts one table at the end of a TOML file (version 1.0.0 of its specification), or in the place of
 * the table of that name, or takes that out. Walks the file only to find what it defines, and skips
 * values. Refuses a file that defines the wanted name in another form, or that the walk does not
 * understand. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "bridge/edit.h"

#define BARE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

enum { PARTS_MOST = 3, PART_BYTES = 128 };

/* The first parts of a dotted key. */
struct key {
    char parts[PARTS_MOST][PART_BYTES];
    unsigned count;
};

struct walk {
    const char *text; /* ends with a NUL */
    size_t at;
    const char *section;
    const char *name;
    struct key table; /* the table of the keys that follow */
    bool present;     /* the file defines the wanted name */
    bool elsewhere;   /* also by another table or key than the one from begin to end */
    bool is_inside;   /* of that table */
    size_t begin;
    size_t end;
    const json_t *entry; /* the wanted one, or NULL */
    bool starts_program; /* the table has a command */
    struct buf kept;     /* its lines that the entry does not have, such as the environment */
    struct buf rest;     /* the file without it and the tables in it, up to rest_at */
    size_t rest_at;
    bool was_own; /* the last line before that was one of these */
    bool closed;  /* the section is not a table that can be extended */
};

static void walk_done(struct walk *walk)
{
    buf_done(&walk->kept);
    buf_done(&walk->rest);
}

/* As strspn() and strcspn(), which the libraries of sanitizers let read all of the text. */
static size_t span(const char *text, const char *set)
{
    size_t size = 0;
    while (text[size] && strchr(set, text[size])) {
        size++;
    }
    return size;
}

static size_t line_size(const char *text)
{
    size_t size = 0;
    while (text[size] && text[size] != '\n') {
        size++;
    }
    return size;
}

static void skip_blanks(struct walk *walk)
{
    walk->at += span(walk->text + walk->at, " \t");
}

/* Skips the end of the line and a comment. False when something else is left on it. */
static bool skip_line_end(struct walk *walk)
{
    const char *text = walk->text;
    skip_blanks(walk);
    if (text[walk->at] == '#') {
        walk->at += line_size(text + walk->at);
    }
    walk->at += text[walk->at] == '\r' && text[walk->at + 1] == '\n';
    if (text[walk->at] && text[walk->at] != '\n') {
        return false;
    }
    walk->at += text[walk->at] == '\n';
    return true;
}

/* Skips the string, of any of the four kinds, that begins here. */
static bool skip_string(struct walk *walk)
{
    const char *text = walk->text + walk->at;
    char quote = *text;
    bool is_long = text[1] == quote && text[2] == quote;
    size_t at = is_long ? 3 : 1;
    for (; text[at]; at++) {
        if (quote == '"' && text[at] == '\\' && text[at + 1]) {
            at++;
        } else if (!is_long && text[at] == '\n') {
            return false;
        } else if (text[at] == quote &&
                   (!is_long || (text[at + 1] == quote && text[at + 2] == quote))) {
            break;
        }
    }
    if (!text[at]) {
        return false;
    }
    at += is_long ? 3 : 1;
    /* One or two quotes may precede the three that end it. */
    for (unsigned i = 0; is_long && i < 2 && text[at] == quote; i++) {
        at++;
    }
    walk->at += at;
    return true;
}

/* Skips the list or inline table that begins here. */
static bool skip_brackets(struct walk *walk)
{
    size_t depth = 0;
    do {
        char c = walk->text[walk->at];
        if (!c) {
            return false;
        }
        if (c == '"' || c == '\'') {
            if (!skip_string(walk)) {
                return false;
            }
            continue;
        }
        if (c == '#') {
            walk->at += line_size(walk->text + walk->at);
            continue;
        }
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        walk->at++;
    } while (depth > 0);
    return true;
}

/* Skips the value that begins here. */
static bool skip_value(struct walk *walk)
{
    char c = walk->text[walk->at];
    if (c == '"' || c == '\'') {
        return skip_string(walk);
    }
    if (c == '[' || c == '{') {
        return skip_brackets(walk);
    }
    /* Numbers, true and false, and times, which may have a blank after the date. */
    size_t size = span(walk->text + walk->at, BARE "+.: ");
    walk->at += size;
    return size > 0;
}

/* Reads one part of a key into part; its first bytes suffice to tell it from the wanted names. */
static bool read_part(struct walk *walk, char part[PART_BYTES])
{
    const char *from = walk->text + walk->at;
    size_t size = 0;
    if (*from == '"' || *from == '\'') {
        size_t start = walk->at;
        if (!skip_string(walk)) {
            return false;
        }
        size = walk->at - start - 2;
        from++;
    } else {
        size = span(from, BARE);
        walk->at += size;
        if (size == 0) {
            return false;
        }
    }
    size = size < PART_BYTES ? size : PART_BYTES - 1;
    memcpy(part, from, size);
    part[size] = '\0';
    return true;
}

/* Reads a dotted key and appends its parts to key. */
static bool read_key(struct walk *walk, struct key *key)
{
    for (;;) {
        char part[PART_BYTES];
        skip_blanks(walk);
        if (!read_part(walk, part)) {
            return false;
        }
        if (key->count < PARTS_MOST) {
            memcpy(key->parts[key->count], part, PART_BYTES);
        }
        key->count++;
        skip_blanks(walk);
        if (walk->text[walk->at] != '.') {
            return true;
        }
        walk->at++;
    }
}

static bool is_wanted(const struct walk *walk, const struct key *key)
{
    return key->count >= 2 && strcmp(key->parts[0], walk->section) == 0 &&
           strcmp(key->parts[1], walk->name) == 0;
}

/* Notes whether a key defines the section or the name in it. A part with an escape could be any
 * name. is_table: a header in single brackets. */
static void note(struct walk *walk, const struct key *key, bool is_table)
{
    if (key->count == 0) {
        return;
    }
    walk->closed |= strchr(key->parts[0], '\\') != NULL;
    if (strcmp(key->parts[0], walk->section) != 0) {
        return;
    }
    if (key->count == 1) {
        walk->closed |= !is_table;
    } else {
        bool has_escape = strchr(key->parts[1], '\\') != NULL;
        walk->present |= has_escape || is_wanted(walk, key);
        walk->elsewhere |= has_escape;
    }
}

/* Walks "[a.b]" or "[[a.b]]". */
static bool walk_header(struct walk *walk)
{
    bool is_array = walk->text[walk->at + 1] == '[';
    walk->at += is_array ? 2 : 1;
    walk->table = (struct key){};
    if (!read_key(walk, &walk->table) ||
        strncmp(walk->text + walk->at, is_array ? "]]" : "]", is_array ? 2 : 1) != 0) {
        return false;
    }
    walk->at += is_array ? 2 : 1;
    note(walk, &walk->table, !is_array);
    bool is_it = walk->table.count == 2 && is_wanted(walk, &walk->table);
    walk->is_inside = is_it && !is_array && !walk->end;
    walk->elsewhere |= is_it && !walk->is_inside;
    return skip_line_end(walk);
}

/* Walks "a.b = value". */
static bool walk_pair(struct walk *walk)
{
    size_t start = walk->at;
    struct key key = walk->table;
    if (!read_key(walk, &key) || walk->text[walk->at] != '=') {
        return false;
    }
    walk->at++;
    skip_blanks(walk);
    note(walk, &key, /* is_table= */ false);
    walk->elsewhere |= walk->table.count < 2 && is_wanted(walk, &key);
    if (!skip_value(walk) || !skip_line_end(walk)) {
        return false;
    }
    const char *member = walk->is_inside ? key.parts[PARTS_MOST - 1] : NULL;
    walk->starts_program |= member && strcmp(member, "command") == 0;
    if (member && !json_object_get(walk->entry, member) && !strchr(member, '\\')) {
        buf_append(&walk->kept, walk->text + start, walk->at - start);
    }
    return true;
}

/* Notes whether what begins at start and ends here is of the wanted table or of one in it, such as
 * its environment. Comments between these belong to them. */
static void leave_out(struct walk *walk, size_t start)
{
    bool is_own = is_wanted(walk, &walk->table);
    if (is_own && !walk->was_own) {
        buf_append(&walk->rest, walk->text + walk->rest_at, start - walk->rest_at);
    }
    walk->rest_at = is_own ? walk->at : walk->rest_at;
    walk->was_own = is_own;
}

/* Returns 0, or the number of the line that it does not understand. */
static size_t walk_file(struct walk *walk)
{
    while (walk->text[walk->at]) {
        size_t start = walk->at;
        skip_blanks(walk);
        char c = walk->text[walk->at];
        bool right = c == '['                   ? walk_header(walk)
                     : c && !strchr("#\r\n", c) ? walk_pair(walk)
                                                : skip_line_end(walk);
        if (!right) {
            size_t line = 1;
            for (size_t i = 0; i < start; i++) {
                line += walk->text[i] == '\n';
            }
            return line;
        }
        if (!c || strchr("#\r\n", c)) {
            continue;
        }
        if (walk->is_inside) {
            walk->begin = c == '[' ? start : walk->begin;
            walk->end = walk->at;
        }
        leave_out(walk, start);
    }
    return 0;
}

/* Appends "[section.name]" and a line for each member. TOML writes strings and lists of strings as
 * JSON does, but for DEL, which it escapes. */
static void append_table(struct buf *out, const char *section, const struct bridge_server *server)
{
    const char *key = NULL;
    const json_t *value = NULL;
    buf_appendf(out, "[%s.%s]\n", section, server->name);
    json_object_foreach ((json_t *)(uintptr_t)server->entry, key, value) {
        defer_free char *text = json_dumps(value, JSON_ENCODE_ANY);
        buf_appendf(out, "%s = ", key);
        for (const char *at = text ? text : ""; *at; at++) {
            buf_append_text(out, *at == '\x7f' ? "\\u007F" : (char[]){*at, '\0'});
        }
        buf_append_text(out, "\n");
    }
}

/* Whether text has these lines, from the start of a line on. */
static bool has_lines(const char *text, const char *lines)
{
    const char *found = text;
    while ((found = strstr(found, lines)) && found != text && found[-1] != '\n') {
        found++;
    }
    return found != NULL;
}

int edit_toml(const char *section, const struct bridge_server *server, const char *text,
              size_t size, struct buf *out, struct fail *ret_fail)
{
    OWNED(buf_done) struct buf table = BUF_EMPTY;
    OWNED(buf_done) struct buf copy = BUF_EMPTY;
    if (server->entry) {
        append_table(&table, section, server);
    }
    buf_append(&copy, text, size);
    if (buf_error(&table) || buf_error(&copy)) {
        return fail_set(ret_fail, ENOMEM, "cannot edit it");
    }
    const char *old = buf_text(&copy);
    if (strlen(old) != size) {
        return fail_set(ret_fail, EINVAL, "it contains a NUL byte");
    }
    size_t start = strncmp(old, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* after a byte order mark */
    OWNED(walk_done)
    struct walk walk = {.text = old,
                        .at = start,
                        .section = section,
                        .name = server->name,
                        .entry = server->entry,
                        .kept = BUF_EMPTY,
                        .rest = BUF_EMPTY};
    size_t line = walk_file(&walk);
    if (line) {
        return fail_set(ret_fail, EINVAL, "cannot parse line %zu", line);
    }
    if (walk.closed) {
        return fail_set(ret_fail, EINVAL, "its %s is not a table that can be extended", section);
    }
    if (server->entry ? walk.present && has_lines(old + start, buf_text(&table)) : !walk.present) {
        return BRIDGE_EDIT_SAME;
    }
    if (!server->entry && walk.elsewhere) {
        return fail_set(ret_fail, EEXIST, "its %s.%s is no table with a header: remove it by hand",
                        section, server->name);
    }
    if (walk.present && !walk.elsewhere && (walk.end || !server->entry)) {
        bool stays = server->entry && walk.starts_program; /* what is in it or below it */
        size_t rest_at = stays ? walk.end : walk.rest_at;
        buf_append(out, stays ? old : buf_bytes(&walk.rest),
                   stays ? walk.begin : buf_size(&walk.rest));
        buf_append_buf(out, &table);
        if (stays) {
            buf_append_buf(out, &walk.kept);
        }
        buf_append(out, old + rest_at, size - rest_at);
        return buf_error(out)  ? fail_set(ret_fail, ENOMEM, "cannot edit it")
               : server->entry ? BRIDGE_EDIT_REPLACED
                               : BRIDGE_EDIT_REMOVED;
    }
    if (walk.present) {
        return fail_set(ret_fail, EEXIST, "it already has another %s.%s", section, server->name);
    }
    buf_append(out, old, size);
    buf_append_text(out, size == 0 ? "" : old[size - 1] == '\n' ? "\n" : "\n\n");
    buf_append_buf(out, &table);
    return buf_error(out) ? fail_set(ret_fail, ENOMEM, "cannot edit it") : BRIDGE_EDIT_ADDED;
}
