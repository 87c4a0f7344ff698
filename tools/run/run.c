#include "tools/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "guest/guest.h"
#include "rpc/text.h"
#include "tools/content/content.h"
#include "tools/run/result.h"

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

/* --- what results say of a run --- */

/* As text; result.c composes it as JSON. */

enum { FILES_PART = 8 }; /* files that are a smaller part of the limit are not named */

static const struct {
    const char *key;   /* in the record */
    const char *words; /* in sentences about jobs; NULL: those of the status line */
} outcomes[RUN_OUTCOME_COUNT] = {
    [RUN_OK] = {"ok", "ok"},
    [RUN_ERROR] = {"error"},
    [RUN_EXIT] = {"exit"},
    [RUN_TIMEOUT] = {"timeout", "timeout"},
    [RUN_STOPPED] = {"stopped", "stopped"},
    [RUN_OOM] = {"out_of_memory", "out of memory"},
    [RUN_DISK] = {"disk_full", "disk full"},
    [RUN_CRASHED] = {"crashed"},
    [RUN_LOST] = {"connection_lost"},
    [RUN_ENDED] = {"sandbox_exited"},
    [RUN_CANCELLED] = {"cancelled"},
    [RUN_REFUSED] = {"refused", "not run"},
};

static const struct {
    const char *key; /* in the record */
    const char *name;
} states[] = {
    [RUN_STATE_KEPT] = {"kept", "kept"},
    [RUN_STATE_INTERRUPTED] = {"interrupted", "kept (interrupted)"},
    [RUN_STATE_RESTORED] = {"restored", "restored to the state before this call"},
    [RUN_STATE_RESTORED_EARLIER] = {"restored_earlier", "restored"},
    [RUN_STATE_DROPPED] = {"dropped", "not kept (fresh run)"},
    [RUN_STATE_BRANCH_DROPPED] = {"dropped", "not kept (branch)"},
    [RUN_STATE_PENDING] = {"pending",
                           "not yet restored (waiting for killed processes to exit or "
                           "for the state to resume)"},
    [RUN_STATE_LOST] = {"lost", "lost (variables lost, files kept, a new interpreter starts)"},
    [RUN_STATE_ALL_LOST] = {"all_lost", "lost (variables and files lost, a new sandbox starts)"},
};

static bool has(const struct run *run, enum run_fact fact)
{
    return run->facts[fact].size > 0;
}

static void duration(const struct run *run, struct buf *text)
{
    uint64_t ms = run->end.duration_ns / CLOCK_NS_PER_MS;
    if (ms < 10000) {
        buf_appendf(text, "%u ms", (unsigned)ms);
    } else {
        buf_appendf(text, "%u.%u s", (unsigned)(ms / 1000), (unsigned)(ms % 1000 / 100));
    }
}

/* Appends a fact between two texts; nothing if there is none. */
static void append_fact(const struct run *run, enum run_fact fact, const char *before,
                        const char *behind, struct buf *text)
{
    if (has(run, fact)) {
        buf_appendf(text, "%s%s%s", before, run_fact(run, fact), behind);
    }
}

/* Appends how the code took the interrupt, and where. */
static void interrupt(const struct run *run, struct buf *text)
{
    const char *how = run->end.waited && has(run, RUN_PROCESSES)
                          ? "; the processes that the code waited for were ended"
                      : run->end.late ? "; the code caught the interrupt"
                                      : "";
    const char *where = run->end.late          ? " at "
                        : run->end.interrupted ? "; interrupted at "
                        : run->end.stuck
                            ? "; the interrupt had no effect (native code, or a SIGINT handler of "
                              "the code's) at "
                            : "; ignored the interrupt at ";
    buf_append_text(text, how);
    append_fact(run, RUN_WHERE, where, "", text);
}

static void timeout(const struct run *run, struct buf *text)
{
    buf_appendf(text, "timeout: %g s limit", (double)run->request.timeout_ms / 1000);
    interrupt(run, text);
}

static void stopped(const struct run *run, struct buf *text)
{
    buf_appendf(text, "stopped: job %u after %u s", run->job, clock_seconds(run->end.duration_ns));
    buf_append_text(text, run->end.killed ? "; killed, because the interrupt did not end it" : "");
    interrupt(run, text);
}

