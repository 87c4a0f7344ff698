#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/keeper/keeper.h"

/* --- moves: a file that was not copied goes back by its name, if another path still has it --- */

/* With --cow: whether the user's file still is what the record is to become. */
static bool moves_is_below(const struct keeper *keeper, const struct record *record,
                           struct apply_facts *ret_lower)
{
    const struct version *goal = record->scratch.goal;
    return keeper->cow && goal->kind == KIND_FILE && !goal->kept && goal->facts.mode &&
           place_look(keeper->lower_fd, record->path, ret_lower, NULL) == 0 &&
           S_ISREG(ret_lower->mode) && ret_lower->bytes == goal->bytes &&
           ret_lower->mtime_ns == goal->mtime_ns;
}

static bool is_wanted(const struct keeper *keeper, const struct record *record)
{
    const struct version *goal = record->scratch.goal;
    struct apply_facts lower;
    return goal && goal != record->now && goal->kind == KIND_FILE && !goal->kept &&
           goal->facts.mode && !moves_is_below(keeper, record, &lower);
}

static int compare_inodes(const void *one, const void *other)
{
    const struct record *const *a = one;
    const struct record *const *b = other;
    return ((*a)->facts.inode > (*b)->facts.inode) - ((*a)->facts.inode < (*b)->facts.inode);
}

/* The records of regular files, by inode: heap. */
static struct record **by_inode(const struct keeper *keeper, size_t *ret_count)
{
    struct record **list = calloc(keeper->records.count + 1UL, sizeof(struct record *));
    struct records_at at = {};
    for (struct record *record = NULL; list && (record = records_next(keeper, &at));) {
        if (S_ISREG(record->facts.mode)) {
            list[(*ret_count)++] = record;
        }
    }
    if (list && *ret_count > 0) {
        qsort(list, *ret_count, sizeof(struct record *), compare_inodes);
    }
    return list;
}

/* The first record of that inode, or the end of the list. */
static size_t find_inode(struct record *const *list, size_t count, uint64_t inode)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle]->facts.inode < inode) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The file gets a name at the top, out of the way of others that move too. */
static void take_away(struct keeper *keeper, struct record *wanted, struct record *donor)
{
    char name[PLACE_TEMPORARY_NAME];
    place_temporary_name(name);
    char *copy = strdup(name);
    struct version *nothing = copy ? version_new(KIND_NONE) : NULL;
    if (!nothing || place_move(keeper, donor->path, name, NULL, &(struct apply_facts){}) < 0) {
        version_release(keeper, &nothing);
        free(copy);
        return;
    }
    wanted->scratch.moved_from = copy;
    version_release(keeper, &donor->now);
    donor->now = nothing;
    donor->facts = (struct apply_facts){.inode = donor->facts.inode}; /* the list stays sorted */
}

static void find_donor(struct keeper *keeper, struct record *wanted, struct record **list,
                       size_t count)
{
    const struct apply_facts *was = &wanted->scratch.goal->facts;
    struct record *changed = NULL;
    for (size_t i = find_inode(list, count, was->inode);
         i < count && list[i]->facts.inode == was->inode; i++) {
        struct record *other = list[i];
        bool goes = other->scratch.goal && other->scratch.goal != other->now;
        if (goes && other != wanted && apply_facts_equal_moved(&other->facts, was)) {
            take_away(keeper, wanted, other);
            return;
        }
        changed = goes && other->scratch.goal->kind == KIND_NONE ? other : changed;
    }
    if (changed) { /* what has become of the wanted file is not kept either */
        changed->scratch.goal = changed->now;
        changed->scratch.mark = 1;
    }
}

/* Takes the files that are wanted elsewhere from their paths. Of a file that has changed since, the
 * last name stays. */
static void moves_begin(struct keeper *keeper, struct record *const *list, size_t count)
{
    struct record **files = NULL;
    size_t file_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(keeper, list[i])) {
            continue;
        }
        files = files ? files : by_inode(keeper, &file_count);
        if (files) {
            find_donor(keeper, list[i], files, file_count);
        }
    }
    free(files);
}

