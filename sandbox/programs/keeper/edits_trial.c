/* Which edits of a way can be carried out: see edits_trial.h. */
#include "sandbox/programs/keeper/edits_trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

struct version *edits_none(void)
{
    static struct version none = {.kind = KIND_NONE, .kept = true};
    return &none;
}

/* --- what does not come back --- */

/* Bytes by which an older file must have grown to hold another. */
enum { GROWN = 64 };

/* Notes the version of which something else stands at its path. */
static void add_left(struct edits_outcome *outcome, const struct version *version)
{
    for (size_t i = 0; i < outcome->left_count; i++) {
        if (outcome->left[i] == version) {
            return;
        }
    }
    if (outcome->left_count < EDITS_LEFT) {
        outcome->left[outcome->left_count++] = version;
    } else {
        outcome->lost = true;
    }
}

static bool is_content(const struct version *version)
{
    return version->kind == KIND_FILE && version->bytes > 0;
}

/* The version does not come to path. What the user has put there since has taken its place; else
 * something is lost, for calls that came before too. */
static void leave(struct edits_outcome *outcome, const char *path, const struct version *version)
{
    struct apply_facts facts;
    if (!is_content(version) ||
        (outcome->keeper->edits.lost_ns == 0 && edits_have_made(outcome->keeper, version))) {
        return; /* nothing of the user's */
    }
    if (version->kept && place_look(outcome->keeper->work_fd, path, &facts, NULL) == 0 &&
        facts.mode) {
        add_left(outcome, version);
        return;
    }
    outcome->lost = true;
    edits_lose(outcome->keeper);
}

/* Where something is lost, nothing goes: code may have packed it, edited it, or divided it into
 * what it has made. Else a copy stays, as of a file that code has moved by copying it, and what
 * "before-undo" could not bring back. */
static bool is_last_copy(const struct edits_outcome *outcome, const struct version *version,
                         const struct version *wanted)
{
    bool goes = wanted->kind == KIND_NONE;
    if (!is_content(version) || outcome->returns) {
        return false;
    }
    bool is = outcome->lost && (goes || !version->kept || version->bytes > wanted->bytes + GROWN);
    for (size_t i = 0; i < outcome->left_count && goes && !is; i++) {
        const struct version *left = outcome->left[i];
        is = !version->kept ||
             (left->bytes == version->bytes &&
              (!left->kept || memcmp(left->data, version->data, left->bytes) == 0));
    }
    return is;
}

static bool is_edited(const struct state *state, const char *path)
{
    for (size_t i = 0; i < state->edits.count; i++) {
        const struct edit *edit = state->edits.list[i];
        if (path_behind(path, edit->path) || (edit->moves && path_behind(path, edit->target))) {
            return true;
        }
    }
    return false;
}

/* What programs that code has started, or the user, have changed or removed: of that there is no
 * copy. Of a file that is gone a copy of its size may be the last; of a directory anything. */
static void find_lost_by_others(struct edits_outcome *outcome, const struct state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct step *step = &state->steps[i];
        bool goes = step->from->kind == KIND_DIRECTORY && step->to->kind == KIND_NONE;
        if ((!goes && !is_content(step->from)) || is_edited(state, step->record->path)) {
            continue;
        }
        if (goes) {
            edits_lose(outcome->keeper);
        } else {
            add_left(outcome, step->from);
        }
    }
}

static void find_lost(struct edits_outcome *outcome)
{
    int64_t since_ns = INT64_MAX;
    for (const struct state *state = outcome->way.from; state != outcome->way.above;
         state = state->parent) {
        since_ns = state->since_ns < since_ns ? state->since_ns : since_ns;
        find_lost_by_others(outcome, state);
        outcome->lost = outcome->lost || state->edits.lost || state->lost;
    }
    outcome->lost = outcome->lost || outcome->keeper->edits.lost_ns >= since_ns;
}

/* --- one edit --- */

bool edits_is_same_file(const struct keeper *keeper, const struct edit *edit, const char *path,
                        const struct apply_facts *facts, const struct version *version)
{
    const struct apply_facts *was = &version->facts;
    if (version->kind != KIND_FILE || !S_ISREG(facts->mode) || was->inode != facts->inode ||
        version->bytes != facts->bytes) {
        return false;
    }
    if ((!edit->writes && !edit->mixed && was->mtime_ns == facts->mtime_ns) ||
        (apply_facts_equal(was, facts) && !edit->held)) {
        return true; /* also of one that is too large to copy */
    }
    return place_has_content(keeper, path, facts, version);
}

