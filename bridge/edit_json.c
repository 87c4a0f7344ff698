/* Puts one member into a JSON file, or takes it out, and leaves the rest as it is. A copy of the
 * text, with the same length, has blanks instead of comments and of commas before closing brackets:
 * jansson parses that copy and so checks the whole file, and offsets in it are offsets in the file.
 * Finally the result is parsed again and compared with the expected value. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "bridge/edit.h"

enum { INDENT_MOST = 16 };

struct file {
    const char *text;
    size_t size;
    struct buf texts[2]; /* the buffers of the next two */
    char *bare;          /* without comments */
    char *strict;        /* without comments and commas before a closing bracket */
    json_t *root;        /* strict as parsed */
    const char *line_end;
    char indent[INDENT_MOST + 1]; /* of one level */
};

/* An object in the text, from its opening to its closing brace. */
struct object {
    size_t open;
    size_t close;
    size_t last_end; /* after its last value; after the opening brace when it is empty */
    size_t key;      /* of the member that was found */
    size_t before;   /* the end of the value before it; after the opening brace: there is none */
    bool empty;
};

static void file_done(struct file *file)
{
    buf_done(&file->texts[0]);
    buf_done(&file->texts[1]);
    json_decref(file->root);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t skip_blanks(const char *text, size_t at)
{
    while (is_blank(text[at])) {
        at++;
    }
    return at;
}

/* Returns the offset after the string that begins at at; the end of the text when it does not
 * end. */
static size_t skip_string(const char *text, size_t at)
{
    for (at++; text[at] && text[at] != '"'; at++) {
        at += text[at] == '\\' && text[at + 1];
    }
    return at + (text[at] == '"');
}

/* Writes blanks over all but the ends of lines. */
static void blank(char *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (!is_blank(text[i])) {
            text[i] = ' ';
        }
    }
}

static void blank_comments(char *text)
{
    size_t at = 0;
    while (text[at]) {
        size_t from = at;
        if (text[at] == '"') {
            at = skip_string(text, at);
        } else if (strncmp(text + at, "//", 2) == 0) {
            at += strcspn(text + at, "\n");
            blank(text, from, at);
        } else if (strncmp(text + at, "/*", 2) == 0) {
            const char *end = strstr(text + at + 2, "*/");
            at = end ? (size_t)(end + 2 - text) : strlen(text);
            blank(text, from, end ? at : from); /* jansson reports one that does not end */
        } else {
            at++;
        }
    }
}

/* A comma without a value before it, as in "{,}", stays, so that jansson reports it. */
static void blank_last_commas(char *text)
{
    size_t at = 0;
    char before = '\0'; /* the last character that is not blank */
    while (text[at]) {
        if (text[at] == '"') {
            before = '"';
            at = skip_string(text, at);
            continue;
        }
        char next = '\0'; /* what follows a comma */
        if (text[at] == ',') {
            next = text[skip_blanks(text, at + 1)];
        }
        if ((next == '}' || next == ']') && !strchr("{[,", before)) {
            text[at] = ' ';
        } else if (!is_blank(text[at])) {
            before = text[at];
        }
        at++;
    }
}

