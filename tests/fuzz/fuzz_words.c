/* A hostile result frame whose fields hold any words. The result has the same structure as for a
 * frame with harmless words: parts, brackets, separators and lines are the server's, the last line
 * is the status line, and every word can be read back.
 *
 * The first byte is the outcome; then for each field a byte for its key, one for its size, and the
 * word. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/word.h"
#include "rpc/text.h"
#include "tests/fuzz/fuzz.h"
#include "tools/install/install.h"
#include "tools/install/install_request.h"
#include "tools/run/result.h"
#include "tools/run/run.h"

enum { FIELDS = 64, SIGNS = 9 };
static const char signs[SIGNS + 1] = "|[](),;:\n";

static const char *const keys[] = {
    "file",       "file_size",  "files_more", "peak_bytes",    "var",
    "var_kind",   "vars_more",  "note",       "error_type",    "error_cell",
    "error_line", "where_cell", "where_line", "where_source",  "image",
    "hint",       "value",      "traceback",  "error_message", "cpu_ms",
};
enum { KEYS = sizeof keys / sizeof *keys };

struct shape {
    size_t outside[SIGNS]; /* of quotes */
    size_t bars;           /* and inside */
    size_t opened;
    size_t closed;
};

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Except line feeds no invisible characters; valid UTF-8; quotes in pairs on each line. */
static struct shape shape_of(const char *text, size_t size)
{
    struct shape shape = {};
    bool quoted = false;
    for (size_t at = 0; at < size;) {
        int length = utf8_size(text + at, size - at);
        require(length > 0);
        require(text[at] == '\n' ? !quoted : !word_is_unseen(utf8_code(text + at, length)));
        const char *sign = memchr(signs, text[at], SIGNS);
        shape.outside[sign ? sign - signs : 0] += sign && !quoted;
        shape.bars += text[at] == '|';
        shape.opened += text[at] == '[';
        shape.closed += text[at] == ']';
        if (quoted && text[at] == '\\') {
            at++;
        } else if (text[at] == '"') {
            quoted = !quoted;
        }
        at += (size_t)length;
    }
    require(!quoted);
    return shape;
}

static struct run *run_of(const struct box_message *message, unsigned outcome)
{
    struct run *run = run_new("pass", 4, NULL, 0);
    require(run != NULL);
    outcome_take_parts(run, message);
    run->end.outcome = (enum run_outcome)(outcome % RUN_OUTCOME_COUNT);
    run->request.timeout_ms = 1000;
    return run;
}

/* A word with as much structure as the field may have. */
static struct box_field harmless(const struct box_field *key, struct box_field value)
{
    static const char *const kept[] = {"file_size",  "files_more", "vars_more",  "error_cell",
                                       "error_line", "where_cell", "where_line", "value",
                                       "traceback",  "hint"};
    for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (box_field_is(key, kept[i])) {
            return value;
        }
    }
    bool change = box_field_is(key, "file") || box_field_is(key, "var");
    bool removed = change && value.size > 0 && value.data[0] == '-';
    return value.size == 0 && !change ? value
           : removed                  ? (struct box_field){"-x", 2}
           : change                   ? (struct box_field){"+x", 2}
                                      : (struct box_field){"x", 1};
}

static void check_status(const struct run *run, const struct run *twin)
{
    struct buf text = BUF_EMPTY;
    struct buf other = BUF_EMPTY;
    struct buf answer = BUF_EMPTY;
    require(run_compose_status(run, &text) == 0 && run_compose_status(twin, &other) == 0 &&
            run_compose(run, &answer) == 0);
    const struct shape got = shape_of(buf_bytes(&text), buf_size(&text));
    const struct shape meant = shape_of(buf_bytes(&other), buf_size(&other));
    size_t colon = (size_t)(strchr(signs, ':') - signs);
    /* A plain word may hold a colon, "a:b", and brackets in pairs, "app/[id]". */
    for (size_t i = 0; i < SIGNS; i++) {
        bool free = i == colon || signs[i] == '[' || signs[i] == ']';
        require(free || got.outside[i] == meant.outside[i]);
    }
    require(got.bars == meant.bars && got.opened == got.closed && buf_bytes(&text)[0] == '[' &&
            buf_bytes(&text)[buf_size(&text) - 1] == ']' &&
            memchr(buf_bytes(&text), '\n', buf_size(&text)) == NULL);
    size_t behind = buf_size(&answer) - buf_size(&text) - 1;
    require(memcmp(buf_bytes(&answer) + behind, buf_bytes(&text), buf_size(&text)) == 0 &&
            buf_bytes(&answer)[buf_size(&answer) - 1] == '\n' &&
            (behind == 0 || buf_bytes(&answer)[behind - 1] == '\n'));
    buf_done(&text);
    buf_done(&other);
    buf_done(&answer);
}

