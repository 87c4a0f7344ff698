/* The states of the files that sessions can go back to: a tree of steps for each session. A step
 * leads one path from one version to the next, so a state costs what its call has changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/keeper/keeper.h"

/* --- the tree --- */

struct state *states_find(const struct keeper *keeper, uint32_t id)
{
    struct state *state = id ? keeper->states : NULL;
    while (state && state->id != id) {
        state = state->next;
    }
    return state;
}

static struct state *state_new(struct keeper *keeper, uint32_t id, uint32_t owner)
{
    struct state *state = calloc(1, sizeof *state);
    if (state) {
        *state = (struct state){.next = keeper->states, .id = id, .owner = owner};
        keeper->states = state;
    }
    return state;
}

/* The code of a call may be quicker than the server's request. */
static struct state *states_find_open(struct keeper *keeper, uint32_t id)
{
    enum { AHEAD = 1024 };
    struct state *state = states_find(keeper, id);
    if (!state && id > keeper->last_begun && id - keeper->last_begun <= AHEAD) {
        state = state_new(keeper, id, 0);
        if (state) {
            state->open = state->early = true;
        }
    }
    return state && state->open ? state : NULL;
}

struct state *states_find_toucher(struct keeper *keeper, uint32_t id)
{
    enum { OWNERS = sizeof keeper->owners / sizeof *keeper->owners };
    struct state *state = states_find_open(keeper, id);
    typeof(*keeper->owners) *of = &keeper->owners[id % OWNERS];
    if (state || of->state != id) {
        return state;
    }
    state = keeper->states;
    while (state && !(state->open && !state->early && state->owner == of->session)) {
        state = state->next;
    }
    state = state ? state : states_find(keeper, id);
    if (state) {
        state->late = state->late || !state->open;
    }
    return state;
}

/* Takes references of its own. Returns whether there was memory. */
static bool steps_append(struct steps *steps, const struct step *step)
{
    if (!array_add(steps, *step)) {
        return false;
    }
    (void)version_take(step->from);
    (void)version_take(step->to);
    step->record->steps++;
    return true;
}

static void step_done(struct keeper *keeper, struct step *step)
{
    step->record->steps--;
    version_release(keeper, &step->from);
    version_release(keeper, &step->to);
}

static void steps_drop(struct keeper *keeper, struct steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        step_done(keeper, &steps->list[i]);
    }
    free(steps->list);
}

/* What the state's programs have done until now is its own. Only when that has to be known: a
 * program may be about to do what it has been allowed. */
static void state_resolve_late(struct keeper *keeper, struct state *state)
{
    if (state->late && !state->open) {
        state->late = false;
        edits_end(keeper, state, /* finally= */ true);
    }
}

void states_resolve_late(struct keeper *keeper, uint32_t owner)
{
    for (struct state *state = keeper->states; state; state = state->next) {
        if (state->owner == owner) {
            state_resolve_late(keeper, state);
        }
    }
}

static void state_drop(struct keeper *keeper, struct state *state)
{
    list_remove(&keeper->states, state);
    steps_drop(keeper, &state->steps);
    edits_drop(keeper, &state->edits);
    free(state);
}

static struct state *child_of(const struct keeper *keeper, const struct state *state,
                              const struct state *after)
{
    struct state *child = after ? after->next : keeper->states;
    while (child && child->parent != state) {
        child = child->next;
    }
    return child;
}

/* What it has done its children have in common: the way between them does not lead over it. And one
 * whose call runs is to report only what that call does. */
static bool is_crossing(const struct keeper *keeper, const struct state *state)
{
    const struct state *child = child_of(keeper, state, NULL);
    return child && (child->open || child_of(keeper, state, child));
}

static struct state *state_unused(const struct keeper *keeper)
{
    struct state *state = keeper->states;
    while (state && (state->keep || is_crossing(keeper, state))) {
        state = state->next;
    }
    return state;
}

/* Two steps of a path that follow each other become one. */
static void steps_compact(struct keeper *keeper, struct steps *steps)
{
    size_t kept = 0;
    for (size_t i = 0; i < steps->count; i++) {
        steps->list[i].record->scratch.mark = UINT32_MAX;
    }
    for (size_t i = 0; i < steps->count; i++) {
        struct step *step = &steps->list[i];
        unsigned at = step->record->scratch.mark;
        struct step *last = at == UINT32_MAX ? NULL : &steps->list[at];
        if (last && last->to == step->from) {
            version_set(keeper, &last->to, step->to);
            last->unsure = last->unsure || step->unsure;
            step_done(keeper, step);
            continue;
        }
        step->record->scratch.mark = (unsigned)kept;
        steps->list[kept++] = *step;
    }
    steps->count = kept;
    for (size_t i = 0; i < kept; i++) {
        steps->list[i].record->scratch.mark = 0;
    }
}