static void out_of_memory(const struct run *run, struct buf *text)
{
    static const char *const whose[] = {
        [BOX_BLAME_ITS_OWN] = "",
        [BOX_BLAME_ANOTHER] = ", which all sessions share: another one has filled it",
        [BOX_BLAME_UNKNOWN] = ", which all sessions share: it is not known which one has filled it",
    };
    unsigned long long limit_mib = run->end.process.limit_bytes >> 20;
    if (run->end.process.used_bytes > 0) {
        unsigned long long files_mib = run->end.process.files_bytes >> 20;
        buf_appendf(text, "out of memory: used %llu of %llu MiB (--memory)",
                    (unsigned long long)(run->end.process.used_bytes >> 20), limit_mib);
        if (files_mib > limit_mib / FILES_PART) {
            buf_appendf(text, ", %llu MiB of it in files", files_mib);
        }
        buf_append_text(text, whose[run->end.process.blame]);
    } else if (limit_mib) {
        buf_appendf(text,
                    "out of memory: the server's container or service reached its limit of %llu "
                    "MiB",
                    limit_mib);
    } else {
        buf_append_text(text, "out of memory: the machine has no free memory");
    }
    append_fact(run, RUN_WHERE, " at ", "", text);
}

static void disk(const struct run *run, struct buf *text)
{
    if (run->end.process.used_files) {
        buf_appendf(text, "too many files: %llu of %llu; remove some",
                    (unsigned long long)run->end.process.used_files,
                    (unsigned long long)run->end.process.limit_files);
    } else {
        buf_appendf(text, "disk full: %llu of %llu MiB (--disk); remove files",
                    (unsigned long long)(run->end.process.used_bytes >> 20),
                    (unsigned long long)(run->end.process.limit_bytes >> 20));
    }
}

static void crash(int signal, struct buf *text)
{
    const char *name = sigabbrev_np(signal);
    if (name) {
        buf_appendf(text, "crashed: SIG%s", name);
    } else {
        buf_appendf(text, "crashed: signal %d", signal);
    }
}

/* "error: ValueError" */
static void error(const struct run *run, struct buf *text)
{
    const struct run_text *type = &run->facts[RUN_ERROR_TYPE];
    buf_append_text(text, "error: ");
    word_append(text, type->size > 0 ? type->data : "exception",
                type->size > 0 ? type->size : strlen("exception"));
}

static void outcome(const struct run *run, struct buf *text)
{
    switch (run->end.outcome) {
    case RUN_OK:
        buf_append_text(text, "ok ");
        duration(run, text);
        if (run->output.total + run->errors.total == 0 && !has(run, RUN_VALUE)) {
            buf_append_text(text, ", no output");
        }
        break;
    case RUN_ERROR:
        error(run, text);
        if (has(run, RUN_ERROR_LINE)) {
            buf_appendf(text, " at <cell %s>:%s",
                        has(run, RUN_ERROR_CELL) ? run_fact(run, RUN_ERROR_CELL) : "?",
                        run_fact(run, RUN_ERROR_LINE));
        }
        buf_append_text(text, ", ");
        duration(run, text);
        break;
    case RUN_EXIT:
        buf_appendf(
            text, "exit code %d%s", run->end.process.code,
            run->end.process.code == GUEST_EXIT_CUT_OFF && run->end.state != RUN_STATE_KEPT
                ? ", as where code has closed descriptors of the interpreter (os.closerange())"
                : "");
        break;
    case RUN_TIMEOUT:
        timeout(run, text);
        break;
    case RUN_STOPPED:
        stopped(run, text);
        break;
    case RUN_OOM:
        out_of_memory(run, text);
        break;
    case RUN_DISK:
        disk(run, text);
        break;
    case RUN_CRASHED:
        crash(run->end.process.code, text);
        append_fact(run, RUN_WHERE, " at ", "", text);
        break;
    case RUN_LOST:
        buf_append_text(text, "crashed: connection to the interpreter lost");
        break;
    case RUN_ENDED:
        buf_append_text(text, "crashed: the sandbox exited");
        break;
    case RUN_CANCELLED:
        buf_append_text(text, "cancelled");
        break;
    case RUN_REFUSED:
    case RUN_OUTCOME_COUNT:
    default:
        buf_append_text(text, "refused");
    }
}

int run_append_outcome(const struct run *run, struct buf *text)
{
    if (run->end.late && run->stop) {
        buf_append_text(text, "stopped, ");
    }
    if (run->end.outcome == RUN_ERROR) {
        error(run, text);
    } else if (outcomes[run->end.outcome].words) {
        buf_append_text(text, outcomes[run->end.outcome].words);
    } else {
        outcome(run, text);
    }
    return buf_error(text);
}

