/* The steps that lead a run into the interpreter. session_next_step() chooses the next one and has
 * no side effects; session_pump() carries it out.
 *
 * Some have to do with packages: each run receives the list of the installed ones, the first waits
 * for those that the user wants from the beginning (--preinstall), and with --auto-install the
 * code's missing imports are installed before it runs. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "record/record.h"
#include "tools/install/install.h"
#include "tools/install/install_request.h"
#include "tools/run/result.h"
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
    session_kept_decline(session);
    if (session->history.now.cell > 0) {
        if (session->history.named_count > 0) {
            run_addf(run, RUN_NOTES, "reset has dropped the named states too");
        }
        session_calls_stay(session, LEDGER_SINCE, 0);
        session_close(session);
        session_kept_remove(session);
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

void session_packages_fields(const struct session *session, struct buf *layers,
                             struct box_fields *fields)
{
    const struct sessions *sessions = session->owner;
    const struct box_packages *packages = server_box_packages(sessions->server_box);
    for (unsigned n = packages ? box_packages_layers(packages) : 0; n > 0; n--) {
        (void)buf_appendf(layers, "%s%s/%u", buf_size(layers) ? ":" : "",
                          box_packages_path(packages), n);
    }
    if (buf_size(layers) > 0) {
        box_fields_add(fields, "packages", buf_bytes(layers), buf_size(layers));
    }
}

/* To be called when the current run is sent: its result reports a failed --preinstall, once. */
static void session_packages_sent(struct session *session)
{
    session->current->doing[0] = '\0';
    char *error = session->owner->preinstall_error;
    if (error[0] && !session->current->on_output) {
        run_add(session->current, RUN_NOTES, error, strlen(error));
        error[0] = '\0';
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

/* A branch beside a call that runs. */
static void note_branch(const struct session *session)
{
    const struct session *parent =
        session->branches && session->current->sent == 1 ? session_parent(session) : NULL;
    const struct run *beside = parent ? parent->current : NULL;
    if (beside && beside->job > 0) {
        run_addf(session->current, RUN_NOTES,
                 "the variables of this branch are from before job %u, which runs", beside->job);
    } else if (beside && beside->cell > 0) {
        run_addf(session->current, RUN_NOTES,
                 "the variables of this branch are from before <cell %u>, which runs",
                 beside->cell);
    }
}

static void add_trace(struct box_fields *fields, json_t *trace)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach (trace, name, value) {
        box_fields_add(fields, name, json_string_value(value), json_string_length(value));
    }
}

static void session_send(struct session *session)
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
    add_trace(&fields, request->trace);
    add_program(&fields, request->program);
    session_packages_fields(session, &layers, &fields);
    session_packages_sent(session);
    run->started_ns = clock_now_ns();
    note_branch(session);
    session_kept_line(session, run, /* is_last= */ false); /* it may become a job */
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

/* --- --preinstall --- */

int sessions_new_installs(struct sessions *sessions, const struct install_config *config,
                          struct record *record, struct installs **ret_installs)
{
    int r = installs_new(sessions->loop, sessions->server_box, config, &sessions->overflows, record,
                         &sessions->installs);
    *ret_installs = sessions->installs;
    return r;
}

static void preinstall_done(void *arg, struct install_op *op)
{
    struct sessions *sessions = arg;
    bool cancelled = op->cancelled;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (op->report.failure && install_text_compose(&op->report, &text) == 0) {
        (void)snprintf(sessions->preinstall_error, sizeof sessions->preinstall_error,
                       "--preinstall: %.*s", (int)strcspn(buf_text(&text), "\n"), buf_text(&text));
    }
    install_op_free(op);
    sessions->preinstall = PREINSTALL_OVER;
    if (cancelled) {
        return;
    }
    for (struct session *session = sessions->list; session; session = session->next) {
        if (session->state == SESSION_PREINSTALLING) {
            session_enter(session, SESSION_IDLE);
        }
    }
    sessions_pump(sessions);
}

void sessions_preinstall(struct sessions *sessions)
{
    const struct install_words *words =
        sessions->installs ? &installs_config(sessions->installs)->preinstall : NULL;
    if (!words || sessions->preinstall != PREINSTALL_DUE) {
        return;
    }
    sessions->preinstall = PREINSTALL_BEGUN;
    json_t *packages = words->count > 0 ? json_array() : NULL;
    for (unsigned i = 0; packages && i < words->count; i++) {
        (void)json_array_append_new(packages, json_string(words->at[i]));
    }
    struct install_op *op = install_op_new(packages);
    if (op) {
        op->on_done = preinstall_done;
        op->arg = sessions;
    }
    if (!op || installs_add(sessions->installs, op) < 0) {
        install_op_free(op);
        sessions->preinstall = PREINSTALL_OVER;
    }
}

const char *sessions_preinstall_error(const struct sessions *sessions)
{
    return sessions->preinstall_error;
}

static bool session_packages_are_awaited(const struct session *session)
{
    return session->owner->installs && session->owner->preinstall != PREINSTALL_OVER;
}

static void session_packages_await(struct session *session)
{
    struct run *run = session->current;
    sessions_preinstall(session->owner);
    if (session_packages_are_awaited(session)) {
        session_enter(session, SESSION_PREINSTALLING);
        (void)snprintf(run->doing, sizeof run->doing, "waiting for the packages of --preinstall");
    }
}

/* --- --auto-install --- */

static void supply_progress(void *arg, const char *text)
{
    struct session *session = arg;
    struct run *run = session->current;
    (void)snprintf(run->doing, sizeof run->doing, "installing: %s", text);
}

/* The session has gone another way. */
static void supply_dropped(void *, struct install_op *op)
{
    install_op_free(op);
}

static void supply_done(void *arg, struct install_op *op)
{
    struct session *session = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    session->op = NULL;
    if (install_text_brief(&op->report, &text) == 0 && !op->cancelled) {
        run_add(session->current, RUN_NOTES, buf_bytes(&text), buf_size(&text));
    }
    install_op_free(op);
    session_send(session);
}

/* The guest's words: requirements that would be refused from a call are left out, and so are names
 * that are only guessed from an import, unless the user has said which packages there are: anybody
 * can have taken such a name on an index. */
static json_t *wanted(const struct installs *installs, const struct box_message *message)
{
    const struct install_config *config = installs_config(installs);
    enum { NEEDS_MOST = 20 };
    bool is_vouched = config->no_index || config->allow.count > 0;
    json_t *packages = json_array();
    for (size_t i = 1; packages && i + 1 < message->count; i += 2) {
        const struct box_field *value = &message->fields[i + 1];
        char requirement[REQUIREMENT_NAME_BYTES];
        char name[REQUIREMENT_NAME_BYTES];
        char text[REQUIREMENT_TEXT_BYTES];
        const char *key =
            is_vouched && box_field_is(&message->fields[i], "guess") ? "guess" : "name";
        if (!box_field_is(&message->fields[i], key) || value->size >= sizeof requirement ||
            json_array_size(packages) == NEEDS_MOST) {
            continue;
        }
        memcpy(requirement, value->data, value->size);
        requirement[value->size] = '\0';
        if (!requirement_check(requirement, value->size, name, text) &&
            !install_policy_refusal(config, name, text, sizeof text)) {
            (void)json_array_append_new(packages, json_string(requirement));
        }
    }
    return packages;
}

static bool session_packages_need_check(const struct session *session)
{
    const struct installs *installs = session->owner->installs;
    const struct run *run = session->current;
    return installs && installs_config(installs)->auto_install && !run->supplied &&
           !run->on_output &&
           (memmem(run->request.code, run->request.code_size, "import", strlen("import")) ||
            memmem(run->request.code, run->request.code_size, "install",
                   strlen("install"))); /* %pip install */
}

/* The code is not sent before its imports are known: whatever the guest says while it runs, the
 * clock goes on. */
static void session_packages_check(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    run->supplied = true;
    run->cell = ++session->cell;
    run->started_ns = clock_now_ns();
    struct box_fields fields = {.at = {{"imports", 7}}, .count = 1};
    box_fields_add_number(&fields, "cell", run->cell);
    box_fields_add(&fields, "code", run->request.code, run->request.code_size);
    session_packages_fields(session, &layers, &fields);
    session_enter(session, SESSION_CHECKING);
    session_arm_deadline(session);
    if (box_session_send(session->guest, fields.at, fields.count) < 0) {
        session_enter(session, SESSION_FAILOVER);
    }
}

void session_packages_supply(struct session *session, const struct box_message *message)
{
    struct installs *installs = session->owner->installs;
    struct run *run = session->current;
    run->spent_ns = clock_now_ns() - run->started_ns;
    session->cell--; /* the run has not begun */
    struct install_op *op = install_op_new(wanted(installs, message));
    if (op) {
        op->on_done = supply_done;
        op->on_progress = supply_progress;
        op->arg = session;
    }
    if (!op || json_array_size(op->packages) == 0 || installs_add(installs, op) < 0) {
        install_op_free(op);
        session_send(session);
        return;
    }
    (void)snprintf(run->doing, sizeof run->doing, "installing missing imports");
    session_enter(session, SESSION_SUPPLYING);
    session->op = op;
}

void session_packages_forget(struct session *session)
{
    struct install_op *op = take_ptr(session->op);
    if (op) {
        op->on_done = supply_dropped;
        op->on_progress = NULL;
        installs_cancel(session->owner->installs, op);
    }
}

/* --- the next step --- */

typedef void (*session_step)(struct session *session);

/* What has been kept is loaded by an interpreter that has run nothing. NULL: not now. */
static session_step next_of_kept(const struct session *session)
{
    if (session->kept.back != BACK_DUE) {
        return NULL;
    }
    return session->state == SESSION_IDLE   ? session_kept_load
           : session->state == SESSION_NONE ? session_start
                                            : NULL;
}

/* Closes and frees a transient session after its run. */
static session_step next_without_run(const struct session *session)
{
    if (!session->transient) { /* a branch may wait for it */
        return next_of_kept(session);
    }
    if (session->files.waiting || session->state == SESSION_WAITING ||
        session->state == SESSION_CLOSING) {
        return NULL;
    }
    return session->state == SESSION_NONE ? session_drop : session_close;
}

/* Whether the interpreter, or its checkpoint, has yet to read what makes a branch of it. A run that
 * were sent now could be read in its place, or keep the interpreter from reading it. */
static bool session_is_being_branched(const struct session *session)
{
    return !session->transient && list_find(session->owner->list, at,
                                            at->branches && at->state == SESSION_OPENING &&
                                                strcmp(at->name, session->name) == 0);
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
    if (session_kept_is_due(session)) {
        return next_of_kept(session);
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
    if (run->keep_ms > 0) {
        return session_kept_send;
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
