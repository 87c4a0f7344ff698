#pragma once
#include "sandbox/sandbox.h"
#include "tools/run.h"

/* What the guest and the box say of a run, put into the run. The guest's words are copied as text and
 * believed in nothing that the server knows better. */

/* The parts of a "result", each and all of them bounded by what is sent of them: hostile code may have made the
 * frame. What does not fit is cut, and says by how much; what is no number, no place or no single sentence is left
 * out or quoted. */
void outcome_take_parts(struct run *run, const struct box_message *message);

/* A piece of what it printed. Returns true when a file for all of it has just been begun: on_open is called when
 * that takes what comes, and until then the guest had better wait. */
bool outcome_take_output(struct run *run, struct spills *spills, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg);

/* The number in a field; 0 where there is none. */
uint64_t outcome_number(const struct box_message *message, const char *name);

/* exit_code of a "result"; 1 where it makes no sense. */
int outcome_exit_code(const struct box_message *message);

/* Whether the signal handler has written all of its lines. */
bool outcome_trace_is_whole(const char *text);

/* Where the code hangs, of the lines that box_session_traced() gives. */
void outcome_take_trace(struct run *run, const char *text);

/* The same of a process that was killed as it wrote them: only what is there whole counts. */
void outcome_take_place(struct run *run, const char *text);

/* What the end of the process means for the run that it took along. killed: by us, for its time or
 * because it was cancelled. */
enum run_outcome outcome_of_end(struct run *run, const struct box_end *end, bool killed);

/* "SIGSEGV", "out of memory", …: for an end between the runs. Returns out. */
const char *outcome_end_text(const struct box_end *end, char out[64]);
