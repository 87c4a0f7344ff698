/* What a result says of a run, as text. result.c composes it as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "guest/guest.h"
#include "tools/content/content.h"
#include "tools/run/run.h"

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

static void timeout(const struct run *run, struct buf *text)
{
    bool ended = run->end.waited && has(run, RUN_PROCESSES);
    const char *late = ended           ? "; the processes that the code waited for were ended"
                       : run->end.late ? "; the code caught the interrupt"
                                       : "";
    const char *how =
        run->end.late          ? " at "
        : run->end.interrupted ? "; interrupted at "
        : run->end.stuck
            ? "; the interrupt had no effect (native code, or a SIGINT handler of the code's) at "
            : "; ignored the interrupt at ";
    buf_appendf(text, "timeout: %g s limit%s", (double)run->request.timeout_ms / 1000, late);
    append_fact(run, RUN_WHERE, how, "", text);
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
        buf_appendf(text, "exit code %d%s", run->end.process.code,
                    run->end.process.code == GUEST_EXIT_CUT_OFF && run->end.state != RUN_STATE_KEPT
                        ? ": the code has closed descriptors of the interpreter, as os.closerange()"
                        : "");
        break;
    case RUN_TIMEOUT:
        timeout(run, text);
        break;
    case RUN_STOPPED:
        buf_appendf(text, "stopped: job %u after %u s", run->job,
                    clock_seconds(run->end.duration_ns));
        append_fact(run, RUN_WHERE, " at ", "", text);
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

/* --- the status line --- */

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
        timeout(run, text);
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