const char *run_outcome_key(enum run_outcome outcome)
{
    return outcomes[outcome].key;
}

const char *run_state_key(enum run_state state)
{
    return states[state].key;
}

const char *run_state_name(enum run_state state)
{
    return states[state].name;
}

static void append_lost(const struct run *run, struct buf *text)
{
    enum run_state state = run->end.state;
    if (state == RUN_STATE_RESTORED_EARLIER) {
        buf_appendf(text, "restored to the state after <cell %u>; later changes lost",
                    run->end.restored_cell);
        append_fact(run, RUN_GONE, " (variables lost: ", ")", text);
        append_fact(run, RUN_OLDER, "; back to older values: ", " " RUN_OLDER_NOTE, text);
    } else if (has(run, RUN_GONE) && (state == RUN_STATE_LOST || state == RUN_STATE_ALL_LOST)) {
        append_fact(run, RUN_GONE,
                    state == RUN_STATE_LOST
                        ? "lost (a new interpreter starts, files kept, variables lost: "
                        : "lost (a new sandbox starts, files lost too, variables lost: ",
                    ")", text);
    } else {
        buf_append_text(text, run_state_name(state));
    }
}

static void append_state(const struct run *run, struct buf *text)
{
    bool went_back = has(run, RUN_BACK);
    buf_append_text(text, " | state: ");
    append_fact(run, RUN_BACK, "", ", ", text);
    if (went_back) {
        append_fact(run, RUN_FILES_BACK, "", "", text);
        buf_append_text(text, has(run, RUN_FILES_BACK) ? "" : "files are not rolled back");
    }
    if (went_back && run->end.state == RUN_STATE_KEPT && run->end.outcome == RUN_OK) {
        return;
    }
    bool was_reset = run->was_reset && run->end.state == RUN_STATE_KEPT;
    if (was_reset && run->end.outcome == RUN_OK) {
        buf_append_text(text, "reset before the code");
        return;
    }
    buf_append_text(text, was_reset ? "reset before the code; " : went_back ? "; " : "");
    if ((was_reset || went_back) && run->end.state == RUN_STATE_KEPT) {
        buf_append_text(text, "what the code then did is kept");
    } else if (went_back && run->end.state == RUN_STATE_RESTORED) {
        buf_append_text(text, "then restored to that state");
    } else {
        append_lost(run, text);
    }
    if (run->given_up_by && run->end.state == RUN_STATE_INTERRUPTED) {
        buf_appendf(text, " until the call with %s that stopped this job", run->given_up_by);
    }
}

/* A change: "+", "~" or "-", and the name after it. */
static void append_change(struct buf *text, const char *change)
{
    const char *name = change[0] ? change + 1 : change;
    buf_append(text, change[0] == '~' || change[0] == '-' ? change : "+", 1);
    word_append(text, name, strlen(name));
}

/* Whether kind is a type's name, with at most a shape: "DataFrame 1000x8". */
static bool is_kind(const char *kind)
{
    const char *sides = strchr(kind, ' ');
    return !sides || (sides > kind && sides[1 + strspn(sides + 1, "0123456789x")] == '\0');
}

int run_append_var(struct buf *text, const struct run_change *var)
{
    const char *kind = var->kind ? var->kind : "";
    append_change(text, var->name);
    buf_append_text(text, kind[0] ? " " : "");
    if (kind[0] && is_kind(kind)) {
        word_append_next(text, kind, strlen(kind));
    } else if (kind[0]) {
        word_append_quoted(text, kind, strlen(kind));
    }
    return buf_error(text);
}

/* The kind is the guest's; only the known ones are shown. */
static void append_file(struct buf *text, const struct run_change *file)
{
    const char *kind = file->kind ? file->kind : "";
    char human[16];
    uint64_t bytes = 0;
    uint64_t files = 0;
    const char *rest = NULL;
    append_change(text, file->name);
    bool sized = file->size && parse_u64(file->size, &bytes) == 0;
    bool doubt = strcmp(kind, "may be the user's") == 0;
    if (file->name[0] == '-') {
        buf_append_text(text, doubt ? " (may be the user's)" : "");
    } else if (strcmp(kind, "symlink") == 0 || strcmp(kind, "directory") == 0) {
        buf_appendf(text, " (%s)", kind);
    } else if (sized && parse_digits(kind, &files, &rest) == 0 && strcmp(rest, " files") == 0) {
        buf_appendf(text, " (%u files, %s)", (unsigned)files, content_size(bytes, human));
    } else if (sized) {
        bool linked = strcmp(kind, "hard link") == 0;
        buf_appendf(text, " (%s%s)", content_size(bytes, human),
                    linked  ? ", hard link"
                    : doubt ? ", may be the user's"
                            : "");
    }
}