/* Reads the text. 0, -EINVAL or -ENOMEM. */
static int file_read(struct file *file, const char *text, size_t size, struct fail *ret_fail)
{
    json_error_t error = {};
    file->text = text;
    file->size = size;
    file->line_end = memchr(text, '\r', size) ? "\r\n" : "\n";
    if (memchr(text, '\0', size)) {
        (void)fail_set(ret_fail, EINVAL, "it contains a NUL byte");
        return -EINVAL;
    }
    for (unsigned i = 0; i < 2; i++) {
        buf_append(&file->texts[i], text, size);
        if (buf_append(&file->texts[i], "", 1) < 0) {
            (void)fail_set(ret_fail, ENOMEM, "cannot read it");
            return -ENOMEM;
        }
    }
    file->bare = file->texts[0].data;
    file->strict = file->texts[1].data;
    if (strncmp(file->bare, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        blank(file->bare, 0, 3);
    }
    blank_comments(file->bare);
    memcpy(file->strict, file->bare, size);
    blank_last_commas(file->strict);
    file->root = json_loadb(file->strict, size, JSON_REJECT_DUPLICATES, &error);
    if (!file->root) {
        return fail_set(ret_fail, EINVAL, "line %d: %s", error.line, error.text);
    }
    return json_is_object(file->root) ? 0 : fail_set(ret_fail, EINVAL, "it is not a JSON object");
}

/* Returns the offset after the value that begins at at, in valid text. */
static size_t skip_value(const char *text, size_t at)
{
    size_t depth = 0;
    do {
        if (text[at] == '"') {
            at = skip_string(text, at);
            continue;
        }
        depth += text[at] == '{' || text[at] == '[';
        depth -= text[at] == '}' || text[at] == ']';
        at++;
    } while (depth > 0 || (!is_blank(text[at]) && !strchr(",]}", text[at])));
    return at;
}

static bool is_key(const char *text, size_t from, size_t to, const char *key)
{
    json_auto_t *string = json_loadb(text + from, to - from, JSON_DECODE_ANY, NULL);
    return string && strcmp(json_string_value(string), key) == 0;
}

/* Walks the object at open. Returns where the value of key begins; 0 when it has no such key. */
static size_t find_member(const char *text, size_t open, const char *key, struct object *ret_object)
{
    struct object object = {.open = open, .last_end = open + 1, .empty = true};
    size_t found = 0;
    size_t at = skip_blanks(text, open + 1);
    while (text[at] != '}') {
        size_t key_end = skip_string(text, at);
        size_t value = skip_blanks(text, skip_blanks(text, key_end) + 1); /* past the colon */
        if (is_key(text, at, key_end, key)) {
            found = value;
            object.key = at;
            object.before = object.last_end;
        }
        object.last_end = skip_value(text, value);
        object.empty = false;
        at = skip_blanks(text, object.last_end);
        at = text[at] == ',' ? skip_blanks(text, at + 1) : at;
    }
    object.close = at;
    *ret_object = object;
    return found;
}

/* Copies the blanks between the start of a line and at; false when it has other characters. */
static bool line_indent(const char *text, size_t at, char indent[INDENT_MOST + 1])
{
    size_t from = at;
    while (from > 0 && (text[from - 1] == ' ' || text[from - 1] == '\t')) {
        from--;
    }
    if (from == 0 || text[from - 1] != '\n' || at - from > INDENT_MOST) {
        return false;
    }
    memcpy(indent, text + from, at - from);
    indent[at - from] = '\0';
    return true;
}

/* Two blanks a level, unless the first member has another indentation. */
static void find_indent(struct file *file)
{
    size_t open = skip_blanks(file->strict, 0);
    if (!line_indent(file->text, skip_blanks(file->strict, open + 1), file->indent) ||
        !file->indent[0]) {
        memcpy(file->indent, "  ", 3);
    }
}

static void append_indent(const struct file *file, struct buf *out, size_t levels)
{
    for (size_t i = 0; i < levels; i++) {
        buf_append_text(out, file->indent);
    }
}

/* Appends the value at this depth, in the indentation of the file. */
static void append_value(const struct file *file, struct buf *out, const json_t *value,
                         size_t levels)
{
    defer_free char *text = json_dumps(value, JSON_INDENT(1));
    for (const char *at = text ? text : ""; *at;) {
        size_t line = strcspn(at, "\n");
        buf_append(out, at, line);
        at += line;
        if (*at) {
            size_t deeper = strspn(++at, " ");
            at += deeper;
            buf_append_text(out, file->line_end);
            append_indent(file, out, levels + deeper);
        }
    }
}

/* Appends the text with one more member at the object's end. levels: the depth of the member. */
static void append_with_member(const struct file *file, struct buf *out,
                               const struct object *object, const char *key, const json_t *value,
                               size_t levels)
{
    const char *text = file->text;
    size_t end = object->close; /* after everything in the object, comments too */
    while (is_blank(text[end - 1])) {
        end--;
    }
    size_t rest = object->close - object->last_end;
    bool comma = !object->empty && !memchr(file->bare + object->last_end, ',', rest);
    bool own_line = memchr(text + end, '\n', object->close - end) != NULL;
    buf_append(out, text, object->last_end);
    buf_append_text(out, comma ? "," : "");
    buf_append(out, text + object->last_end, end - object->last_end);
    buf_append_text(out, file->line_end);
    append_indent(file, out, levels);
    buf_appendf(out, "\"%s\": ", key);
    append_value(file, out, value, levels);
    if (!own_line) {
        buf_append_text(out, file->line_end);
        append_indent(file, out, levels - 1);
        end = object->close;
    }
    buf_append(out, text + end, file->size - end);
}

/* Appends the text with the value at value_at replaced. */
static void append_with_value(const struct file *file, struct buf *out, size_t value_at,
                              const json_t *value, size_t levels)
{
    size_t end = skip_value(file->strict, value_at);
    buf_append(out, file->text, value_at);
    append_value(file, out, value, levels);
    buf_append(out, file->text + end, file->size - end);
}

/* Appends the text without the member that was found, whose value is at value_at. With it go the
 * comma after it, else the one before it, and its lines where nothing else is on them. */
static void append_without_member(const struct file *file, struct buf *out,
                                  const struct object *object, size_t value_at)
{
    const char *text = file->text;
    size_t from = object->key;
    size_t to = skip_value(file->strict, value_at);
    size_t comma = skip_blanks(file->bare, to);
    if (file->bare[comma] == ',') {
        to = comma + 1;
        comma = from;
    } else {
        const char *before = memchr(file->bare + object->before, ',', from - object->before);
        comma = before ? (size_t)(before - file->bare) : from;
    }
    size_t line = from;
    size_t end = to;
    while (line > 0 && (text[line - 1] == ' ' || text[line - 1] == '\t')) {
        line--;
    }
    while (end < file->size && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r')) {
        end++;
    }
    if (line > 0 && text[line - 1] == '\n' && end < file->size && text[end] == '\n') {
        from = line;
        to = end + 1;
    }
    size_t rest = comma < from ? comma + 1 : from;
    comma = comma < from ? comma : from;
    buf_append(out, text, comma);
    buf_append(out, text + rest, from - rest);
    buf_append(out, text + to, file->size - to);
}

static void append_edited(struct file *file, struct buf *out, const char *section,
                          const struct bridge_server *server)
{
    struct object root = {};
    struct object servers = {};
    find_indent(file);
    size_t at = find_member(file->strict, skip_blanks(file->strict, 0), section, &root);
    size_t value = at ? find_member(file->strict, at, server->name, &servers) : 0;
    if (!at) {
        json_auto_t *only = json_pack("{s:O}", server->name, server->entry);
        append_with_member(file, out, &root, section, only, 1);
    } else if (!server->entry) {
        append_without_member(file, out, &servers, value);
    } else if (value) {
        append_with_value(file, out, value, server->entry, 2);
    } else {
        append_with_member(file, out, &servers, server->name, server->entry, 2);
    }
}

/* Whether out has the values of the file and the entry. */
static bool is_as_wanted(const struct file *file, const struct buf *out, const char *section,
                         const struct bridge_server *server)
{
    OWNED(file_done) struct file edited = {};
    json_auto_t *wanted = json_deep_copy(file->root);
    json_t *servers = json_object_get(wanted, section);
    if (!servers) {
        servers = json_object();
        (void)json_object_set_new(wanted, section, servers);
    }
    json_auto_t *copy = server->entry ? json_deep_copy(server->entry) : NULL;
    return (server->entry ? json_object_set(servers, server->name, copy)
                          : json_object_del(servers, server->name)) == 0 &&
           file_read(&edited, buf_bytes(out), buf_size(out), NULL) == 0 &&
           json_equal(edited.root, wanted);
}

/* New: the entry with what else the user has put into the old one (env, disabled, …), unless that
 * was a server of another kind, such as one with a URL. */
static json_t *merge(const json_t *old, const json_t *entry)
{
    static const char *const choices[] = {"enabled", "tools"};
    json_t *merged = json_deep_copy(json_object_get(old, "command") ? old : entry);
    (void)json_object_update(merged, (json_t *)(uintptr_t)entry);
    for (unsigned i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (json_object_get(old, choices[i])) {
            (void)json_object_set(merged, choices[i], json_object_get(old, choices[i]));
        }
    }
    return merged;
}

int edit_json(const char *section, const struct bridge_server *server, const char *text,
              size_t size, struct buf *out, struct fail *ret_fail)
{
    OWNED(file_done) struct file file = {};
    size_t first = 0;
    while (first < size && is_blank(text[first])) {
        first++;
    }
    if (first == size) {
        text = "{}\n";
        size = 3;
    }
    int r = file_read(&file, text, size, ret_fail);
    if (r < 0) {
        return r;
    }
    const json_t *servers = json_object_get(file.root, section);
    const json_t *old = json_object_get(servers, server->name);
    if (servers && !json_is_object(servers)) {
        return fail_set(ret_fail, EINVAL, "its \"%s\" is not an object", section);
    }
    json_auto_t *entry = server->entry && old ? merge(old, server->entry) : NULL;
    struct bridge_server wanted = {server->name, entry ? entry : server->entry};
    if (wanted.entry ? old && json_equal(old, wanted.entry) : !old) {
        return BRIDGE_EDIT_SAME;
    }
    OWNED(buf_done) struct buf edited = BUF_EMPTY;
    append_edited(&file, &edited, section, &wanted);
    r = is_as_wanted(&file, &edited, section, &wanted) ? 0 : -EINVAL;
    buf_append_buf(out, &edited);
    r = buf_error(out) ? buf_error(out) : r;
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot edit it");
    }
    return !server->entry ? BRIDGE_EDIT_REMOVED : old ? BRIDGE_EDIT_REPLACED : BRIDGE_EDIT_ADDED;
}
