/* Calls of tools of other servers: when they may come, and what a result says of them. */
#include "base/buf.h"
#include "base/own.h"
#include "tools/session/session_internal.h"

void sessions_set_tool_servers(struct sessions *sessions, struct tool_servers *servers)
{
    sessions->tool_servers = servers;
}

void session_on_call(void *arg, const struct box_message *message)
{
    struct session *session = arg;
    tool_channel_receive(&session->calls, message);
}

void session_calls_end(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    tool_channel_end(&session->calls);
    if (run->cell == 0) {
        return;
    }
    ledger_list(&session->calls.ledger, run->cell, &text);
    if (buf_size(&text) > 0) {
        run_add(run, RUN_TOOLS, buf_bytes(&text), buf_size(&text));
    }
    if (session->transient) {
        session_calls_stay(session, LEDGER_ONE, run->cell);
    }
}

void session_calls_stay(struct session *session, enum ledger_scope scope, unsigned cell)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (session->transient && scope != LEDGER_ONE) {
        return; /* session_calls_end() has */
    }
    ledger_take_back(&session->calls.ledger, scope, cell, session->history.now.calls,
                     run ? " | " : ", ", &text);
    if (buf_size(&text) == 0) {
        return;
    }
    if (run) {
        const char *before = run_fact(run, RUN_NOT_UNDONE);
        run_addf(run, RUN_NOT_UNDONE, "%s%s%.*s", before, before[0] ? " | " : "",
                 (int)buf_size(&text), buf_bytes(&text));
    } else {
        session_tell(session, "%.*s", (int)buf_size(&text), buf_bytes(&text));
    }
}