static void append_value(const struct run *run, enum run_fact fact, struct buf *text)
{
    const char *before = "";
    struct run_change change = {};
    const char *at = NULL;
    if (fact == RUN_FILES) {
        for (; run_next_change(run, fact, &change); before = " ") {
            buf_append_text(text, before);
            append_file(text, &change);
        }
    } else if (fact == RUN_VARS) {
        for (; run_next_change(run, fact, &change); before = " ") {
            buf_append_text(text, before);
            run_append_var(text, &change);
        }
    } else if (run_rows[fact].kind == RUN_LIST) {
        for (; (at = run_next_item(run, fact, at)); before = "; ") {
            buf_appendf(text, "%s%s", before, at);
        }
    } else if (run_rows[fact].part.name && run_rows[fact].part.form == FORM_TEXT) {
        word_append(text, run_fact(run, fact), strlen(run_fact(run, fact))); /* of the guest's */
    } else {
        buf_append_text(text, run_fact(run, fact));
    }
}

/* Appends what the status line says of a fact. said: whether it says what this one goes on with. */
static void append_line(const struct run *run, enum run_fact fact, bool *said, struct buf *text)
{
    const struct run_row *row = &run_rows[fact];
    bool otherwise = fact == RUN_THREADS      ? run->end.outcome == RUN_TIMEOUT
                     : fact == RUN_LEFT_STATE ? run->back_cell == 0
                                              : false;
    const char *line = otherwise ? row->otherwise : row->line;
    if (!line) {
        return;
    }
    *said = row->goes_on ? *said : has(run, fact);
    if (*said && has(run, fact)) {
        const char *place = strstr(line, "{}");
        buf_appendf(text, "%s%.*s", row->goes_on ? "" : " | ", (int)(place - line), line);
        append_value(run, fact, text);
        buf_append_text(text, place + 2);
    }
}

/* What to know before the same code runs again with a longer limit. */
static void append_advice(const struct run *run, struct buf *text)
{
    enum { WAITS = 20 }; /* of its time, the part in which it computes */
    uint64_t cpu_ms = 0;
    bool waited = has(run, RUN_CPU_MS) && !has(run, RUN_PROCESSES) &&
                  parse_u64(run_fact(run, RUN_CPU_MS), &cpu_ms) == 0 &&
                  cpu_ms < run->request.timeout_ms / WAITS;
    if (waited) {
        buf_appendf(text, " | the code only waited: it used the processor for %g s",
                    (double)cpu_ms / 1000);
    } else if (run->request.timeout_ms < run->job_limit_ms && !has(run, RUN_NATIVE_LOST) &&
               !has(run, RUN_THREADS)) {
        buf_appendf(text, " | for longer work send timeout_s (at most %g)",
                    (double)run->job_limit_ms / 1000);
    }
}

int run_compose_status(const struct run *run, struct buf *text)
{
    const struct run_request *request = &run->request;
    buf_append_text(text, "[");
    outcome(run, text);
    if (run->end.late) {
        buf_append_text(text, " | ");
        (run->stop ? stopped : timeout)(run, text);
    }
    bool has_next = !request->program; /* call, which would find the state */
    if (has_next && (run->end.outcome != RUN_OK || run->was_reset || request->fresh ||
                     request->branch || has(run, RUN_BACK))) {
        append_state(run, text);
    }
    if (!has_next && run->end.outcome == RUN_TIMEOUT) {
        buf_append_text(text, " | --timeout S sets another limit");
    }
    if (run->end.outcome == RUN_TIMEOUT) {
        append_advice(run, text);
    }
    bool said = false;
    for (enum run_fact fact = 0; fact < RUN_FACT_COUNT; fact++) {
        append_line(run, fact, &said, text);
    }
    if (run->pending == RUN_PENDING_MANY) {
        buf_append_text(text, " | changes: too many to count");
    } else if (run->pending > 0) {
        buf_appendf(text, " | %u change%s not applied", run->pending, run->pending == 1 ? "" : "s");
    }
    return buf_append_text(text, "]");
}