/* Gives the file of record->scratch.moved_from the record's path. 0 or -errno. */
static int moves_finish(struct keeper *keeper, struct record *record)
{
    int r = record->now->kind == KIND_NONE ? 0 : place_remove(keeper, record->path);
    r = r ? r
          : place_move(keeper, record->scratch.moved_from, record->path, NULL,
                       &(struct apply_facts){});
    free(record->scratch.moved_from);
    record->scratch.moved_from = NULL;
    return r;
}

/* --- from one state of the files to another: see states.c --- */

/* records: that some step is about, each once. Returns whether there was memory. */
static bool switch_step(struct records *records, const struct step *step, bool back)
{
    struct record *record = step->record;
    const struct version *from = back ? step->to : step->from;
    struct version *to = back ? step->from : step->to;
    if (!record->scratch.goal) {
        if (!array_add(records, record)) {
            return false;
        }
        record->scratch.goal = record->now;
        record->scratch.mark = 0;
    }
    if (record->scratch.goal == from && !step->unsure) {
        record->scratch.goal = to;
    } else { /* changed since by someone else, possibly to the wanted content */
        record->scratch.mark = version_differs(record->scratch.goal, to);
    }
    return true;
}

/* False: they have nothing in common. */
static bool way_find(struct state *from, struct state *to, struct way *ret)
{
    struct state *above = from;
    for (; above; above = above->parent) {
        const struct state *state = to;
        while (state && state != above) {
            state = state->parent;
        }
        if (state) {
            break;
        }
    }
    *ret = (struct way){from, above, to};
    return above != NULL;
}

bool way_next(const struct way *way, struct way_at *at)
{
    struct state *up = at->state ? at->state->parent : way->from;
    const struct state *before = at->state && !at->back ? at->state : way->above;
    at->back = (at->back || !at->state) && up != way->above;
    if (at->back) {
        at->state = up;
        return true;
    }
    /* From the state up to the one that both have in common there are few: as many as are kept. */
    for (at->state = way->to; at->state != before && at->state->parent != before;) {
        at->state = at->state->parent;
    }
    return at->state != before;
}

/* Makes the record's path what the goal is. 0 or -errno. */
static int put_goal(struct keeper *keeper, struct record *record)
{
    struct version *goal = record->scratch.goal;
    struct version put = *goal;
    struct apply_facts lower;
    if (record->scratch.moved_from) {
        return moves_finish(keeper, record);
    }
    if (moves_is_below(keeper, record, &lower)) {
        return place_copy(keeper, keeper->lower_fd, record->path, &lower);
    }
    /* Until what is in it is back: put_all() ends with the mode. */
    put.mode |= goal->kind == KIND_DIRECTORY ? 0700 : 0;
    return place_put(keeper, record->path, &put, NULL, &(struct apply_facts){});
}

static void put_record(struct keeper *keeper, struct record *record, put_fn done, void *arg)
{
    struct version *goal = record->scratch.goal;
    int r = put_goal(keeper, record);
    if (r < 0) {
        done(arg, r == -ENOTEMPTY || r == -EEXIST ? PUT_STAYS : put_missed(r), record);
        return;
    }
    struct version *before = record->now;
    record->now = version_take(goal);
    if (version_differs(before, goal)) {
        done(arg, before->kept || before->kind != KIND_FILE ? PUT_BACK : PUT_FOR_GOOD, record);
    }
    states_see(keeper, record);
    version_release(keeper, &before);
}

