/* Takes edits back, or repeats them: see edits.h.
 *
 * Before a way from one state to another is gone, it is tried: what would be at each path after
 * each edit. Of a path, or of paths that moves connect, all edits are carried out or none: where
 * one cannot be, because it is unsure, or the user has changed something, or no copy was kept,
 * the others stay too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"

/* --- whether all that is in a directory is known, before it moves back with it --- */

struct looking {
    const struct keeper *keeper;
    int64_t since_ns;
    bool as_known;
    unsigned depth;
    char path[KEEPER_PATH_BYTES];
};

static void look_into(struct looking *looking, int fd);

/* Whether the path is the directory, or a name in it. */
static bool is_at(const char *path, const char *directory, size_t size)
{
    return path && strncmp(path, directory, size) == 0 &&
           (!path[size] || strrchr(path, '/') == path + size);
}

/* Whether an edit is known of something in the directory, also when that had another name, or of
 * itself. */
static bool has_edit(const struct keeper *keeper, const char *path, uint64_t inode)
{
    size_t size = strlen(path);
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (edit->parent == inode || edit->to->facts.inode == inode ||
                is_at(edit->path, path, size) || is_at(edit->target, path, size)) {
                return true;
            }
        }
    }
    return false;
}

static void check_entry(struct looking *looking, int dir_fd, const char *name)
{
    struct stat st;
    size_t size = strlen(looking->path);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        size + strlen(name) + 2 > sizeof looking->path) {
        looking->as_known = false;
        return;
    }
    struct apply_facts facts = apply_facts_of(&st);
    bool is_old = facts.ctime_ns < looking->since_ns;
    if (!S_ISDIR(st.st_mode)) {
        const struct version *version = version_known(looking->keeper, &facts);
        looking->as_known = is_old || (version && version->found_ns < looking->since_ns);
        return;
    }
    (void)snprintf(looking->path + size, sizeof looking->path - size, "/%s", name);
    if (is_old || has_edit(looking->keeper, looking->path, facts.inode)) {
        look_into(looking, openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    } else {
        looking->as_known = false; /* it may have been moved here */
    }
    looking->path[size] = '\0';
}

/* Takes the descriptor. One for each level is open: there is a bound. */
static void look_into(struct looking *looking, int fd)
{
    defer_closedir DIR *directory = fd_directory(fd);
    const char *name = NULL;
    looking->as_known = looking->as_known && directory && looking->depth < KEEPER_DEPTH;
    looking->depth++;
    while (looking->as_known && (name = fd_next_name(directory))) {
        check_entry(looking, fd, name);
    }
    looking->depth--;
}

/* Whether nothing but what is known has changed in a directory since. */
static bool is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns)
{
    struct looking looking = {.keeper = keeper, .since_ns = since_ns, .as_known = true};
    (void)snprintf(looking.path, sizeof looking.path, "%s", path);
    look_into(&looking, fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_DIRECTORY));
    return looking.as_known;
}

/* An edit of a way has its turn, in the order in which it is taken back (at.back) or repeated. */
struct turn {
    struct way_at at;
    size_t over; /* edits of that state */
    struct edit *edit;
};