static void append_part(const struct run *run, enum run_fact fact, const char *before,
                        struct buf *text)
{
    const struct run_text *value = &run->facts[fact];
    if (value->size == 0) {
        return;
    }
    buf_append_text(text, before);
    buf_append(text, value->data, value->size);
    if (value->data[value->size - 1] != '\n') {
        buf_append_text(text, "\n");
    }
}

int run_compose(const struct run *run, struct buf *text)
{
    append_part(run, RUN_SESSION, "", text);
    output_compose(run->only_news ? &run->news : &run->output, text);
    if (run->errors.total > 0 && !run->only_news) {
        buf_append_text(text, "[stderr]\n");
        output_compose(&run->errors, text);
    }
    append_part(run, RUN_VALUE, "Out: ", text);
    append_part(run, RUN_TRACEBACK, "", text);
    append_part(run, RUN_HINT, "Hint: ", text);
    run_compose_status(run, text);
    return buf_append_text(text, "\n");
}

/* --- what the guest and the sandbox report of it --- */

enum { PLACE_SOURCE_BYTES = 220, NUMBER_BYTES = 15 };

/* The handler of faulthandler ends with the outermost frame, the driver's, or with dots where there
 * are more than a hundred. */
bool outcome_trace_is_whole(const char *text)
{
    return strstr(text, "/driver.py\", line ") != NULL || strstr(text, "\n  ...\n") != NULL;
}

/* What is shown of a place: <cell 7>:4 "source". */
static void set_place(struct run *run, uint64_t cell, uint64_t line, const char *source,
                      size_t size)
{
    char shown[PLACE_SOURCE_BYTES];
    char place[sizeof shown + 64];
    int length =
        snprintf(place, sizeof place, "<cell %u>:%u%s%s", (unsigned)cell, (unsigned)line,
                 size ? " " : "", size ? word_quote(source, size, shown, sizeof shown) : "");
    run_add(run, RUN_WHERE, place, (size_t)length);
}

/* "  File "<cell 7>", line 4 in f" of the handler's lines becomes "<cell 7>:4 source". */
void outcome_take_place(struct run *run, const char *text)
{
    const char *file = strstr(text, "File \"<cell ");
    const char *line = file ? strstr(file, "\", line ") : NULL;
    const char *rest = NULL;
    uint64_t cell = 0;
    uint64_t number = 0;
    if (!line || !strchr(line, '\n') ||
        parse_digits(file + strlen("File \"<cell "), &cell, &rest) < 0 ||
        parse_digits(line + strlen("\", line "), &number, &rest) < 0) {
        return;
    }
    const char *source = cell == run->cell ? run->request.code : "";
    for (uint64_t i = 1; i < number && source; i++) {
        source = strpbrk(source, "\r\n"); /* as CPython ends a line */
        source = source ? source + (strncmp(source, "\r\n", 2) == 0 ? 2 : 1) : NULL;
    }
    source = source ? source + strspn(source, " \t\f") : "";
    set_place(run, cell, number, source, strcspn(source, "\r\n"));
}

void outcome_take_trace(struct run *run, const char *text)
{
    run->end.stuck = strstr(text, "interrupted") == NULL;
    outcome_take_place(run, text);
}

