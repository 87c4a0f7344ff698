/* The steps that lead a run into the interpreter. session_next_step() chooses the next one and has
 * no side effects; session_pump() carries it out. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "record/record.h"
#include "tools/run/recorded.h"
#include "tools/session/session_internal.h"

static bool is_blank(const struct run *run)
{
    return strspn(run->request.code, " \t\r\n") == run->request.code_size;
}

static void session_abandon(struct session *session)
{
    enum session_state state = session->state;
    if (state == SESSION_PREINSTALLING || state == SESSION_CHECKPOINTING ||
        state == SESSION_CHECKING || state == SESSION_SUPPLYING) {
        session_enter(session, SESSION_IDLE); /* other states serve the next run too */
    }
    if (session->current->job > 0 && !session->transient) {
        session_state_untouched(session);
    }
    session_conclude(session, FATE_CANCELLED, NULL);
}

static void session_reset(struct session *session)
{
    struct run *run = session->current;
    run->request.reset = false;
    run->was_reset = true;
    session->history.left = (struct history_state){};
    if (session->history.now.cell > 0) {
        session_calls_stay(session, LEDGER_SINCE, 0);
        session_close(session);
    }
}

static void session_finish(struct session *session)
{
    if (session->current->request.save[0]) {
        session_name_state(session);
    }
    session_conclude(session, FATE_NOTHING_TO_RUN, NULL);
}

static void add_program(struct box_fields *fields, const struct run_program *program)
{
    if (program) {
        box_fields_add(fields, "argv", program->argv, program->argv_size);
        box_fields_add(fields, "file", program->file, strlen(program->file));
        box_fields_add(fields, "directory", program->directory, strlen(program->directory));
    }
}

/* Output since the last result belongs to the current run. */
static void record_between(const struct session *session)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (output_append_raw(&session->next_result.between, &text) == 0) {
        recorded_output(session->current, BOX_STDOUT, buf_bytes(&text), buf_size(&text));
    }
}

static void add_files(struct box_fields *fields, const struct session *session)
{
    const struct run *run = session->current;
    const struct session *parent = session_parent(session);
    const struct buf *back = parent ? &parent->files.back : &session->files.back;
    if (session_files_are_edits(session, run)) {
        box_fields_add_number(fields, "files", run->files);
    }
    if (buf_size(back) > 0) {
        box_fields_add(fields, "files_back", buf_bytes(back), buf_size(back));
    }
}

/* False: no code may run without a record, and the run was refused. */
static bool session_record(struct session *session)
{
    struct run *run = session->current;
    struct fail fail = {};
    char text[SESSION_SENTENCE_BYTES];
    recorded_cell(run);
    if (run->sent > 0 || record_open(run->recording.record, &fail)) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s.", fail.text);
    session_conclude(session, FATE_REFUSED, text);
    return false;
}

void session_send(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    run->cell = run->sent > 0 ? run->cell : ++session->cell;
    if (!session_record(session)) {
        return;
    }
    run->sent++;
    buf_clear(&session->owner->written.text, SESSION_WRITTEN_BYTES);
    session->owner->written.count = 0;
    session->begun = false;
    const struct run_request *request = &run->request;
    struct box_fields fields = {.at = {{"run", 3}}, .count = 1};
    box_fields_add_number(&fields, "cell", run->cell);
    box_fields_add(&fields, "code", request->code, request->code_size);
    if (request->stdin_text) {
        box_fields_add(&fields, "stdin", request->stdin_text, request->stdin_size);
    }
    add_files(&fields, session);
    if (session->transient) {
        box_fields_add(&fields, "once", "1", 1);
    }
    if (request->shown) {
        box_fields_add(&fields, "shown", "1", 1);
    }
    add_program(&fields, request->program);
    session_packages_fields(session, &layers, &fields);
    session_packages_sent(session);
    run->started_ns = clock_now_ns();
    /* Output since the last result comes before the output of this run. */
    if (!run->on_output && session->next_result.between.total > 0) {
        record_between(session);
        output_done(&run->output);
        run->output = session->next_result.between;
        output_init(&session->next_result.between);
    }
    session_enter(session, SESSION_RUNNING);
    if (run->job > 0) { /* since before there was an interpreter */
        sessions_write_output(session->owner, run);
    }
    session_arm_deadline(session);
    session_memory_watch(session);
    tool_channel_begin(&session->calls, session->guest, run);
    int r = box_session_send(session->guest, fields.at, fields.count);
    if (r < 0) {
        session_enter(session, SESSION_FAILOVER);
        log_debug("tools", "run: %s", strerror(-r));
    }
}