/* The next one; false: there are no more. Starts from {}. */
static bool turn_next(const struct way *way, struct turn *turn)
{
    while (!turn->at.state || turn->over == turn->at.state->edits.count) {
        if (!way_next(way, &turn->at)) {
            return false;
        }
        turn->over = 0;
    }
    const struct edits *edits = &turn->at.state->edits;
    size_t i = turn->over++;
    turn->edit = edits->list[turn->at.back ? edits->count - 1 - i : i];
    return true;
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
    if (!is_content(version) ||
        (outcome->keeper->edits.lost_ns == 0 && edits_have_made(outcome->keeper, version))) {
        return; /* nothing of the user's */
    }
    if (version->kept && place_facts(outcome->keeper->work_fd, path).mode) {
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
    for (size_t i = 0; i < state->steps.count; i++) {
        const struct step *step = &state->steps.list[i];
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

/* Whether the file at path has the version's content, in the very inode that had it: the edit has
 * changed its attributes. */
static bool is_same_file(const struct keeper *keeper, const struct edit *edit, const char *path,
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

/* A version that replaces another one at an edit's path. */
struct putting {
    struct apply_facts facts; /* of what is there */
    unsigned links;           /* that it has */
    bool found;               /* it is there now, and not only after other edits */
    const struct version *there;
    const struct version *wanted;
};

/* Whether that would lose nothing: PUT_BACK, PUT_STAYS or PUT_MISSED. *ret_same: see below. */
static enum put may_put(const struct keeper *keeper, const struct edits_outcome *outcome,
                        const struct edit *edit, const struct putting *putting, bool *ret_same)
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
    *ret_same = is_same_file(keeper, edit, edit_place(edit), facts, wanted);
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
        const struct record *record = record_find(trial->keeper, above);
        if (record && record->scratch.goal && record->scratch.goal->kind != KIND_NONE) {
            return record->scratch.goal->kind != KIND_DIRECTORY;
        }
        struct apply_facts facts = place_facts(trial->keeper->work_fd, above);
        if (facts.mode && !(record && record->scratch.goal)) {
            return !S_ISDIR(facts.mode);
        }
    }
    return false;
}

/* Whether the version would be at path; where that is so now, finds what is there. */
static bool would_be(const struct trial *trial, const char *path, struct version *version,
                     struct putting *ret)
{
    char now[KEEPER_PATH_BYTES];
    const struct record *record = record_find(trial->keeper, path);
    const struct version *goal = record ? record->scratch.goal : NULL;
    *ret = (struct putting){.facts = version->facts, .links = 2, .there = version};
    if (!goal && !find_now(trial, path, now, &goal)) {
        return version->kind == KIND_NONE;
    }
    if (goal) {
        return goal == version ||
               (goal->kind == version->kind &&
                (goal->kind == KIND_NONE || version_is_at(version, &goal->facts)));
    }
    int r = place_look(trial->keeper->work_fd, now, &ret->facts, &ret->links);
    if (r == -EACCES && !is_blocked(trial, now)) {
        ret->facts = version->facts; /* found when the directory above has its mode back */
        return true;
    }
    ret->found = true;
    return r == 0 && version_is_at(version, &ret->facts) &&
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
    struct putting putting;
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
    enum put put = may_put(trial->keeper, trial->outcome, edit, &putting, &same);
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
    struct putting moving;
    struct putting replaced;
    if (!would_be(trial, source, edit->to, &moving) ||
        !would_be(trial, target, back ? edits_none() : edit->from, &replaced)) {
        return PUT_STAYS;
    }
    edit->looks = is_directory && moving.found;
    if (edit->looks && !is_as_known(trial->keeper, source, edit->to->facts.ctime_ns)) {
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
    return is_directory && !array_add(&trial->moved, edit) ? PUT_MISSED : PUT_BACK;
}

/* What would come. */
static const struct version *wanted(const struct edit *edit, bool back)
{
    return back ? edit->from : edit->moves ? edits_none() : edit->to;
}

static void try_edit(struct trial *trial, struct edit *edit, bool back)
{
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

/* Returns whether more is held than was known. */
static bool try_way(struct edits_outcome *outcome)
{
    struct trial trial = {.keeper = outcome->keeper, .outcome = outcome};
    bool lost = outcome->lost;
    size_t left_count = outcome->left_count;
    for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
        try_edit(&trial, turn.edit, turn.at.back);
    }
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(outcome->keeper, &at));) {
        record->scratch.goal = NULL;
    }
    free(trial.moved.list);
    return trial.more || outcome->lost != lost || outcome->left_count != left_count;
}

/* --- paths that are held --- */

static void begin(struct keeper *keeper, struct edit *edit, bool back)
{
    enum kind kind = wanted(edit, back)->kind;
    bool comes = edit->moves || (kind != KIND_NONE && kind != KIND_DIRECTORY);
    edit->fate = edit->unsure ? PUT_STAYS : PUT_BACK;
    for (unsigned i = 0; comes && i <= edit->moves; i++) {
        struct record *record = record_get(keeper, i ? edit->target : edit->path);
        if (record) {
            record->scratch.awaits = true;
        }
    }
}

/* Whether something is to come to the name of a directory above path; held: but is held. */
static bool is_below_awaited(const struct keeper *keeper, const char *path, bool held)
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

/* A repository is whole or it is none: what its files refer to lies in others of them. The record
 * of the git directory that the path is in, or NULL. */
static struct record *git_record(struct keeper *keeper, const char *path)
{
    char git[KEEPER_PATH_BYTES];
    size_t size = apply_path_git_size(path);
    if (size == 0 || size >= sizeof git) {
        return NULL;
    }
    (void)snprintf(git, sizeof git, "%.*s", (int)size, path);
    return record_get(keeper, git);
}

/* Holds the edit where something at its paths is held. Returns whether more is held then. */
static bool spread(struct keeper *keeper, struct edit *edit)
{
    struct record *records[] = {record_get(keeper, edit->path),
                                edit->moves ? record_get(keeper, edit->target) : NULL,
                                git_record(keeper, edit_place(edit))};
    enum { COUNT = sizeof records / sizeof(struct record *) };
    bool held = edit->fate != PUT_BACK || is_below_awaited(keeper, edit->path, /* held= */ true) ||
                (edit->moves && is_below_awaited(keeper, edit->target, /* held= */ true));
    for (unsigned i = 0; i < COUNT; i++) {
        held = held || (records[i] && records[i]->scratch.held);
    }
    bool more = held && edit->fate == PUT_BACK;
    edit->fate = more ? PUT_STAYS : edit->fate;
    for (unsigned i = 0; held && i < COUNT; i++) {
        if (records[i]) {
            more = more || !records[i]->scratch.held;
            records[i]->scratch.held = true;
        }
    }
    return more;
}

static void spread_all(const struct edits_outcome *outcome)
{
    for (bool more = true; more;) {
        more = false;
        for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
            more = spread(outcome->keeper, turn.edit) || more;
        }
    }
}