enum put edits_may_put(const struct keeper *keeper, const struct edits_outcome *outcome,
                       const struct edit *edit, const struct edits_putting *putting, bool *ret_same)
{
    const struct apply_facts *facts = &putting->facts;
    const struct version *there = putting->there;
    const struct version *wanted = putting->wanted;
    if (edit->linked && S_ISREG(facts->mode) && putting->links < 2) {
        return PUT_STAYS; /* the file's last name */
    }
    if (S_ISDIR(facts->mode) && (facts->mode & ACCESSPERMS) != there->mode) {
        return PUT_STAYS; /* the user has changed the mode */
    }
    *ret_same = edits_is_same_file(keeper, edit, edit_place(edit), facts, wanted);
    if (wanted->kind == KIND_OTHER || (!wanted->kept && !*ret_same)) {
        return PUT_MISSED;
    }
    return !*ret_same && is_last_copy(outcome, there, wanted) ? PUT_MISSED : PUT_BACK;
}

/* --- what would be at each path --- */

struct trial {
    struct keeper *keeper;
    struct edits_outcome *outcome;
    struct edits moved; /* directories, borrowed */
    bool more;          /* an edit is held that was not */
};

static void set(struct trial *trial, const char *path, struct version *version)
{
    struct record *record = record_get(trial->keeper, path);
    if (record) {
        record->scratch.goal = version;
        record->scratch.moves = trial->moved.count;
    }
}

/* Where what would be at path is now: below directories that would have moved, under their other
 * names. *ret_goal: what would have got there before they move, or NULL. False: nowhere. */
static bool find_now(const struct trial *trial, const char *path, char now[KEEPER_PATH_BYTES],
                     const struct version **ret_goal)
{
    size_t before = trial->moved.count;
    *ret_goal = NULL;
    (void)snprintf(now, KEEPER_PATH_BYTES, "%s", path);
    for (size_t i = trial->moved.count; i-- > 0 && !*ret_goal;) {
        const struct edit *edit = trial->moved.list[i];
        const char *to = edit->undone ? edit->target : edit->path;
        const char *from = edit->undone ? edit->path : edit->target;
        char rest[KEEPER_PATH_BYTES];
        if (path_behind(now, to)) {
            (void)snprintf(rest, sizeof rest, "%s", now + strlen(to));
            if (snprintf(now, KEEPER_PATH_BYTES, "%s%s", from, rest) >= KEEPER_PATH_BYTES) {
                return false;
            }
            before = i;
        } else if (path_behind(now, from)) {
            return false;
        }
        const struct record *record = record_find(trial->keeper, now);
        *ret_goal = record && record->scratch.moves <= before ? record->scratch.goal : NULL;
    }
    return true;
}

/* Whether something else than a directory is above path. */
static bool is_blocked(const struct trial *trial, const char *path)
{
    char above[KEEPER_PATH_BYTES];
    (void)snprintf(above, sizeof above, "%s", path);
    while (path_cut_last(above)) {
        struct apply_facts facts;
        const struct record *record = record_find(trial->keeper, above);
        if (record && record->scratch.goal && record->scratch.goal->kind != KIND_NONE) {
            return record->scratch.goal->kind != KIND_DIRECTORY;
        }
        (void)place_look(trial->keeper->work_fd, above, &facts, NULL);
        if (facts.mode && !(record && record->scratch.goal)) {
            return !S_ISDIR(facts.mode);
        }
    }
    return false;
}

/* Whether the version would be at path; where that is so now, finds what is there. */
static bool would_be(const struct trial *trial, const char *path, struct version *version,
                     struct edits_putting *ret)
{
    char now[KEEPER_PATH_BYTES];
    const struct record *record = record_find(trial->keeper, path);
    const struct version *goal = record ? record->scratch.goal : NULL;
    *ret = (struct edits_putting){.facts = version->facts, .links = 2, .there = version};
    if (!goal && !find_now(trial, path, now, &goal)) {
        return version->kind == KIND_NONE;
    }
    if (goal) {
        return goal == version ||
               (goal->kind == version->kind &&
                (goal->kind == KIND_NONE || version_is_at(version, &goal->facts)));
    }
    ret->found = true;
    return place_look(trial->keeper->work_fd, now, &ret->facts, &ret->links) == 0 &&
           version_is_at(version, &ret->facts) &&
           (version->kind != KIND_NONE || !is_blocked(trial, now));
}

