/* What the sessions have to do with installed packages: each run is told which there are, the first waits for
 * those that the user wants from the beginning (--preinstall), and with --auto-install the code's missing
 * imports are installed before it runs. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "tools/install.h"
#include "tools/install_policy.h"
#include "tools/requirement.h"
#include "tools/session_inside.h"

enum { NEEDS_MOST = 20 };

void sessions_set_installs(struct sessions *sessions, struct installs *installs)
{
    sessions->installs = installs;
}

struct spills *sessions_spills(struct sessions *sessions)
{
    return &sessions->spills;
}

size_t session_packages_fields(const struct session *session, struct buf *layers,
                               struct box_field *fields)
{
    const struct sessions *sessions = session->owner;
    const struct box_packages *packages = workspace_packages(sessions->workspace);
    size_t count = 0;
    for (unsigned n = packages ? box_packages_layers(packages) : 0; n > 0; n--) {
        (void)buf_appendf(layers, "%s%s/%u", buf_size(layers) ? ":" : "",
                          box_packages_path(packages), n);
    }
    if (buf_size(layers) > 0) {
        fields[count++] = (struct box_field){"packages", 8};
        fields[count++] = (struct box_field){buf_bytes(layers), buf_size(layers)};
    }
    return count;
}

/* --- --preinstall --- */

static void preinstall_done(void *arg, struct install_job *job)
{
    struct sessions *sessions = arg;
    bool cancelled = job->cancelled;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (job->report.failure && install_text_brief(&job->report, &text) == 0) {
        (void)snprintf(sessions->preinstall_trouble, sizeof sessions->preinstall_trouble,
                       "--preinstall: %.*s", (int)buf_size(&text), buf_bytes(&text));
    }
    install_job_free(job);
    sessions->preinstalled = true;
    struct session *next = NULL;
    for (struct session *session = cancelled ? NULL : sessions->list; session; session = next) {
        next = session->next; /* a fresh one may go */
        session_pump(session);
    }
}

void sessions_preinstall(struct sessions *sessions)
{
    const struct install_words *words =
        sessions->installs ? &installs_config(sessions->installs)->preinstall : NULL;
    if (!words || sessions->preinstalling) {
        return;
    }
    sessions->preinstalling = true;
    json_t *packages = words->count > 0 ? json_array() : NULL;
    for (unsigned i = 0; packages && i < words->count; i++) {
        (void)json_array_append_new(packages, json_string(words->at[i]));
    }
    struct install_job *job = install_job_new(packages);
    if (job) {
        job->on_done = preinstall_done;
        job->arg = sessions;
    }
    if (!job || installs_add(sessions->installs, job) < 0) {
        install_job_free(job);
        sessions->preinstalled = true;
    }
}

const char *sessions_preinstall_trouble(const struct sessions *sessions)
{
    return sessions->preinstall_trouble;
}

bool session_packages_wait(struct session *session)
{
    sessions_preinstall(session->owner);
    if (!session->owner->installs || session->owner->preinstalled) {
        return false;
    }
    struct run *run = session->current;
    (void)snprintf(run->doing, sizeof run->doing, "waiting for the packages of --preinstall");
    return true;
}

void session_packages_sent(struct session *session)
{
    session->current->doing[0] = '\0';
    char *trouble = session->owner->preinstall_trouble;
    if (trouble[0] && !session->current->on_output) {
        run_set_part(session->current, RUN_NOTES, trouble, strlen(trouble));
        trouble[0] = '\0';
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
static void supply_dropped(void *arg, struct install_job *job)
{
    (void)arg;
    install_job_free(job);
}

static void supply_done(void *arg, struct install_job *job)
{
    struct session *session = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    session->job = NULL;
    session->state = SESSION_IDLE;
    if (install_text_brief(&job->report, &text) == 0 && !job->cancelled) {
        run_set_part(session->current, RUN_NOTES, buf_bytes(&text), buf_size(&text));
    }
    install_job_free(job);
    session_send(session);
}

/* The guest's words: requirements that would be refused from a call are left out. */
static json_t *wanted(const struct installs *installs, const struct box_message *message)
{
    json_t *packages = json_array();
    for (size_t i = 1; packages && i + 1 < message->count; i += 2) {
        const struct box_field *value = &message->fields[i + 1];
        char requirement[REQUIREMENT_NAME_BYTES];
        char name[REQUIREMENT_NAME_BYTES];
        char text[REQUIREMENT_TEXT_BYTES];
        if (!box_field_is(&message->fields[i], "name") || value->size >= sizeof requirement ||
            json_array_size(packages) == NEEDS_MOST) {
            continue;
        }
        memcpy(requirement, value->data, value->size);
        requirement[value->size] = '\0';
        if (!requirement_check(requirement, value->size, name, text) &&
            !install_policy_refusal(installs_config(installs), name, text, sizeof text)) {
            (void)json_array_append_new(packages, json_string(requirement));
        }
    }
    return packages;
}

/* The code is not sent before its imports are known: whatever the guest says while it runs, the clock goes on. */
bool session_packages_check(struct session *session)
{
    const struct installs *installs = session->owner->installs;
    struct run *run = session->current;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    char cell[16];
    if (!installs || !installs_config(installs)->auto_install || run->supplied || run->on_output ||
        !memmem(run->code, run->code_size, "import", strlen("import"))) {
        return false;
    }
    run->supplied = true;
    run->cell = ++session->cell;
    run->started_ns = clock_now_ns();
    (void)snprintf(cell, sizeof cell, "%u", run->cell);
    struct box_field fields[9] = {{"imports", 7},
                                  {"cell", 4},
                                  {cell, strlen(cell)},
                                  {"code", 4},
                                  {run->code, run->code_size}};
    size_t count = 5 + session_packages_fields(session, &layers, fields + 5);
    session->state = SESSION_CHECKING;
    session->checking = true;
    session_arm_deadline(session);
    if (box_session_send(session->guest, fields, count) < 0) {
        session_wait_for_heir(session);
    }
    return true;
}

void session_packages_supply(struct session *session, const struct box_message *message)
{
    struct installs *installs = session->owner->installs;
    struct run *run = session->current;
    loop_timer_disarm(&session->timer);
    run->spent_ns = clock_now_ns() - run->started_ns;
    session->checking = false;
    session->cell--; /* the run has not begun */
    struct install_job *job = install_job_new(wanted(installs, message));
    if (job) {
        job->on_done = supply_done;
        job->on_progress = supply_progress;
        job->arg = session;
    }
    if (!job || json_array_size(job->packages) == 0 || installs_add(installs, job) < 0) {
        install_job_free(job);
        session_send(session);
        return;
    }
    (void)snprintf(run->doing, sizeof run->doing, "installing what the code imports");
    session->state = SESSION_SUPPLYING;
    session->job = job;
}

void session_packages_forget(struct session *session)
{
    struct install_job *job = take_ptr(session->job);
    if (job) {
        job->on_done = supply_dropped;
        job->on_progress = NULL;
        installs_cancel(session->owner->installs, job);
    }
}