static void check_structured(const struct run *run)
{
    struct buf text = BUF_EMPTY;
    json_t *object = result_structured(run, true);
    require(object && rpc_text_show(&text, object) == 0);
    (void)shape_of(buf_bytes(&text), buf_size(&text));
    json_t *again = json_loadb(buf_bytes(&text), buf_size(&text), JSON_ALLOW_NUL, NULL);
    require(json_equal(object, again));
    json_decref(again);
    json_decref(object);
    buf_done(&text);
}

static unsigned hex(const char *digits, int count)
{
    char text[9] = "";
    memcpy(text, digits, (size_t)count);
    unsigned value = 0;
    for (int i = 0; i < count; i++) {
        require(strchr("0123456789abcdef", text[i]) != NULL);
        value = value << 4 | (unsigned)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    }
    return value;
}

/* Reads the escape after a backslash. Returns its size. */
static int unescape(const char *at, uint32_t *ret_code)
{
    static const char letters[] = "n\nt\tr\r\"\"\\\\";
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (digits > 0) {
        *ret_code = hex(at + 1, digits);
        return digits + 1;
    }
    for (unsigned i = 0; i + 1 < sizeof letters; i += 2) {
        if (letters[i] == *at) {
            *ret_code = (unsigned char)letters[i + 1];
            return 1;
        }
    }
    abort();
}

/* The displayed form of a word identifies the word. */
static void check_word(const char *word, size_t size)
{
    char shown[WORD_BYTES + 1];
    (void)word_show(word, size, shown, sizeof shown);
    size_t length = strlen(shown);
    const struct shape shape = shape_of(shown, length);
    require(!strpbrk(shown, "|\n") && shape.opened == shape.closed);
    if (shown[0] != '"') {
        require(length == size && memcmp(shown, word, size) == 0);
        return;
    }
    bool cut = shown[length - 1] == '.';
    size_t done = 0;
    for (const char *at = shown + 1; *at != '"';) {
        uint32_t code = 0;
        int step = *at == '\\' ? 1 + unescape(at + 1, &code) : utf8_size(at, strlen(at));
        int there = utf8_size(word + done, size - done);
        code = *at == '\\' ? code : utf8_code(at, step);
        require(done < size);
        require(there > 0 ? utf8_code(word + done, there) == code
                          : code == (0xDC00U | (unsigned char)word[done]));
        done += there > 0 ? (size_t)there : 1;
        at += step;
    }
    require(cut ? done < size : done == size);
}

/* The installer's words in each place where install_package shows them. */
static void check_install(const char *word, size_t size)
{
    struct buf text = BUF_EMPTY;
    json_t *name = rpc_text(word, size);
    struct install_report report = {
        .fetched = json_pack("{s:b, s:[{s:O, s:O}], s:[{s:O, s:O}], s:[O], s:[O]}", "ok", 1,
                             "already", "name", name, "version", name, "replaces", "name", name,
                             "from", name, "skipped", name, "notes", name),
        .installed = json_pack("{s:[{s:O, s:O, s:[O]}]}", "installed", "name", name, "version",
                               name, "imports", name),
    };
    require(report.fetched && report.installed && install_text_compose(&report, &text) == 0);
    const struct shape shape = shape_of(buf_bytes(&text), buf_size(&text));
    require(shape.bars == 0 && shape.opened == shape.closed && shape.outside[SIGNS - 1] == 5);
    json_decref(report.fetched);
    json_decref(report.installed);
    json_decref(name);
    buf_done(&text);
}

/* An elicitation shows only characters that a requirement may contain. */
static void check_requirement(const char *word, size_t size)
{
    char text[REQUIREMENT_TEXT_BYTES];
    char name[REQUIREMENT_NAME_BYTES];
    char shown[REQUIREMENT_BYTES];
    char requirement[256] = "";
    memcpy(requirement, word, size < sizeof requirement ? size : sizeof requirement - 1);
    const char *wrong = requirement_check(requirement, strlen(requirement), name, text);
    if (wrong) {
        (void)shape_of(wrong, strlen(wrong));
    } else {
        (void)requirement_show(requirement, shown);
        require(shown[strspn(shown,
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-_.,[]()<>=!~*+")] == '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct box_field fields[1 + 2 * FIELDS] = {{"result", 6}};
    struct box_field twins[1 + 2 * FIELDS] = {{"result", 6}};
    size_t count = 1;
    for (size_t at = 1; at + 2 <= size && count < 2 * FIELDS;) {
        const char *key = keys[data[at] % KEYS];
        size_t length = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        const char *word = (const char *)data + at + 2;
        fields[count] = twins[count] = (struct box_field){key, strlen(key)};
        fields[count + 1] = (struct box_field){word, length};
        twins[count + 1] = harmless(&fields[count], fields[count + 1]);
        count += 2;
        at += 2 + length;
        check_word(word, length);
        check_install(word, length);
        check_requirement(word, length);
    }
    struct run *run = run_of(&(struct box_message){fields, count}, size > 0 ? data[0] : 0);
    struct run *twin = run_of(&(struct box_message){twins, count}, size > 0 ? data[0] : 0);
    check_status(run, twin);
    check_structured(run);
    run_free(run);
    run_free(twin);
    return 0;
}