/* What is to vanish goes first, the deepest first; then directories come before what is in them. */
static void put_all(struct keeper *keeper, const struct records *records, put_fn done, void *arg)
{
    if (records->count > 0) {
        qsort(records->list, records->count, sizeof(struct record *), record_compare);
    }
    moves_begin(keeper, records->list, records->count);
    for (size_t i = records->count; i > 0; i--) {
        struct record *record = records->list[i - 1];
        if (record->scratch.goal != record->now && record->scratch.goal->kind == KIND_NONE) {
            put_record(keeper, record, done, arg);
            record->scratch.goal = NULL;
        }
    }
    for (size_t i = 0; i < records->count; i++) {
        struct record *record = records->list[i];
        if (record->scratch.goal && record->scratch.goal != record->now) {
            put_record(keeper, record, done, arg);
        }
        if (record->scratch.mark) {
            done(arg, PUT_STAYS, record);
        }
        record->scratch.error = record->scratch.goal && record->now == record->scratch.goal;
        record->scratch.goal = NULL;
    }
    for (size_t i = records->count; i > 0; i--) { /* putting files in it has changed them */
        struct record *record = records->list[i - 1];
        if (record->scratch.error && record->now->kind == KIND_DIRECTORY) {
            place_end_directory(keeper, record->path, record->now);
            states_see(keeper, record);
        }
    }
}

/* Whether the file that facts describe has the version's content. Where there is no copy facts
 * tell; size and time alone, which code can set, do not. */
static bool has_content(const struct keeper *keeper, const char *path,
                        const struct apply_facts *facts, const struct version *version)
{
    const struct version *there = version_known(keeper, facts); /* an undo may have put it there */
    return version->kept
               ? place_has_content(keeper, path, facts, version)
               : version_is_at(version, facts) || apply_facts_alike(&version->described, facts) ||
                     (there && apply_facts_alike(&there->described, &version->described));
}

/* Whether what is there is what the version was. */
static bool is_back(const struct keeper *keeper, const char *path, const struct version *version)
{
    struct apply_facts facts = place_facts(keeper->work_fd, path);
    bool holds = version->kind == KIND_FILE || version->kind == KIND_LINK;
    bool has_mode = version->kind == KIND_FILE || version->kind == KIND_DIRECTORY;
    return kind_of_mode(facts.mode) == version->kind &&
           (!has_mode || (facts.mode & 0777) == version->mode ||
            (version->kind == KIND_FILE && version_is_at(version, &facts))) && /* without its ACL */
           (!holds || has_content(keeper, path, &facts, version));
}

/* Of an edit: more is known of the path than by what scans have found before and after the call. */
static void set_goal(struct keeper *keeper, const char *path, struct version *version)
{
    struct record *record = record_get(keeper, path);
    if (record) {
        record->scratch.goal = version;
        record->scratch.held = true;
    }
}

/* A directory's move takes along what is to be in it. */
static void move_goals(struct keeper *keeper, const char *from, const char *to)
{
    char path[KEEPER_PATH_BYTES];
    struct records carried = {}; /* are to be elsewhere */
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        bool goes = record->scratch.goal && apply_path_is_below(record->path, from);
        (void)(goes && array_add(&carried, record));
        if (!goes && apply_path_is_below(record->path, to)) {
            record->scratch.goal = NULL; /* nothing was there */
        }
    }
    for (size_t i = 0; i < carried.count; i++) {
        struct version *goal = carried.list[i]->scratch.goal;
        const char *rest = carried.list[i]->path + strlen(from);
        carried.list[i]->scratch.goal = NULL;
        if ((size_t)snprintf(path, sizeof path, "%s%s", to, rest) < sizeof path) {
            set_goal(keeper, path, goal);
        }
    }
    free(carried.list);
}

static void set_goals(struct keeper *keeper, const struct state *state, bool back)
{
    records_release(keeper);
    for (size_t i = 0; i < state->edits.count; i++) {
        struct edit *edit = state->edits.list[back ? state->edits.count - 1 - i : i];
        if (edit->moves && edit->to->kind == KIND_DIRECTORY) {
            move_goals(keeper, back ? edit->target : edit->path, back ? edit->path : edit->target);
        }
        if (edit->moves) {
            set_goal(keeper, edit->path, back ? edit->to : edits_none());
        }
        set_goal(keeper, edit_place(edit), back ? edit->from : edit->to);
    }
    for (size_t i = 0; i < state->steps.count; i++) {
        const struct step *step = &state->steps.list[i];
        if (!step->record->scratch.held) {
            step->record->scratch.goal = back ? step->from : step->to;
        }
    }
}