/* The child of a state that is dropped leads on from its parent. */
static void state_merge(struct keeper *keeper, struct state *state)
{
    struct state *child = child_of(keeper, state, NULL);
    state_resolve_late(keeper, state);
    if (child) {
        struct steps joined = {};
        bool whole = state->parent != NULL; /* nothing leads back over the first state */
        for (size_t i = 0; whole && i < state->steps.count; i++) {
            whole = steps_append(&joined, &state->steps.list[i]);
        }
        for (size_t i = 0; whole && i < child->steps.count; i++) {
            whole = steps_append(&joined, &child->steps.list[i]);
        }
        steps_drop(keeper, &child->steps);
        child->steps = joined;
        child->unseen = child->unseen || state->unseen;
        child->lost = child->lost || state->lost || keeper->edits.lost_ns >= state->since_ns;
        if (state->parent) {
            whole = edits_prepend(keeper, &state->edits, &child->edits) && whole;
        } else {
            edits_drop(keeper, &child->edits);
        }
        child->parent = whole ? state->parent : NULL;
        steps_compact(keeper, &child->steps);
    }
    state_drop(keeper, state);
}

void states_keep(struct keeper *keeper, const struct keep_states *keep)
{
    bool dropped = false;
    for (struct state *state = keeper->states; state; state = state->next) {
        state->keep = state->owner != keep->session;
        for (uint32_t i = 0; i < keep->count && i < KEEP_STATES_MOST; i++) {
            state->keep = state->keep || state->id == keep->list[i];
        }
    }
    struct state *state = NULL;
    while ((state = state_unused(keeper))) { /* one that is dropped may leave no crossing */
        state_merge(keeper, state);
        dropped = true;
    }
    struct records_at at = {};
    for (struct record *record = NULL; dropped && (record = records_next(keeper, &at));) {
        bool known = record->facts.mode || record->cow.base.mode || record->cow.covers;
        if (!known && record->steps == 0) {
            record_drop(keeper, record);
        }
    }
}

/* --- what has changed --- */

struct noting {
    struct state *state; /* of the call that ends, or NULL */
    bool surely;         /* look, even if nothing reports a change */
    bool failed;
    put_fn missed; /* called for what has changed, or NULL */
    void *arg;
};

/* When the record came to what the scan has found. What has gone, and what has come with a
 * directory that was renamed, has no time of its own: the directories that it was in tell. */
static int64_t changed_ns(const struct keeper *keeper, const struct record *record)
{
    char path[KEEPER_PATH_BYTES];
    bool seen = record->round == keeper->round;
    int64_t latest_ns = seen ? record->found.ctime_ns : INT64_MIN;
    if (seen && record->stayed) {
        return latest_ns;
    }
    (void)memccpy(path, record->path, '\0', sizeof path);
    while (path_cut_last(path)) {
        const struct record *parent = record_find(keeper, path);
        bool is_there = parent && parent->round == keeper->round;
        if (is_there && !seen) {
            return parent->found.ctime_ns;
        }
        if (is_there && parent->stayed) {
            return latest_ns; /* others may have changed that directory too */
        }
        if (is_there && parent->found.ctime_ns > latest_ns) {
            latest_ns = parent->found.ctime_ns;
        }
    }
    return seen ? latest_ns : keeper->root_ns;
}

/* Whether the call ran at that time. */
static bool may_have_made(const struct noting *noting, const struct state *state, int64_t at_ns)
{
    bool ran = state->open || state == noting->state;
    return ran && at_ns >= state->since_ns && (!state->until_ns || at_ns <= state->until_ns);
}

/* Adds the step to each call that may have made it. Returns whether there was memory. */
static bool add_to_makers(struct keeper *keeper, const struct noting *noting, int64_t at_ns,
                          struct step *step)
{
    unsigned makers = 0;
    bool done = true;
    const struct record *record = step->record;
    bool known = keeper->seen && record->making == keeper->round && record->maker;
    struct state *maker = known ? states_find_toucher(keeper, record->maker) : NULL;
    if (maker) {
        return steps_append(&maker->steps, step);
    }
    for (const struct state *state = keeper->states; state; state = state->next) {
        makers += may_have_made(noting, state, at_ns);
    }
    if (makers > 1 && noting->state && keeper_claims(keeper, step->record->path) &&
        may_have_made(noting, noting->state, at_ns)) {
        return steps_append(&noting->state->steps, step);
    }
    step->unsure = makers > 1;
    for (struct state *state = keeper->states; state; state = state->next) {
        if (may_have_made(noting, state, at_ns)) {
            done = steps_append(&state->steps, step) && done;
        }
    }
    return done;
}