/* Finds the fate of each edit of the way: PUT_BACK for those that can go. */
static void try_all(struct edits_outcome *outcome)
{
    find_lost(outcome);
    records_release(outcome->keeper);
    for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
        begin(outcome->keeper, turn.edit, turn.at.back);
    }
    do {
        spread_all(outcome);
    } while (try_way(outcome));
}

/* Each failure checks all edits: after a few, what has not been carried out stays. */
enum { GIVEN_UP = 16 };

/* An edit could not be carried out although it seemed so: holds those that would come next at its
 * paths. */
static void give_up(struct edits_outcome *outcome, struct edit *edit, enum put put)
{
    edit->fate = put;
    outcome->full = outcome->full || put == PUT_FULL;
    if (put != PUT_FULL) { /* else there is a copy */
        outcome->lost = true;
        edits_lose(outcome->keeper);
    }
    outcome->given_up++;
    for (struct turn turn = {}; outcome->given_up == GIVEN_UP && turn_next(&outcome->way, &turn);) {
        if (turn.edit->fate == PUT_BACK && turn.edit->undone != turn.at.back) {
            turn.edit->fate = PUT_STAYS;
        }
    }
    spread_all(outcome);
}

/* Takes edits back, and repeats them: see edits.h. */

/* --- what has become of each path --- */

/* Before anything is done at path. */
static struct record *mention(struct edits_outcome *outcome, const char *path)
{
    struct record *record = record_get(outcome->keeper, path);
    if (!record || record->scratch.mark) {
        return record;
    }
    if (!array_add(&outcome->records, record)) {
        return NULL;
    }
    record->scratch.mark = 1 + PUT_BACK;
    record->found = place_facts(outcome->keeper->work_fd, path);
    return record;
}