/* --- the next step --- */

typedef void (*session_step)(struct session *session);

/* Closes and frees a transient session after its run. */
static session_step next_without_run(const struct session *session)
{
    if (!session->transient || session->files.waiting || session->state == SESSION_WAITING ||
        session->state == SESSION_CLOSING) {
        return NULL;
    }
    return session->state == SESSION_NONE ? session_drop : session_close;
}

/* Whether the interpreter, or its checkpoint, has yet to read what makes a branch of it. A run that
 * were sent now could be read in its place, or keep the interpreter from reading it. */
static bool session_is_being_branched(const struct session *session)
{
    const struct session *other = session->owner->list;
    while (other && !(other->branches && other->state == SESSION_OPENING &&
                      strcmp(other->name, session->name) == 0)) {
        other = other->next;
    }
    return other && !session->transient;
}

/* An undo or restore that has begun completes, or variables and files were of two states. One that
 * became a job does in any case: what stops it may be another one, which goes on from there. */
static bool session_goes_back(const struct session *session)
{
    const struct run *run = session->current;
    bool is_asked = run->request.undo || run->request.restore[0];
    return (is_asked && !run->cancelled) || session_files_differ(session) ||
           (session->files.waiting && run_fact(run, RUN_BACK)[0]);
}

/* NULL: the run waits for an event. */
static session_step session_next_step(const struct session *session)
{
    const struct run *run = session->current;
    bool is_idle = session->state == SESSION_IDLE;
    bool at_rest = is_idle || session->state == SESSION_NONE;
    if (!run) {
        return next_without_run(session);
    }
    if ((run->cancelled || run->stop) && session_life_can_abandon(session->state) &&
        !session_goes_back(session)) {
        return session_abandon;
    }
    if (run->request.reset && (at_rest || session->state == SESSION_FAILOVER)) {
        return session_reset;
    }
    if (!at_rest || session->files.waiting) {
        return NULL;
    }
    if (is_idle && session_packages_are_awaited(session)) {
        return session_packages_await;
    }
    if (run->request.drop[0]) {
        return session_drop_named;
    }
    /* Until then the interpreter reads nothing, and to stop the run would be to kill it: with the
     * only copy of its state. */
    if (session_checkpoint(session) == BOX_CHECKPOINT_AWAITED && !run->gives_up) {
        return session_await_checkpoint;
    }
    if (run->request.undo || run->request.restore[0]) {
        return run->request.undo ? session_undo : session_restore;
    }
    if (session_files_differ(session)) {
        return session_files_switch;
    }
    bool only_names = is_blank(run) && run->request.save[0] && session->history.now.cell > 0;
    if (only_names ||
        (is_blank(run) && (run_fact(run, RUN_BACK)[0] || run_fact(run, RUN_NAMED_STATES)[0]))) {
        return session_finish;
    }
    if (!is_idle) {
        return session_branch_waits(session) ? NULL : session_start;
    }
    if (session_is_being_branched(session)) {
        return NULL;
    }
    if (session_packages_need_check(session)) {
        return session_packages_check;
    }
    if (session->owner->overflows.opening > 0) {
        return NULL; /* a result may have named one, which the code opens */
    }
    if (session->owner->files_looking > 0) {
        return NULL; /* what the code changes would be taken for another run's */
    }
    return session_files_are_unprepared(session) ? session_files_prepare : session_send;
}

static void session_carry_out(struct session *session)
{
    session_step step = NULL;
    if (session->pumping) {
        return; /* called from a step: the loop below goes on */
    }
    session->pumping = true;
    while ((step = session_next_step(session)) && step != session_drop) {
        step(session);
    }
    session->pumping = false;
    if (step) {
        session_drop(session);
    }
}

/* Each step changes what session_next_step() depends on, so this ends. A step of one session can be
 * what another one's run has waited for. */
void sessions_pump(struct sessions *sessions)
{
    struct session *session = sessions->list;
    while (session) {
        bool moves = session->current && !session->pumping && session_next_step(session);
        if (moves) {
            session_carry_out(session);
        }
        session = moves ? sessions->list : session->next;
    }
}

void session_pump(struct session *session)
{
    struct sessions *sessions = session->owner;
    session_carry_out(session);
    sessions_pump(sessions);
}