/* What was derived from earlier facts no longer holds. */
static void set_facts(struct keeper *keeper, struct record *record, const struct apply_facts *facts)
{
    record->facts = *facts;
    record->noted = true;
    record->cow.compared = false;
    record->cow.same = false;
    record->cow.applied = false;
    keeper->pending_known = false;
}

/* What is at the record's path. */
static struct apply_facts facts_at(const struct keeper *keeper, struct record *record)
{
    struct apply_facts facts;
    (void)place_look(keeper_root(keeper), record->path, &facts, &record->links);
    return S_ISCHR(facts.mode) ? (struct apply_facts){} : facts; /* a whiteout: code makes none */
}

/* Updates the record to these facts, changed at that time. noting: the call that changed it, or
 * NULL. Returns whether there was memory. */
static bool advance(struct keeper *keeper, struct record *record, const struct apply_facts *facts,
                    const struct noting *noting, int64_t at_ns)
{
    struct version *version = keeper_is_plain(keeper)
                                  ? version_of(facts)
                                  : place_read(keeper, keeper_root(keeper), record->path, facts);
    if (!version) {
        return false;
    }
    if (!keeper_is_plain(keeper)) { /* there the edits' versions are those that are known */
        version_seen_as(keeper, version, facts);
    }
    struct step step = {.record = record, .from = record->now, .to = version};
    bool nothing = step.from->kind == KIND_NONE && version->kind == KIND_NONE;
    record->now = version;
    set_facts(keeper, record, facts);
    bool done = !noting || nothing || add_to_makers(keeper, noting, at_ns, &step);
    version_release(keeper, &step.from);
    return done;
}

static void note(struct keeper *keeper, struct record *record, struct noting *noting)
{
    bool seen = record->round == keeper->round;
    struct apply_facts found = seen ? record->found : (struct apply_facts){};
    if (!record->now) {
        return; /* of the store, and not found */
    }
    if (record->noted && apply_facts_alike(&found, &record->facts)) {
        record->facts = found;
        return;
    }
    record->links = seen ? record->found_links : 0;
    struct version *before = version_take(record->now);
    noting->failed =
        !advance(keeper, record, &found, noting, changed_ns(keeper, record)) || noting->failed;
    if (noting->missed && version_differs(before, record->now)) {
        noting->missed(noting->arg, PUT_MISSED, record);
    }
    version_release(keeper, &before);
}

/* Several calls may have made a change: what the first of them saw counts. */
static int64_t seen_ns(const struct keeper *keeper, const struct noting *noting)
{
    int64_t seen_ns = keeper->fresh_ns;
    for (const struct state *state = keeper->states; state; state = state->next) {
        if ((state->open || state == noting->state) && state->fresh_ns < seen_ns) {
            seen_ns = state->fresh_ns;
        }
    }
    return seen_ns;
}

static void see_root(struct keeper *keeper)
{
    struct stat st;
    keeper->root_ns = fstat(keeper_root(keeper), &st) == 0 ? apply_facts_of(&st).ctime_ns : 0;
}

/* Returns false where anything may have changed. */
static bool note_touched(struct keeper *keeper, struct noting *noting)
{
    size_t count = 0;
    if (!keeper->touched.begun || keeper->touched.lost || keeper->unread) {
        keeper->touched.begun = true;
        keeper->touched.lost = false;
        return false;
    }
    if (keeper->touched.count == 0) {
        return true;
    }
    struct record **list = scan_touched(keeper, &count);
    see_root(keeper);
    for (size_t i = 0; i < count; i++) {
        note(keeper, list[i], noting);
    }
    free(list);
    bool whole = !keeper->touched.lost;
    keeper->touched.lost = false;
    return whole;
}

static void look(struct keeper *keeper, struct noting *noting)
{
    enum { SKIPPED = 32 };
    if (keeper->seen && keeper_is_plain(keeper)) {
        return;
    }
    if (keeper->skip > 0) {
        keeper->skip -= !keeper_is_plain(keeper);
        return;
    }
    if (keeper->seen ? note_touched(keeper, noting)
                     : watch_is_quiet(&keeper->watch) && !noting->surely) {
        return;
    }
    int64_t calls_ns = seen_ns(keeper, noting);
    keeper->seen_ns = keeper->whole_ns && keeper->whole_ns < calls_ns ? keeper->whole_ns : calls_ns;
    keeper->too_many = !scan(keeper);
    if (keeper->too_many) {
        keeper->skip = SKIPPED;
        return;
    }
    see_root(keeper);
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        note(keeper, record, noting);
    }
    keeper->watch.on = keeper->watch.on || keeper->seen;
}

void states_look(struct keeper *keeper)
{
    keeper->skip = 0;
    look(keeper, &(struct noting){});
}