void edits_outcome_add(struct edits_outcome *outcome, const char *path, enum put put)
{
    const struct record *git = put == PUT_STAYS ? git_record(outcome->keeper, path) : NULL;
    struct record *record = mention(outcome, git ? git->path : path);
    if (record && put_is_back((enum put)(record->scratch.mark - 1))) {
        record->scratch.mark = 1 + (unsigned)put;
    }
}

/* --- one edit --- */

/* The version is at path now. */
static void see_at(struct keeper *keeper, const char *path, struct version *version)
{
    struct apply_facts facts = place_facts(keeper->work_fd, path);
    version_seen_as(keeper, version, &facts);
}

/* A directory stays until another one is to come to its name: what is to go from it may wait. */
static bool comes_again(const struct keeper *keeper, const char *path)
{
    const struct record *record = record_find(keeper, path);
    return record && record->scratch.turns > 0 && !record->scratch.awaits;
}

/* At path, the version there gives way to another one. */
static enum put put_content(const struct edits_outcome *outcome, const struct edit *edit,
                            struct version *there, struct version *wanted)
{
    struct keeper *keeper = outcome->keeper;
    const char *path = edit_place(edit);
    struct apply_facts facts = {};
    unsigned links = 0;
    bool same = false;
    bool known = place_look(keeper->work_fd, path, &facts, &links) == 0;
    if (there->kind == KIND_NONE && wanted->kind == KIND_DIRECTORY && S_ISDIR(facts.mode)) {
        version_seen_as(keeper, wanted, &facts);
        return PUT_BACK;
    }
    if (!known || !version_is_at(there, &facts)) {
        return PUT_STAYS;
    }
    place_keep(keeper, path, there); /* so that the opposite is possible */
    defer_close int shared_fd = S_ISREG(facts.mode) && links > 1
                                    ? fd_open_beneath(keeper->work_fd, path, O_PATH | O_NOFOLLOW)
                                    : -1;
    enum put put = may_put(
        keeper, outcome, edit,
        &(struct putting){.facts = facts, .links = links, .there = there, .wanted = wanted}, &same);
    if (put != PUT_BACK) {
        return put;
    }
    struct apply_facts now;
    /* Its other names are the same file. */
    bool over = edit->links > 1 && edit->writes && edit->inode == facts.inode && wanted->kept;
    const char *other = !same && wanted == edit->from ? edits_other_name(keeper, edit) : NULL;
    struct apply_facts before = wanted->facts;
    bool linked = other && place_put_link(keeper, path, other, &facts, &now) == 0;
    int r = linked ? 0
            : same ? place_set_attributes(keeper, path, wanted, &facts, &now)
            : over ? place_put_over(keeper, path, wanted, &facts, &now)
                   : place_put(keeper, path, wanted, &facts, &now);
    if (r == -ENOTEMPTY && wanted->kind == KIND_NONE && comes_again(keeper, path)) {
        return PUT_BACK;
    }
    if (r < 0) {
        return r == -ESTALE || r == -ENOTEMPTY || r == -EEXIST ? PUT_STAYS : put_missed(r);
    }
    if (same && !is_same_file(keeper, edit, path, &now, wanted)) {
        now = (struct apply_facts){};
    }
    if (linked) {
        versions_changed(keeper, &before, &now);
    }
    version_seen_as(keeper, wanted, &now);
    struct stat st;
    if (shared_fd >= 0 && fstat(shared_fd, &st) == 0 && st.st_ino == facts.inode) {
        struct apply_facts rest = apply_facts_of(&st);
        versions_changed(keeper, &facts, &rest);
    }
    bool closed = wanted->kind == KIND_FILE && now.mode && (now.mode & 077) == 0 &&
                  (now.mode & ACCESSPERMS) != wanted->mode;
    return closed                                            ? PUT_CLOSED
           : same || there->kept || there->kind != KIND_FILE ? PUT_BACK
                                                             : PUT_FOR_GOOD;
}

