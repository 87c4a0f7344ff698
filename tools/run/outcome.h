#pragma once
#include "sandbox/sandbox.h"
#include "tools/run/run.h"

/* Puts into a run what the guest and the sandbox report of it. The guest's text is copied as text;
 * what the server knows itself is never taken from the guest. */

/* Takes the parts of a "result" frame, which hostile code may have made. Bounds each part and all
 * of them together. Cuts what does not fit and says by how much; omits or quotes what is not a
 * number, a place or a single sentence. */
void outcome_take_parts(struct run *run, const struct box_message *message);

/* Begins an overflow file with all output so far, which has not been cut yet. Returns false if
 * there is none. */
bool outcome_begin_overflow(struct run *run, struct overflows *overflows,
                            void (*on_open)(void *arg), void *arg);

/* Takes a piece of the output. Returns true when it has just begun an overflow file: then the guest
 * should wait until on_open is called. */
bool outcome_take_output(struct run *run, struct overflows *overflows, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg);

/* exit_code of a "result"; 1 if it is invalid. */
int outcome_exit_code(const struct box_message *message);

/* Whether the signal handler has written all of its lines. */
bool outcome_trace_is_whole(const char *text);

/* Takes the place where the code hangs from the trace; see box_session_traced(). */
void outcome_take_trace(struct run *run, const char *text);

/* The same for a process killed while writing the trace: only whole lines count. */
void outcome_take_place(struct run *run, const char *text);

/* "SIGSEGV", "out of memory", …: for an interpreter that died between runs. Returns out. */
const char *outcome_end_text(const struct box_end *end, char out[64]);