void states_look_surely(struct keeper *keeper, put_fn missed, void *arg)
{
    look(keeper, &(struct noting){.surely = true, .missed = missed, .arg = arg});
}

/* States begin in the order of their numbers: what is early and lower was made up by code. */
static void drop_early(struct keeper *keeper, uint32_t begun)
{
    struct state *next = NULL;
    for (struct state *state = keeper->states; state; state = next) {
        next = state->next;
        if (state->early && state->id < begun) {
            state_drop(keeper, state);
        }
    }
    keeper->last_begun = begun;
}

int states_begin(struct keeper *keeper, const struct keep_begin *begin)
{
    states_resolve_late(keeper, begin->session);
    if (begin->looks) {
        look(keeper, &(struct noting){});
    }
    struct state *from = states_find(keeper, begin->from);
    if (!from && begin->from) {
        from = state_new(keeper, begin->from, begin->session);
    }
    drop_early(keeper, begin->to);
    struct state *to = states_find(keeper, begin->to);
    to = to ? to : state_new(keeper, begin->to, begin->session);
    if (!to || (begin->from && !from)) {
        return -ENOMEM;
    }
    to->owner = begin->session;
    keeper->owners[to->id % (sizeof keeper->owners / sizeof *keeper->owners)] =
        (typeof(*keeper->owners)){to->id, to->owner};
    to->parent = from;
    to->open = true;
    to->early = false;
    to->since_ns = begin->since_ns;
    to->fresh_ns = keeper->fresh_ns;
    to->unseen = to->unseen || keeper->too_many || keeper->unread;
    edits_begin(keeper, to);
    return 0;
}

/* What was touched is known, unless another call runs, whose end has to see it. */
static void watch_forget(const struct keeper *keeper)
{
    uint64_t touches = 0;
    for (const struct state *state = keeper->states; state; state = state->next) {
        if (state->open) {
            return;
        }
    }
    (void)read(keeper->watch.fd, &touches, sizeof touches);
}

int states_end(struct keeper *keeper, const struct keep_end *end, report_fn report, void *arg)
{
    struct noting noting = {.state = states_find(keeper, end->to), .surely = end->surely != 0};
    struct state *state = noting.state;
    if (!state) {
        return -ENOENT;
    }
    state->until_ns = end->until_ns;
    look(keeper, &noting);
    state->open = false;
    if (keeper->seen) {
        watch_forget(keeper);
    }
    state->unseen = state->unseen || keeper->too_many || keeper->unread;
    steps_compact(keeper, &state->steps);
    edits_end(keeper, state, /* finally= */ false);
    if (noting.failed || (keeper->too_many && !keeper_is_plain(keeper))) {
        state->parent = NULL; /* what is not whole is not gone back over */
    }
    for (size_t i = 0; i < state->steps.count; i++) {
        report(arg, state->steps.list[i].record, state->steps.list[i].from);
    }
    return noting.failed ? -ENOMEM : 0;
}

void states_foreign(struct keeper *keeper, struct record *record)
{
    struct apply_facts facts = facts_at(keeper, record);
    (void)advance(keeper, record, &facts, NULL, 0);
}

/* With --cow a record of what the upper directory does not hold would say that it was deleted. */
static struct record *noted_record(struct keeper *keeper, const char *path)
{
    bool is_there = place_facts(keeper_root(keeper), path).mode;
    struct record *record = is_there ? scan_record(keeper, path) : record_find(keeper, path);
    return record && record->now ? record : NULL;
}

/* Directories that a file tool has made for a file are not the next call's either. */
static void note_parents(struct keeper *keeper, const char *path)
{
    char text[KEEPER_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", path);
    for (char *slash = strchr(text, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        struct record *record = noted_record(keeper, text);
        struct apply_facts facts = record ? facts_at(keeper, record) : (struct apply_facts){};
        if (record && !apply_facts_alike(&facts, &record->facts)) {
            (void)advance(keeper, record, &facts, NULL, 0);
        }
        *slash = '/';
    }
}

void states_note_path(struct keeper *keeper, const char *path)
{
    struct record *record = NULL;
    if ((keeper->seen && keeper_is_plain(keeper)) || keeper->skip > 0 ||
        !apply_path_is_valid(path)) {
        return;
    }
    keeper->seen_ns = keeper->fresh_ns;
    keeper->looks++;
    note_parents(keeper, path);
    record = noted_record(keeper, path);
    if (record) {
        states_foreign(keeper, record);
    }
}

void states_see(struct keeper *keeper, struct record *record)
{
    struct apply_facts facts = facts_at(keeper, record);
    set_facts(keeper, record, &facts);
    version_seen_as(keeper, record->now, &facts);
}
