/* What the sessions have to do with installed packages: each run receives their list, the first
 * waits for those that the user wants from the beginning (--preinstall), and with --auto-install
 * the code's missing imports are installed before it runs. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "tools/install/install.h"
#include "tools/install/requirement.h"
#include "tools/session/session_internal.h"

enum { NEEDS_MOST = 20 };

int sessions_new_installs(struct sessions *sessions, const struct install_config *config,
                          struct record *record, struct installs **ret_installs)
{
    int r = installs_new(sessions->loop, sessions->server_box, config, &sessions->overflows, record,
                         &sessions->installs);
    *ret_installs = sessions->installs;
    return r;
}

void session_packages_fields(const struct session *session, struct buf *layers,
                             struct session_fields *fields)
{
    const struct sessions *sessions = session->owner;
    const struct box_packages *packages = server_box_packages(sessions->server_box);
    for (unsigned n = packages ? box_packages_layers(packages) : 0; n > 0; n--) {
        (void)buf_appendf(layers, "%s%s/%u", buf_size(layers) ? ":" : "",
                          box_packages_path(packages), n);
    }
    if (buf_size(layers) > 0) {
        session_add_field(fields, "packages", buf_bytes(layers), buf_size(layers));
    }
}

/* --- --preinstall --- */

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

bool session_packages_are_awaited(const struct session *session)
{
    return session->owner->installs && session->owner->preinstall != PREINSTALL_OVER;
}

void session_packages_await(struct session *session)
{
    struct run *run = session->current;
    sessions_preinstall(session->owner);
    if (session_packages_are_awaited(session)) {
        session_enter(session, SESSION_PREINSTALLING);
        (void)snprintf(run->doing, sizeof run->doing, "waiting for the packages of --preinstall");
    }
}

void session_packages_sent(struct session *session)
{
    session->current->doing[0] = '\0';
    char *error = session->owner->preinstall_error;
    if (error[0] && !session->current->on_output) {
        run_add(session->current, RUN_NOTES, error, strlen(error));
        error[0] = '\0';
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

bool session_packages_need_check(const struct session *session)
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
void session_packages_check(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    char cell[16];
    run->supplied = true;
    run->cell = ++session->cell;
    run->started_ns = clock_now_ns();
    (void)snprintf(cell, sizeof cell, "%u", run->cell);
    struct session_fields fields = {.at = {{"imports", 7}}, .count = 1};
    session_add_field(&fields, "cell", cell, strlen(cell));
    session_add_field(&fields, "code", run->request.code, run->request.code_size);
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