/* Whether something is in the directory that would not go before it does. */
static bool has_others(const struct trial *trial, const char *path)
{
    char now[KEEPER_PATH_BYTES];
    char below[KEEPER_PATH_BYTES];
    bool has = false;
    const struct version *goal = NULL;
    int fd = find_now(trial, path, now, &goal)
                 ? fd_open_beneath(trial->keeper->work_fd, now, O_RDONLY | O_DIRECTORY)
                 : -1;
    defer_closedir DIR *directory = fd_directory(fd);
    for (const char *name = NULL; !has && (name = fd_next_name(directory));) {
        (void)snprintf(below, sizeof below, "%s/%s", path, name);
        const struct record *record = record_find(trial->keeper, below);
        has = !(record && record->scratch.goal && record->scratch.goal->kind == KIND_NONE);
    }
    return has;
}

static enum put try_content(struct trial *trial, const struct edit *edit, struct version *there,
                            struct version *wanted)
{
    struct edits_putting putting;
    bool same = false;
    if (!would_be(trial, edit->path, there, &putting)) {
        return edit->held ? PUT_MISSED : PUT_STAYS; /* code itself may have gone on writing */
    }
    const struct record *record = record_find(trial->keeper, edit->path);
    if (there->kind == KIND_DIRECTORY && wanted->kind == KIND_NONE && record &&
        record->scratch.awaits && has_others(trial, edit->path)) {
        return PUT_STAYS; /* something else is to come to its name */
    }
    putting.wanted = wanted;
    if (putting.found && (trial->outcome->lost || trial->outcome->left_count > 0)) {
        place_keep(trial->keeper, edit->path, there);
    }
    enum put put = edits_may_put(trial->keeper, trial->outcome, edit, &putting, &same);
    if (put == PUT_BACK) {
        set(trial, edit->path, wanted);
    }
    return put;
}

static enum put try_move(struct trial *trial, struct edit *edit, bool back)
{
    const char *source = back ? edit->target : edit->path;
    const char *target = back ? edit->path : edit->target;
    bool is_directory = edit->to->kind == KIND_DIRECTORY;
    struct edits_putting moving;
    struct edits_putting replaced;
    if (!would_be(trial, source, edit->to, &moving) ||
        !would_be(trial, target, back ? edits_none() : edit->from, &replaced)) {
        return PUT_STAYS;
    }
    edit->looks = is_directory && moving.found;
    if (edit->looks && !edits_is_as_known(trial->keeper, source, edit->to->facts.ctime_ns)) {
        return PUT_STAYS;
    }
    if (!back && !edit->from->kept) {
        return PUT_MISSED;
    }
    if (moving.found && (trial->outcome->lost || trial->outcome->left_count > 0)) {
        place_keep(trial->keeper, source, edit->to); /* where it will be, nobody can look yet */
    }
    set(trial, source, back ? edit->from : edits_none());
    set(trial, target, edit->to);
    return is_directory && !edits_add(&trial->moved, edit) ? PUT_MISSED : PUT_BACK;
}

/* What would come. */
static const struct version *wanted(const struct edit *edit, bool back)
{
    return back ? edit->from : edit->moves ? edits_none() : edit->to;
}

static void try_edit(void *arg, struct edit *edit, bool back)
{
    struct trial *trial = arg;
    if (edit->undone == back) {
        return;
    }
    if (edit->fate == PUT_BACK) {
        edit->fate = edit->moves ? try_move(trial, edit, back)
                     : back      ? try_content(trial, edit, edit->to, edit->from)
                                 : try_content(trial, edit, edit->from, edit->to);
        trial->more = trial->more || edit->fate != PUT_BACK;
    }
    if (edit->fate != PUT_BACK) {
        leave(trial->outcome, edit_place(edit), wanted(edit, back));
    }
}

static void clear(struct keeper *, struct record *record, void *)
{
    record->scratch.goal = NULL;
}

