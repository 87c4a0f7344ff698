#include "tools/tolerance.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"

/* What clients add to every call for themselves. */
static const char *const added[] = {
    "sessionId",     "chatInput",         "toolCallId",    "tool", /* n8n */
    "task_progress", "requires_approval", "security_risk",         /* Cline, OpenHands */
};

static void drop_added(json_t *arguments)
{
    const char *action = json_string_value(json_object_get(arguments, "action"));
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        (void)json_object_del(arguments, added[i]);
    }
    if (action && strcmp(action, "sendMessage") == 0) { /* n8n's; another may be a model's */
        (void)json_object_del(arguments, "action");
    }
}

struct habit {
    const char *tool; /* of an argument */
    const char *name;
    const char *instead;
};

static const char lines_instead[] = "Send start_line and end_line.";
static const char edit_instead[] = "write_file edits with old_text and new_text.";
static const char read_instead[] = "read_file shows files, images and directories.";
static const char run_instead[] = "run_python runs Python code.";
static const char shell_instead[] =
    "run_python runs shell commands: a line of code that begins "
    "with \"!\", or a cell that begins with \"%%bash\".";

static const struct habit arguments_of_others[] = {
    {"read_file", "view_range", lines_instead},
    {"read_file", "limit", lines_instead},
    {"write_file", "replace_all",
     "old_text is replaced at one place; replace it everywhere with run_python."},
    {"write_file", "edits", "Send old_text and new_text, one edit a call."},
    {"write_file", "insert_line",
     "Send the line before it as old_text, with the new one added as "
     "new_text."},
    {"run_python", "command", shell_instead},
    {"run_python", "cwd", "Change the directory in code, with os.chdir()."},
};

static const struct habit tools_of_others[] = {
    {"", "bash", shell_instead},
    {"", "shell", shell_instead},
    {"", "terminal", shell_instead},
    {"", "run_command", shell_instead},
    {"", "execute_command", shell_instead},
    {"", "edit", edit_instead},
    {"", "edit_file", edit_instead},
    {"", "str_replace", edit_instead},
    {"", "str_replace_editor", edit_instead},
    {"", "str_replace_based_edit_tool", edit_instead},
    {"", "create_file", "write_file creates files."},
    {"", "view", read_instead},
    {"", "list_directory", read_instead},
    {"", "python", run_instead},
    {"", "execute_code", run_instead},
    {"", "code_interpreter", run_instead},
};

static const char *find_habit(const struct habit *habits, size_t count, const char *tool,
                              const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(habits[i].tool, tool) == 0 && strcmp(habits[i].name, name) == 0) {
            return habits[i].instead;
        }
    }
    return NULL;
}

const char *tolerance_argument(const char *tool, const char *name)
{
    return find_habit(arguments_of_others, sizeof arguments_of_others / sizeof *arguments_of_others,
                      tool, name);
}

const char *tolerance_tool(const char *name)
{
    return find_habit(tools_of_others, sizeof tools_of_others / sizeof *tools_of_others, "", name);
}

/* --- run_python --- */

static bool is_absent(const json_t *arguments, const char *name)
{
    const json_t *value = json_object_get(arguments, name);
    return !value || json_is_null(value);
}

/* A call that only changes the state needs no code. */
static int allow_no_code(json_t *arguments)
{
    bool acts = json_is_true(json_object_get(arguments, "undo")) ||
                json_is_true(json_object_get(arguments, "reset")) ||
                !is_absent(arguments, "restore") || !is_absent(arguments, "checkpoint") ||
                !is_absent(arguments, "drop");
    return acts && is_absent(arguments, "code") &&
                   json_object_set_new(arguments, "code", json_string("")) < 0
               ? -ENOMEM
               : 0;
}

/* --- the file tools --- */

/* The names that other tools have for the same argument: "other", "ours", in pairs up to NULL. */
static int rename_arguments(json_t *arguments, const char *const (*names)[2])
{
    for (; (*names)[0]; names++) {
        const char *ours = (*names)[1];
        json_t *value = json_object_get(arguments, (*names)[0]);
        if (value && is_absent(arguments, ours) &&
            (json_object_set(arguments, ours, value) < 0 ||
             json_object_del(arguments, (*names)[0]) < 0)) {
            return -ENOMEM;
        }
    }
    return 0;
}

static const char *const run_names[][2] = {{"restart", "reset"}, {NULL, NULL}};
static const char *const read_names[][2] = {{"file_path", "path"}, {NULL, NULL}};
static const char *const write_names[][2] = {
    {"file_path", "path"},
    {"file_text", "content"},
    {"old_str", "old_text"},
    {"new_str", "new_text"},
    {"old_string", "old_text"},
    {"new_string", "new_text"},
    {NULL, NULL},
};

static bool is_empty(const json_t *arguments, const char *name)
{
    const json_t *value = json_object_get(arguments, name);
    return !value || (json_is_string(value) && json_string_length(value) == 0);
}

/* A write or an edit whose other texts are sent empty, as clients do that send every property. */
static void drop_empty_texts(json_t *arguments)
{
    if (!is_empty(arguments, "old_text") && is_empty(arguments, "content")) {
        (void)json_object_del(arguments, "content");
    } else if (!is_absent(arguments, "content") && is_empty(arguments, "old_text") &&
               is_empty(arguments, "new_text")) {
        (void)json_object_del(arguments, "old_text");
        (void)json_object_del(arguments, "new_text");
    }
}

