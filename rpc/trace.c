#include "rpc/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/limits.h"
#include "rpc/text.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { STATE_MEMBERS = 32, STATE_KEY_BYTES = 256, STATE_VALUE_BYTES = 256 };

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* W3C Trace Context level 2, section 3.2. A later version may be longer, in a form that nobody can
 * check yet. */
static bool is_traceparent(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    size_t i = 0;
    for (; form[i]; i++) {
        if (form[i] == 'x' ? strspn(text + i, DIGITS "abcdef") == 0 : text[i] != form[i]) {
            return false;
        }
    }
    return !text[i] && strncmp(text, "ff", 2) != 0 && strspn(text + 3, "0") < 32 &&
           strspn(text + 36, "0") < 16;
}

/* The size of a member's value, without the blanks behind it; 0: it is none. */
static size_t state_value_size(const char *value)
{
    size_t size = 0;
    while (value[size] >= ' ' && value[size] < 0x7f && value[size] != ',' && value[size] != '=') {
        size++;
    }
    while (size > 0 && value[size - 1] == ' ') {
        size--;
    }
    return size <= STATE_VALUE_BYTES ? size : 0;
}

/* The same, section 3.3: key=value, with commas between. A member may be empty, but not all. */
static bool is_tracestate(const char *text)
{
    struct span keys[STATE_MEMBERS];
    unsigned count = 0;
    while (true) {
        text = skip_blanks(text);
        size_t key = strspn(text, LOWER DIGITS "_-*/@");
        size_t size = text[key] == '=' ? state_value_size(text + key + 1) : 0;
        if (key > STATE_KEY_BYTES || (key > 0 && (size == 0 || count == STATE_MEMBERS)) ||
            (key > 0 && strspn(text, LOWER DIGITS) == 0)) {
            return false;
        }
        for (unsigned i = 0; i < count; i++) {
            if (keys[i].size == key && memcmp(keys[i].bytes, text, key) == 0) {
                return false;
            }
        }
        if (key > 0) {
            keys[count++] = (struct span){text, key};
            text = skip_blanks(text + key + 1 + size);
        }
        if (*text != ',') {
            return !*text && count > 0;
        }
        text++;
    }
}

/* What follows on key=value, or on a key alone; NULL: it is neither. */
static const char *skip_pair(const char *text, bool needs_value)
{
    text = skip_blanks(text);
    size_t key = strspn(text, LOWER UPPER DIGITS "!#$%&'*+-.^_`|~");
    text = skip_blanks(text + key);
    if (key == 0 || (needs_value && *text != '=')) {
        return NULL;
    }
    if (*text == '=') {
        text = skip_blanks(text + 1);
        while (*text > ' ' && *text < 0x7f && !strchr("\",;\\", *text)) {
            text++;
        }
    }
    return skip_blanks(text);
}

/* W3C Baggage, section 3.3.1: pairs with commas between, each with properties behind semicolons. */
static bool is_baggage(const char *text)
{
    while (true) {
        text = skip_pair(text, /* needs_value= */ true);
        while (text && *text == ';') {
            text = skip_pair(text + 1, /* needs_value= */ false);
        }
        if (!text || *text != ',') {
            return text && !*text;
        }
        text++;
    }
}

json_t *rpc_trace_new(const json_t *meta)
{
    static const struct {
        const char *name;
        bool (*fits)(const char *text);
        bool needs_parent; /* without a valid traceparent it means nothing */
    } parts[] = {{"traceparent", is_traceparent, false},
                 {"tracestate", is_tracestate, true},
                 {"baggage", is_baggage, false}};
    json_t *trace = NULL;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *value = json_object_get(meta, parts[i].name);
        const char *text = rpc_text_plain(value);
        if (text && json_string_length(value) <= LIMIT_TRACE_BYTES &&
            (trace || !parts[i].needs_parent) && parts[i].fits(text)) {
            trace = trace ? trace : json_object();
            (void)json_object_set(trace, parts[i].name, value);
        }
    }
    return trace;
}
