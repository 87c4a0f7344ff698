#include "tools/session/session_life.h"

#define TO(state) (1U << SESSION_##state)

/* The interpreter can end in each of these states. */
#define END (TO(IDLE) | TO(NONE) | TO(FAILOVER))

static const struct {
    const char *name;
    unsigned next;
} states[SESSION_STATE_COUNT] = {
    [SESSION_NONE] = {"none", TO(WAITING)},
    [SESSION_WAITING] = {"waiting", TO(OPENING) | TO(NONE)},
    [SESSION_OPENING] = {"opening", END | TO(CLOSING)},
    [SESSION_IDLE] = {"idle", END | TO(LOADING) | TO(PREINSTALLING) | TO(CHECKPOINTING) |
                                  TO(RESTORING) | TO(CHECKING) | TO(RUNNING) | TO(CLOSING)},
    [SESSION_PREINSTALLING] = {"preinstalling", END},
    [SESSION_CHECKPOINTING] = {"checkpointing", END},
    [SESSION_LOADING] = {"loading", END},
    [SESSION_RESTORING] = {"restoring", END},
    [SESSION_CHECKING] = {"checking", END | TO(CHECK_INTERRUPTED) | TO(SUPPLYING) | TO(RUNNING)},
    [SESSION_CHECK_INTERRUPTED] = {"check-interrupted", END | TO(KILLED)},
    [SESSION_SUPPLYING] = {"supplying", END | TO(RUNNING)},
    [SESSION_RUNNING] = {"running", END | TO(INTERRUPTED) | TO(SWEEPING) | TO(SAVING)},
    [SESSION_INTERRUPTED] = {"interrupted", END | TO(KILLED) | TO(SWEEPING) | TO(SAVING)},
    [SESSION_SWEEPING] = {"sweeping", END | TO(SAVING)},
    [SESSION_SAVING] = {"saving", END},
    [SESSION_KILLED] = {"killed", END},
    [SESSION_FAILOVER] = {"failover", END | TO(CLOSING)},
    [SESSION_CLOSING] = {"closing", TO(NONE)},
};

static bool is_one_of(enum session_state state, unsigned set)
{
    return set & 1U << state;
}

const char *session_life_name(enum session_state state)
{
    return states[state].name;
}

bool session_life_follows(enum session_state from, enum session_state to)
{
    return is_one_of(to, states[from].next);
}

bool session_life_has_begun(enum session_state state)
{
    return is_one_of(state, TO(RUNNING) | TO(INTERRUPTED) | TO(CHECK_INTERRUPTED) | TO(SWEEPING) |
                                TO(SAVING) | TO(KILLED));
}

bool session_life_can_abandon(enum session_state state)
{
    return !session_life_has_begun(state) && state != SESSION_RESTORING;
}
