#include "tools/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"

enum { LINE_BYTES = 4096 }; /* of a job's line that has not ended */

const struct run_row run_rows[RUN_FACT_COUNT] = {
#define FACT(fact, means, example, ...) [fact] = {__VA_ARGS__},
#include "tools/run/facts.h"
#undef FACT
};

struct run *run_new_from(json_t *code, json_t *stdin_text)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run) {
        return NULL;
    }
    output_init(&run->output);
    output_init(&run->errors);
    output_init(&run->news);
    run->request.held_code = json_incref(code);
    run->request.held_stdin = json_incref(stdin_text);
    run->request.code = json_string_value(code);
    run->request.code_size = json_string_length(code);
    run->request.stdin_text = json_string_value(stdin_text);
    run->request.stdin_size = json_string_length(stdin_text);
    return run;
}

struct run *run_new(const char *code, size_t code_size, const char *stdin_text, size_t stdin_size)
{
    json_auto_t *held_code = json_stringn_nocheck(code, code_size);
    json_auto_t *held_stdin = stdin_text ? json_stringn_nocheck(stdin_text, stdin_size) : NULL;
    return held_code && (held_stdin || !stdin_text) ? run_new_from(held_code, held_stdin) : NULL;
}

void run_free(struct run *run)
{
    if (!run) {
        return;
    }
    json_decref(run->request.held_code);
    json_decref(run->request.held_stdin);
    json_decref(run->request.trace);
    for (unsigned i = 0; i < RUN_FACT_COUNT; i++) {
        free(run->facts[i].data);
    }
    output_done(&run->output);
    output_done(&run->errors);
    output_done(&run->news);
    buf_done(&run->line);
    overflow_free(run->overflow);
    recorded_done(run);
    free(run);
}

static bool is_list(enum run_fact fact)
{
    return run_rows[fact].kind == RUN_LIST;
}

void run_add(struct run *run, enum run_fact fact, const char *bytes, size_t size)
{
    struct run_text *text = &run->facts[fact];
    size_t before = is_list(fact) ? text->size : 0;
    char *grown = realloc(text->data, before + size + 1);
    if (!grown) {
        return;
    }
    text->data = grown;
    if (size > 0) {
        memcpy(grown + before, bytes, size);
    }
    for (size_t i = 0; is_list(fact) && i < size; i++) {
        if (!bytes[i]) {
            grown[before + i] = '?';
        }
    }
    grown[before + size] = '\0';
    text->size = before + size + is_list(fact);
}

void run_addf(struct run *run, enum run_fact fact, const char *fmt, ...)
{
    defer_free char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int size = vasprintf(&text, fmt, args);
    va_end(args);
    if (size >= 0) {
        run_add(run, fact, text, (size_t)size);
    } else {
        text = NULL; /* vasprintf(3) leaves it undefined */
    }
}

void run_add_number(struct run *run, enum run_fact fact, unsigned number)
{
    if (number > 0) {
        run_addf(run, fact, "%u", number);
    }
}

const char *run_fact(const struct run *run, enum run_fact fact)
{
    return run->facts[fact].size > 0 ? run->facts[fact].data : "";
}

const char *run_next_item(const struct run *run, enum run_fact list, const char *at)
{
    const struct run_text *text = &run->facts[list];
    const char *next = at ? at + strlen(at) + 1 : text->data;
    return text->size > 0 && next < text->data + text->size ? next : NULL;
}

static const char *next_beside(const struct run *run, enum run_fact list, const char *at,
                               bool is_first)
{
    return is_first || at ? run_next_item(run, list, at) : NULL;
}

bool run_next_change(const struct run *run, enum run_fact list, struct run_change *change)
{
    bool files = list == RUN_FILES;
    bool is_first = !change->name;
    change->name = run_next_item(run, list, change->name);
    change->size = files ? next_beside(run, RUN_FILE_SIZES, change->size, is_first) : NULL;
    change->kind = next_beside(run, files ? RUN_FILE_KINDS : RUN_VAR_KINDS, change->kind, is_first);
    return change->name;
}

void run_add_news(struct run *run, const char *bytes, size_t size)
{
    const char *end = memrchr(bytes, '\n', size);
    size_t whole = end ? (size_t)(end + 1 - bytes) : 0;
    if (whole > 0 || buf_size(&run->line) + size > LINE_BYTES) {
        run_end_line(run);
        whole = whole > 0 ? whole : size;
        output_add(&run->news, 0, bytes, whole);
    }
    (void)buf_append(&run->line, bytes + whole, size - whole);
}

void run_end_line(struct run *run)
{
    if (buf_size(&run->line) > 0) {
        output_add(&run->news, 0, buf_bytes(&run->line), buf_size(&run->line));
        buf_clear(&run->line, LINE_BYTES);
    }
}

bool run_is_error(const struct run *run)
{
    bool kept = run->end.state == RUN_STATE_KEPT || run->end.state == RUN_STATE_DROPPED ||
                run->end.state == RUN_STATE_BRANCH_DROPPED;
    return run->end.outcome != RUN_OK && run->end.outcome != RUN_STOPPED &&
           (run->end.outcome != RUN_EXIT || run->end.process.code != 0 || !kept);
}