/* Other names of UTF-8 become the tool's. */
static int rename_utf8(json_t *arguments, const char *name)
{
    static const char *const others[] = {"utf-8", "utf8", "text"};
    const char *sent = json_string_value(json_object_get(arguments, "encoding"));
    for (size_t i = 0; sent && i < sizeof others / sizeof *others; i++) {
        if (strcasecmp(sent, others[i]) == 0) {
            return json_object_set_new(arguments, "encoding", json_string(name)) < 0 ? -ENOMEM : 0;
        }
    }
    return 0;
}

struct dump {
    struct buf *out;
    bool in_string;
    bool too_large;
};

/* Writes a real number with the fewest digits that keep it. Returns their count, or 0. */
static size_t write_shortest(const char *bytes, size_t size, char *out, size_t space)
{
    enum { DIGITS_SHORT = 15, DIGITS_EXACT = 17 }; /* of a double */
    bool is_number = *bytes == '-' || (*bytes >= '0' && *bytes <= '9');
    json_auto_t *number = is_number ? json_loadb(bytes, size, JSON_DECODE_ANY, NULL) : NULL;
    size_t length = 0;
    for (size_t digits = DIGITS_SHORT; json_is_real(number) && digits <= DIGITS_EXACT; digits++) {
        length = json_dumpb(number, out, space, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        if (length > space) {
            return 0;
        }
        json_auto_t *back = json_loadb(out, length, JSON_DECODE_ANY, NULL);
        if (json_equal(back, number)) {
            break;
        }
    }
    return length;
}

/* Jansson passes a number in one piece, and the quotes of a string in pieces of their own. */
static int dump_chunk(const char *bytes, size_t size, void *arg)
{
    struct dump *dump = arg;
    char number[32];
    dump->in_string ^= size == 1 && *bytes == '"';
    size_t length = dump->in_string ? 0 : write_shortest(bytes, size, number, sizeof number);
    bytes = length ? number : bytes;
    size = length ? length : size;
    dump->too_large = size > LIMIT_FILE_BYTES - buf_size(dump->out);
    return dump->too_large ? -1 : buf_append(dump->out, bytes, size);
}

/* The text of a JSON file, as people write it. */
static int dump_file(const json_t *value, struct buf *out)
{
    struct dump dump = {.out = out};
    if (json_dump_callback(value, dump_chunk, &dump, JSON_INDENT(2)) < 0) {
        return dump.too_large ? -EFBIG : -ENOMEM;
    }
    return buf_append_text(out, "\n");
}

/* Whether a list of the content's are the lines of the file: a JSON file has a list itself. */
static bool are_lines(const char *path, const json_t *content)
{
    const char *suffix = path ? strrchr(path, '.') : NULL;
    bool are = json_array_size(content) > 0 &&
               !(suffix && (strcasestr(suffix, "json") || strcasecmp(suffix, ".ipynb") == 0));
    for (size_t i = 0; i < json_array_size(content); i++) {
        are = are && json_is_string(json_array_get(content, i));
    }
    return are;
}

static int join_lines(const json_t *lines, struct buf *out)
{
    size_t at = 0;
    json_t *line = NULL;
    json_array_foreach (lines, at, line) {
        size_t size = json_string_length(line);
        const char *text = json_string_value(line);
        (void)buf_append(out, text, size);
        (void)buf_append(out, "\n", size == 0 || text[size - 1] != '\n');
    }
    return buf_error(out);
}

/* The content of a file, sent as its lines, or of a JSON file as JSON instead of as text. */
static int write_content(json_t *arguments)
{
    const json_t *content = json_object_get(arguments, "content");
    const char *path = json_string_value(json_object_get(arguments, "path"));
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (!json_is_object(content) && !json_is_array(content)) {
        return 0;
    }
    int r = are_lines(path, content) ? join_lines(content, &text) : dump_file(content, &text);
    if (r == 0 && json_object_set_new(arguments, "content",
                                      json_stringn(buf_bytes(&text), buf_size(&text))) < 0) {
        r = -ENOMEM;
    }
    return r;
}

int tolerance_apply(const char *tool, json_t *arguments)
{
    drop_added(arguments);
    if (strcmp(tool, "run_python") == 0) {
        int r = rename_arguments(arguments, run_names);
        return r ? r : allow_no_code(arguments);
    }
    (void)json_object_del(arguments,
                          "session"); /* as run_python has it: here all share the files */
    if (strcmp(tool, "read_file") == 0) {
        int r = rename_arguments(arguments, read_names);
        return r ? r : rename_utf8(arguments, "text");
    }
    if (strcmp(tool, "write_file") != 0) {
        return 0;
    }
    int r = rename_arguments(arguments, write_names);
    drop_empty_texts(arguments);
    if (!json_is_true(json_object_get(arguments, "replace_all"))) {
        (void)json_object_del(arguments, "replace_all");
    }
    r = r ? r : rename_utf8(arguments, "utf-8");
    return r ? r : write_content(arguments);
}