static bool is_digits(const struct box_field *value)
{
    size_t digits = 0;
    while (digits < value->size && value->data[digits] >= '0' && value->data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == value->size && digits <= NUMBER_BYTES;
}

static void take_text(struct run *run, enum run_fact fact, const struct box_field *value,
                      size_t fitting)
{
    OWNED(buf_done) struct buf cut = BUF_EMPTY;
    if (fitting == value->size) {
        run_add(run, fact, value->data, value->size);
    } else if (buf_append(&cut, value->data, fitting) == 0 &&
               buf_appendf(&cut, " … (%zu bytes cut)", value->size - fitting) == 0) {
        run_add(run, fact, buf_bytes(&cut), buf_size(&cut));
    }
}

/* left: characters that all parts together may still take; lowered. */
static void take_part(struct run *run, enum run_fact fact, const struct box_field *value,
                      size_t *left)
{
    const struct run_part *part = &run_rows[fact].part;
    char note[WORD_PHRASE + 1];
    bool sound = is_digits(value);
    if (part->form == FORM_JSON) {
        if (value->size <= part->characters) {
            run_add(run, fact, value->data, value->size);
        }
        return;
    }
    size_t space = part->characters < *left ? part->characters : *left;
    size_t rest = space;
    size_t fitting = rpc_text_fitting(value->data, value->size, &rest);
    *left -= space - rest;
    switch (part->form) {
    case FORM_DIGITS:
        /* An empty item stands for one of a list that is no number: it keeps its place beside those
         * of other lists. */
        if (sound || part->most > 0) {
            run_add(run, fact, value->data, sound ? value->size : 0);
        }
        break;
    case FORM_PATH:
        if (fitting == value->size && !memchr(value->data, '\n', value->size)) {
            run_add(run, fact, value->data, value->size);
        }
        break;
    case FORM_NOTE:
        (void)word_quote(value->data, fitting, note, sizeof note);
        run_add(run, fact, note, strlen(note));
        break;
    case FORM_TEXT:
    case FORM_JSON:
    default:
        take_text(run, fact, value, fitting);
        break;
    }
}

/* Where the code was, unless the server knows that. */
static void take_where(struct run *run, const struct box_message *message, size_t left)
{
    struct box_field source;
    uint64_t cell = box_message_number(message, "where_cell", 0);
    size_t space = left < PLACE_SOURCE_BYTES ? left : PLACE_SOURCE_BYTES;
    if (cell > 0 && run->facts[RUN_WHERE].size == 0 &&
        box_message_get(message, "where_source", &source)) {
        set_place(run, cell, box_message_number(message, "where_line", 0), source.data,
                  rpc_text_fitting(source.data, source.size, &space));
    }
}

void outcome_take_parts(struct run *run, const struct box_message *message)
{
    unsigned taken[RUN_FACT_COUNT] = {};
    size_t left = LIMIT_RESULT_CHARS;
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        for (enum run_fact fact = 0; fact < RUN_FACT_COUNT; fact++) {
            const struct run_part *part = &run_rows[fact].part;
            unsigned most = part->most > 0 ? part->most : 1;
            if (part->name && box_field_is(&message->fields[i], part->name) && taken[fact] < most &&
                (part->most > 0 || run->facts[fact].size == 0)) {
                taken[fact]++;
                take_part(run, fact, &message->fields[i + 1], &left);
            }
        }
    }
    take_where(run, message, left);
}

bool outcome_begin_overflow(struct run *run, struct overflows *overflows,
                            void (*on_open)(void *arg), void *arg)
{
    OWNED(buf_done) struct buf before = BUF_EMPTY;
    if (output_append_raw(&run->output, &before) == 0 &&
        output_append_raw(&run->errors, &before) == 0) {
        run->overflow =
            overflow_begin(overflows, run->job ? "job" : "output", run->job, &before, on_open, arg);
    }
    return run->overflow != NULL;
}

bool outcome_take_output(struct run *run, struct overflows *overflows, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg)
{
    bool separate = server_box_spec(overflows->server_box)->separate_streams;
    struct output *output = separate && stream == BOX_STDERR ? &run->errors : &run->output;
    bool begun = !run->overflow && output_overflows(output, piece.data, piece.size) &&
                 outcome_begin_overflow(run, overflows, on_open, arg);
    if (run->overflow) {
        overflow_add(run->overflow, piece.data, piece.size);
    }
    output_add(output, (unsigned)stream, piece.data, piece.size);
    recorded_output(run, (unsigned)stream, piece.data, piece.size);
    if (run->job) {
        run_add_news(run, piece.data, piece.size);
    }
    return begun;
}

int outcome_exit_code(const struct box_message *message)
{
    uint64_t value = box_message_number(message, "exit_code", 1);
    return value < 256 ? (int)value : 1;
}

const char *outcome_end_text(const struct box_end *end, char out[64])
{
    const char *name = end->kind == BOX_END_SIGNAL ? sigabbrev_np(end->code) : NULL;
    if (end->kind == BOX_END_EXIT) {
        (void)snprintf(out, 64, "exit status %d", end->code);
        return out;
    }
    (void)snprintf(out, 64, "%s%s",
                   name ? "SIG"
                   : end->kind == BOX_END_OOM
                       ? end->blame != BOX_BLAME_ITS_OWN
                             ? "out of memory, which another session has filled"
                             : "out of memory"
                   : end->kind == BOX_END_DISK ? "disk full"
                                               : "it was killed",
                   name ? name : "");
    return out;
}