/* looks: somebody may have put something into the directory meanwhile. */
static enum put move(struct keeper *keeper, const char *from, const char *to, struct version *what,
                     bool looks)
{
    struct apply_facts facts = {};
    if (place_look(keeper->work_fd, from, &facts, NULL) < 0 || !version_is_at(what, &facts) ||
        (looks && !is_as_known(keeper, from, what->facts.ctime_ns))) {
        return PUT_STAYS;
    }
    struct apply_facts now;
    int r = place_move(keeper, from, to, &facts, &now);
    if (r < 0) {
        return r == -ESTALE ? PUT_STAYS : put_missed(r);
    }
    version_seen_as(keeper, what, &now);
    return PUT_BACK;
}

/* Whether code wrote to the file by one of its names, and what is there is another file. */
static bool is_apart(const struct edits_outcome *outcome, const struct edit *edit)
{
    return edit->writes && edit->links > 1 &&
           place_facts(outcome->keeper->work_fd, edit->path).inode != edit->inode;
}

static enum put go_back(const struct edits_outcome *outcome, struct edit *edit)
{
    struct keeper *keeper = outcome->keeper;
    struct version *none = edits_none();
    enum put put = edit->moves ? move(keeper, edit->target, edit->path, edit->to, edit->looks)
                               : put_content(outcome, edit, edit->to, edit->from);
    if (put == PUT_BACK && edit->moves && edit->from->kind != KIND_NONE) {
        put = put_content(outcome, edit, none, edit->from);
        if (!put_is_back(put)) {
            (void)move(keeper, edit->path, edit->target, edit->to, /* looks= */ false);
        }
    }
    edit->undone = put_is_back(put);
    return put;
}

static enum put go_forth(const struct edits_outcome *outcome, struct edit *edit)
{
    struct keeper *keeper = outcome->keeper;
    struct version *none = edits_none();
    enum put put = PUT_BACK;
    bool replaces = edit->moves && edit->from->kind != KIND_NONE;
    if (replaces) {
        put = put_content(outcome, edit, edit->from, none);
    }
    if (put_is_back(put)) {
        put = edit->moves ? move(keeper, edit->path, edit->target, edit->to, edit->looks)
                          : put_content(outcome, edit, edit->from, edit->to);
        if (replaces && !put_is_back(put)) { /* what it would have replaced */
            (void)put_content(outcome, edit, none, edit->from);
        }
    }
    edit->undone = !put_is_back(put);
    return put;
}

/* What has been carried out of an edit's chain goes where it was, the last first. */
static void put_back(struct edits_outcome *outcome)
{
    outcome->returns = true;
    for (size_t i = outcome->carried.count; i-- > 0;) {
        struct edit *edit = outcome->carried.list[i];
        if (edit && edit->fate != PUT_BACK) {
            outcome->carried.list[i] = NULL;
            edit->looks = false;
            (void)(edit->undone ? go_forth(outcome, edit) : go_back(outcome, edit));
            edits_outcome_add(outcome, edit_place(edit), edit->fate);
        }
    }
    outcome->returns = false;
}

static void carry_out_now(struct edits_outcome *outcome, struct edit *edit)
{
    struct record *record = is_apart(outcome, edit) ? mention(outcome, edit->path) : NULL;
    if (record) {
        record->scratch.linked = true;
    }
    enum put put = edit->fate != PUT_BACK ? edit->fate
                   : edit->undone         ? go_forth(outcome, edit)
                                          : go_back(outcome, edit);
    edits_outcome_add(outcome, edit_place(edit), put);
    if (put_is_back(put)) {
        (void)array_add(&outcome->carried, edit);
    } else if (edit->fate == PUT_BACK) { /* somebody was quicker, or there is no space */
        give_up(outcome, edit, put);
        put_back(outcome);
    }
}

