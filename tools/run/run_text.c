/* What a result says of a run, as text. structured.c composes it as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "tools/content/content.h"
#include "tools/run/run.h"

enum { FILES_PART = 8 }; /* files that are a smaller part of the limit are not named */

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
    const char *how = run->end.late          ? " at "
                      : run->end.interrupted ? "; interrupted at "
                      : run->end.stuck       ? "; stuck in native code at "
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
        buf_appendf(text, "exit code %d", run->end.process.code);
        break;
    case RUN_TIMEOUT:
        timeout(run, text);
        break;
    case RUN_STOPPED:
        buf_appendf(text, "stopped: job %u after %u s", run->job,
                    (unsigned)(run->end.duration_ns / CLOCK_NS_PER_MS / 1000));
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
    static const char *const words[RUN_OUTCOME_COUNT] = {
        [RUN_OK] = "ok",           [RUN_TIMEOUT] = "timeout",
        [RUN_STOPPED] = "stopped", [RUN_OOM] = "out of memory",
        [RUN_DISK] = "disk full",  [RUN_REFUSED] = "not run",
    };
    if (run->end.outcome == RUN_ERROR) {
        error(run, text);
    } else if (words[run->end.outcome]) {
        buf_append_text(text, words[run->end.outcome]);
    } else {
        outcome(run, text);
    }
    return buf_error(text);
}

const char *run_state_name(enum run_state state)
{
    static const char *const names[] = {
        [RUN_STATE_KEPT] = "kept",
        [RUN_STATE_INTERRUPTED] = "kept (interrupted)",
        [RUN_STATE_RESTORED] = "restored to the state before this call",
        [RUN_STATE_RESTORED_EARLIER] = "restored",
        [RUN_STATE_DROPPED] = "not kept (fresh run)",
        [RUN_STATE_BRANCH_DROPPED] = "not kept (branch)",
        [RUN_STATE_PENDING] =
            "not yet restored (waiting for killed processes to exit or for the state to resume)",
        [RUN_STATE_LOST] = "lost (variables lost, files kept, a new interpreter starts)",
        [RUN_STATE_ALL_LOST] = "lost (variables and files lost, a new sandbox starts)",
    };
    return names[state];
}

static void append_saved(const struct run *run, struct buf *text)
{
    if (has(run, RUN_SAVED)) {
        buf_appendf(text, " | checkpoint: %s as \"%s\"", run_fact(run, RUN_SAVED),
                    run->request.save);
        append_fact(run, RUN_UNSAVED, ": ", "", text);
        append_fact(run, RUN_SAVE_DROPPED, "; the oldest, \"", "\", was dropped", text);
    }
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
    buf_append_text(text, went_back                                            ? ", then "
                          : run->was_reset && run->end.state == RUN_STATE_KEPT ? "reset, then "
                                                                               : "");
    if (went_back && run->end.state == RUN_STATE_RESTORED) {
        buf_append_text(text, "restored to that state");
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

static void append_files(const struct run *run, struct buf *text)
{
    if (!has(run, RUN_FILES)) {
        return;
    }
    buf_append_text(text, " | files:");
    for (struct run_change file = {}; run_next_change(run, RUN_FILES, &file);) {
        buf_append_text(text, " ");
        append_file(text, &file);
    }
    append_fact(run, RUN_FILES_MORE, " and ", " more", text);
}

static void append_vars(const struct run *run, struct buf *text)
{
    if (!has(run, RUN_VARS)) {
        return;
    }
    buf_append_text(text, " | vars:");
    for (struct run_change var = {}; run_next_change(run, RUN_VARS, &var);) {
        buf_append_text(text, " ");
        run_append_var(text, &var);
    }
    append_fact(run, RUN_VARS_MORE, " and ", " more", text);
}

static void append_notes(const struct run *run, struct buf *text)
{
    const char *before = " | note: ";
    for (const char *at = NULL; (at = run_next_item(run, RUN_NOTES, at)); before = "; ") {
        buf_append_text(text, before);
        buf_append_text(text, at);
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
    if (run->end.outcome == RUN_TIMEOUT && request->timeout_ms < run->job_limit_ms &&
        !has(run, RUN_NATIVE_LOST) && !has(run, RUN_THREADS)) {
        buf_appendf(text, " | for longer work send timeout_s (at most %g)",
                    (double)run->job_limit_ms / 1000);
    }
    append_fact(run, RUN_LEFT_STATE, " | kept: \"",
                run->back_cell == 0 ? "\", its files alone; restore it to have them back"
                                    : "\", restore it to take this back",
                text);
    append_fact(run, RUN_NAMED_STATES, " | named states: ", "", text);
    append_saved(run, text);
    append_fact(run, RUN_THREADS, " | threads: ",
                run->end.outcome == RUN_TIMEOUT
                    ? " lost; what needs them hangs: make its objects anew, or `reset`"
                    : " lost",
                text);
    append_fact(run, RUN_NATIVE_LOST, " | native threads lost: ",
                "; what needs them hangs: make its objects anew, or `reset` and import it again",
                text);
    append_fact(run, RUN_PROCESSES, " | processes: ", " killed", text);
    append_fact(run, RUN_KILLED, " | killed: ", "", text);
    append_fact(run, RUN_MEMORY, " | ", "", text);
    append_fact(run, RUN_WAITED, " | ", "", text);
    append_fact(run, RUN_BEFORE, " | before: ", "", text);
    if (request->clamped) {
        buf_appendf(text, " | timeout_s: capped at %g s", (double)request->timeout_ms / 1000);
    }
    append_fact(run, RUN_NETWORK, " | network: ", "", text);
    append_fact(run, RUN_TOOLS, " | tools: ", "", text);
    append_fact(run, RUN_NOT_UNDONE, " | ", "", text);
    append_fact(run, RUN_DEGRADED, " | isolation: degraded (", "), see sandpiper doctor", text);
    append_fact(run, RUN_PROTECTED_NOTE, " | workspace: ", "", text);
    append_fact(run, RUN_PROTECTED_NEWS, " | changed settings: ",
                " (programs outside the sandbox act on these files; tell the user)", text);
    append_files(run, text);
    append_fact(run, RUN_FILES_STAY, " | ", "", text);
    append_fact(run, RUN_FILES_NOTE, " | ", "", text);
    append_vars(run, text);
    append_notes(run, text);
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