/* Reports each path once, and frees the outcome. */
static void outcome_tell(struct edits_outcome *outcome, put_fn done, void *arg)
{
    for (size_t i = 0; i < outcome->records.count; i++) {
        struct record *record = outcome->records.list[i];
        enum put put = (enum put)(record->scratch.mark - 1);
        struct apply_facts facts = place_facts(outcome->keeper->work_fd, record->path);
        if (record->scratch.linked) {
            done(arg, PUT_LINKED, record);
            record->scratch.linked = false;
        }
        /* What came and went in between is not worth a name. */
        if (!put_is_back(put) || !apply_facts_alike(&facts, &record->found)) {
            done(arg, put, record);
        }
        record->scratch.mark = 0;
    }
    free(outcome->carried.list);
    free(outcome->removals.list);
    free(outcome->records.list);
    *outcome = (struct edits_outcome){};
}

/* As states_switch(). At its end names what is not what it was: what scans have found and edits
 * have not brought back, because programs that the calls started have changed it, other languages'
 * libraries, or the user; and what edits could not bring back earlier. */
static int switch_edits(struct keeper *keeper, const struct way *way, put_fn done, void *arg)
{
    struct edits_outcome outcome = {.keeper = keeper, .way = *way};
    bool lost = false;
    for (const struct state *state = way->from; state != way->above; state = state->parent) {
        lost = lost || state->edits.lost;
    }
    edits_switch(&outcome);
    for (struct way_at at = {}; way_next(way, &at);) {
        set_goals(keeper, at.state, at.back);
    }
    /* A list: what is added may make the record of a repository. */
    size_t count = 0;
    struct record **records = records_sorted(keeper, &count);
    for (size_t i = 0; records && i < count; i++) {
        const struct version *goal = records[i]->scratch.goal;
        if (goal && !is_back(keeper, records[i]->path, goal)) {
            edits_outcome_add(&outcome, records[i]->path, PUT_STAYS);
        }
    }
    lost = lost || !records;
    free(records);
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        record->scratch.goal = NULL;
    }
    outcome_tell(&outcome, done, arg);
    states_look_surely(keeper, NULL, NULL); /* what it has changed is nobody's */
    return lost ? STATES_LOST : 0;
}

int states_switch(struct keeper *keeper, const struct keep_switch *between, put_fn done, void *arg)
{
    struct state *from = states_find(keeper, between->from);
    struct state *to = states_find(keeper, between->to);
    struct records records = {};
    struct way way;
    bool whole = true;
    if (from) {
        states_resolve_late(keeper, from->owner);
    }
    states_look_surely(keeper, NULL, NULL);
    if (!from || !to || (keeper->too_many && !keeper_is_plain(keeper)) ||
        !way_find(from, to, &way)) {
        return -ENOENT;
    }
    int unseen = keeper->too_many || keeper->unread ? STATES_UNSEEN : 0;
    for (struct way_at at = {}; way_next(&way, &at);) {
        unseen = at.state->unseen ? STATES_UNSEEN : unseen;
    }
    if (keeper_is_plain(keeper)) {
        return switch_edits(keeper, &way, done, arg) | unseen;
    }
    for (struct way_at at = {}; way_next(&way, &at);) {
        const struct steps *steps = &at.state->steps;
        for (size_t i = 0; i < steps->count; i++) {
            const struct step *step = &steps->list[at.back ? steps->count - 1 - i : i];
            whole = switch_step(&records, step, at.back) && whole;
        }
    }
    put_all(keeper, &records, done, arg);
    free(records.list);
    if (keeper->unread) { /* changes in directories that became readable cannot be reverted */
        states_look_surely(keeper, done, arg);
    }
    return whole ? unseen : -ENOMEM;
}