/* Returns whether more is held than was known. */
static bool try_way(struct edits_outcome *outcome)
{
    struct trial trial = {.keeper = outcome->keeper, .outcome = outcome};
    bool lost = outcome->lost;
    size_t left_count = outcome->left_count;
    edits_each(&outcome->way, try_edit, &trial);
    records_each(outcome->keeper, clear, NULL);
    free(trial.moved.list);
    return trial.more || outcome->lost != lost || outcome->left_count != left_count;
}

/* --- paths that are held --- */

static void begin(void *arg, struct edit *edit, bool back)
{
    struct keeper *keeper = arg;
    enum kind kind = wanted(edit, back)->kind;
    bool comes = edit->moves || (kind != KIND_NONE && kind != KIND_DIRECTORY);
    struct record *record = comes ? record_get(keeper, edit->path) : NULL;
    struct record *target = edit->moves ? record_get(keeper, edit->target) : NULL;
    edit->fate = edit->unsure ? PUT_STAYS : PUT_BACK;
    if (record) {
        record->scratch.awaits = true;
    }
    if (target) {
        target->scratch.awaits = true;
    }
}

bool edits_is_below_awaited(const struct keeper *keeper, const char *path, bool held)
{
    char above[KEEPER_PATH_BYTES];
    (void)snprintf(above, sizeof above, "%s", path);
    while (path_cut_last(above)) {
        const struct record *record = record_find(keeper, above);
        if (record && record->scratch.awaits && (record->scratch.held || !held)) {
            return true;
        }
    }
    return false;
}

struct spreading {
    struct keeper *keeper;
    bool more;
};

struct record *edits_git_record(struct keeper *keeper, const char *path)
{
    char git[KEEPER_PATH_BYTES];
    size_t size = apply_path_git_size(path);
    if (size == 0 || size >= sizeof git) {
        return NULL;
    }
    (void)snprintf(git, sizeof git, "%.*s", (int)size, path);
    return record_get(keeper, git);
}

static void spread(void *arg, struct edit *edit, bool)
{
    struct spreading *spreading = arg;
    struct keeper *keeper = spreading->keeper;
    struct record *record = record_get(keeper, edit->path);
    struct record *target = edit->target ? record_get(keeper, edit->target) : NULL;
    struct record *git = edits_git_record(keeper, edit_place(edit));
    bool held = edit->fate != PUT_BACK || (record && record->scratch.held) ||
                (git && git->scratch.held) || (target && target->scratch.held) ||
                edits_is_below_awaited(keeper, edit->path, /* held= */ true) ||
                (edit->moves && edits_is_below_awaited(keeper, edit->target, /* held= */ true));
    if (!held) {
        return;
    }
    spreading->more = spreading->more || edit->fate == PUT_BACK ||
                      (record && !record->scratch.held) || (target && !target->scratch.held) ||
                      (git && !git->scratch.held);
    edit->fate = edit->fate == PUT_BACK ? PUT_STAYS : edit->fate;
    if (record) {
        record->scratch.held = true;
    }
    if (target) {
        target->scratch.held = true;
    }
    if (git) {
        git->scratch.held = true;
    }
}

static void spread_all(const struct edits_outcome *outcome)
{
    struct spreading spreading = {outcome->keeper, .more = true};
    while (spreading.more) {
        spreading.more = false;
        edits_each(&outcome->way, spread, &spreading);
    }
}

void edits_try(struct edits_outcome *outcome)
{
    find_lost(outcome);
    records_each(outcome->keeper, record_release, NULL);
    edits_each(&outcome->way, begin, outcome->keeper);
    do {
        spread_all(outcome);
    } while (try_way(outcome));
}

/* Each failure checks all edits: after a few, what has not been carried out stays. */
enum { GIVEN_UP = 16 };

static void hold_rest(void *, struct edit *edit, bool back)
{
    if (edit->fate == PUT_BACK && edit->undone != back) {
        edit->fate = PUT_STAYS;
    }
}

void edits_give_up(struct edits_outcome *outcome, struct edit *edit, enum put put)
{
    edit->fate = put;
    outcome->lost = true;
    edits_lose(outcome->keeper);
    if (++outcome->given_up == GIVEN_UP) {
        edits_each(&outcome->way, hold_rest, outcome);
    }
    spread_all(outcome);
}