static void count_turn(struct edits_outcome *outcome, const struct edit *edit, int by)
{
    for (unsigned i = 0; i <= edit->moves; i++) {
        struct record *record = record_get(outcome->keeper, i ? edit->target : edit->path);
        if (record) {
            record->scratch.turns += (unsigned)by;
        }
    }
}

/* What goes waits until all that comes is there, also where the keeper ends meanwhile; unless
 * something is to come to its name or to that of a directory above, or that is to move. */
static void carry_out(struct edits_outcome *outcome, struct edit *edit, bool back)
{
    count_turn(outcome, edit, -1);
    if (edit->undone == back) {
        return; /* it did not go the other way */
    }
    const struct record *record = mention(outcome, edit->path);
    (void)mention(outcome, edit_place(edit));
    bool goes = !edit->moves && (back ? edit->from : edit->to)->kind == KIND_NONE;
    bool waits = goes && record && record->scratch.turns == 0 &&
                 !is_below_awaited(outcome->keeper, edit->path, /* held= */ false);
    if (!waits || !array_add(&outcome->removals, edit)) {
        carry_out_now(outcome, edit);
    }
}

/* Gives a directory that has come its mode and time, after what is in it. */
static void end_directory(struct keeper *keeper, const struct edit *edit, bool back)
{
    struct version *version = back ? edit->from : edit->to;
    struct apply_facts facts;
    if (!edit->moves && version->kind == KIND_DIRECTORY &&
        place_look(keeper->work_fd, edit->path, &facts, NULL) == 0 &&
        version_is_at(version, &facts) && (facts.mode & ACCESSPERMS) == version->mode) {
        place_end_directory(keeper, edit->path, version);
        see_at(keeper, edit->path, version);
    }
}

struct spares {
    char **list;
    size_t count;
    size_t space;
};

/* A directory has to be emptied before a file can have its name: until then the file is there under
 * a temporary one, in case the keeper ends in between. */
static void make_spare(struct keeper *keeper, const struct turn *turn, struct spares *spares)
{
    const struct edit *edit = turn->edit;
    const struct version *version = turn->at.back ? edit->from : edit->to;
    char name[PLACE_TEMPORARY_NAME];
    char *path = NULL;
    struct apply_facts facts;
    if (edit->moves || edit->undone == turn->at.back || edit->fate != PUT_BACK ||
        version->kind != KIND_FILE || !version->kept ||
        place_look(keeper->work_fd, edit->path, &facts, NULL) < 0 || !S_ISDIR(facts.mode)) {
        return;
    }
    place_temporary_name(name);
    if (asprintf(&path, "%.*s%s", (int)(path_last(edit->path) - edit->path), edit->path, name) >=
            0 &&
        array_add(spares, path)) {
        (void)place_put(keeper, path, version, &(struct apply_facts){}, &facts);
    }
}

static void switch_once(struct edits_outcome *outcome)
{
    struct keeper *keeper = outcome->keeper;
    struct spares spares = {};
    try_all(outcome);
    for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
        make_spare(keeper, &turn, &spares);
        count_turn(outcome, turn.edit, 1);
    }
    for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
        carry_out(outcome, turn.edit, turn.at.back);
    }
    for (size_t i = 0; i < outcome->removals.count; i++) {
        carry_out_now(outcome, outcome->removals.list[i]);
    }
    for (size_t i = 0; i < spares.count; i++) {
        (void)place_remove(keeper, spares.list[i]);
        free(spares.list[i]);
    }
    free(spares.list);
    for (struct turn turn = {}; turn_next(&outcome->way, &turn);) {
        end_directory(keeper, turn.edit, turn.at.back);
    }
}

void edits_switch(struct edits_outcome *outcome)
{
    switch_once(outcome);
    if (outcome->full) { /* now that what was to go has made space */
        outcome->full = false;
        outcome->given_up = 0;
        outcome->carried.count = outcome->removals.count = 0;
        for (size_t i = 0; i < outcome->records.count; i++) {
            outcome->records.list[i]->scratch.mark = 1 + PUT_BACK;
        }
        switch_once(outcome);
    }
}
