/* Takes edits back, and repeats them: see edits.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/keeper/edits_trial.h"

/* --- what has become of each path --- */

/* Before anything is done at path. */
static struct record *mention(struct edits_outcome *outcome, const char *path)
{
    struct record *record = record_get(outcome->keeper, path);
    if (!record || record->scratch.mark) {
        return record;
    }
    struct record **list =
        list_grow(outcome->list, outcome->count, &outcome->space, sizeof(struct record *));
    if (!list) {
        return NULL;
    }
    outcome->list = list;
    list[outcome->count++] = record;
    record->scratch.mark = 1 + PUT_BACK;
    (void)place_look(outcome->keeper->work_fd, path, &record->found, NULL);
    return record;
}

void edits_outcome_add(struct edits_outcome *outcome, const char *path, enum put put)
{
    const struct record *git = put == PUT_STAYS ? edits_git_record(outcome->keeper, path) : NULL;
    struct record *record = mention(outcome, git ? git->path : path);
    if (record && put_is_back((enum put)(record->scratch.mark - 1))) {
        record->scratch.mark = 1 + (unsigned)put;
    }
}

void edits_outcome_tell(struct edits_outcome *outcome, put_fn done, void *arg)
{
    for (size_t i = 0; i < outcome->count; i++) {
        struct record *record = outcome->list[i];
        struct apply_facts facts;
        enum put put = (enum put)(record->scratch.mark - 1);
        (void)place_look(outcome->keeper->work_fd, record->path, &facts, NULL);
        /* What came and went in between is not worth a name. */
        if (!put_is_back(put) || !apply_facts_alike(&facts, &record->found)) {
            done(arg, put, record);
        }
        record->scratch.mark = 0;
    }
    free(outcome->carried.list);
    free(outcome->removals.list);
    free(outcome->list);
    *outcome = (struct edits_outcome){};
}

/* --- one edit --- */

/* The version is at path now. */
static void see_at(struct keeper *keeper, const char *path, struct version *version)
{
    struct apply_facts facts;
    (void)place_look(keeper->work_fd, path, &facts, NULL);
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
    enum put put = edits_may_put(
        keeper, outcome, edit,
        &(struct edits_putting){.facts = facts, .links = links, .there = there, .wanted = wanted},
        &same);
    if (put != PUT_BACK) {
        return put;
    }
    struct apply_facts now;
    /* Its other names are the same file. */
    bool over = edit->links > 1 && edit->writes && edit->inode == facts.inode && wanted->kept;
    int r = same   ? place_set_attributes(keeper, path, wanted, &facts, &now)
            : over ? place_put_over(keeper, path, wanted, &facts, &now)
                   : place_put(keeper, path, wanted, &facts, &now);
    if (r == -ENOTEMPTY && wanted->kind == KIND_NONE && comes_again(keeper, path)) {
        return PUT_BACK;
    }
    if (r < 0) {
        return r == -ESTALE || r == -ENOTEMPTY || r == -EEXIST ? PUT_STAYS : PUT_MISSED;
    }
    if (same && !edits_is_same_file(keeper, edit, path, &now, wanted)) {
        now = (struct apply_facts){};
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
        (looks && !edits_is_as_known(keeper, from, what->facts.ctime_ns))) {
        return PUT_STAYS;
    }
    struct apply_facts now;
    int r = place_move(keeper, from, to, &facts, &now);
    if (r < 0) {
        return r == -ESTALE ? PUT_STAYS : PUT_MISSED;
    }
    version_seen_as(keeper, what, &now);
    return PUT_BACK;
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
    enum put put = edit->fate != PUT_BACK ? edit->fate
                   : edit->undone         ? go_forth(outcome, edit)
                                          : go_back(outcome, edit);
    edits_outcome_add(outcome, edit_place(edit), put);
    if (put_is_back(put)) {
        (void)edits_add(&outcome->carried, edit);
    } else if (edit->fate == PUT_BACK) { /* somebody was quicker, or there is no space */
        edits_give_up(outcome, edit, put);
        put_back(outcome);
    }
}

static void count_turn(struct edits_outcome *outcome, const struct edit *edit, int by)
{
    struct record *record = record_get(outcome->keeper, edit->path);
    struct record *target = edit->moves ? record_get(outcome->keeper, edit->target) : NULL;
    if (record) {
        record->scratch.turns += (unsigned)by;
    }
    if (target) {
        target->scratch.turns += (unsigned)by;
    }
}

static void expect(void *arg, struct edit *edit, bool)
{
    count_turn(arg, edit, 1);
}

/* What goes waits until all that comes is there, also where the keeper ends meanwhile; unless
 * something is to come to its name or to that of a directory above, or that is to move. */
static void carry_out(void *arg, struct edit *edit, bool back)
{
    struct edits_outcome *outcome = arg;
    count_turn(outcome, edit, -1);
    if (edit->undone == back) {
        return; /* it did not go the other way */
    }
    const struct record *record = mention(outcome, edit->path);
    (void)mention(outcome, edit_place(edit));
    bool goes = !edit->moves && (back ? edit->from : edit->to)->kind == KIND_NONE;
    bool waits = goes && record && record->scratch.turns == 0 &&
                 !edits_is_below_awaited(outcome->keeper, edit->path, /* held= */ false);
    if (!waits || !edits_add(&outcome->removals, edit)) {
        carry_out_now(outcome, edit);
    }
}

/* Gives a directory that has come its mode and time, after what is in it. */
static void end_directory(void *arg, struct edit *edit, bool back)
{
    struct keeper *keeper = arg;
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
    struct keeper *keeper;
    char **list;
    size_t count;
    size_t space;
};

/* A directory has to be emptied before a file can have its name: until then the file is there under
 * a temporary one, in case the keeper ends in between. */
static void make_spare(void *arg, struct edit *edit, bool back)
{
    struct spares *spares = arg;
    const struct version *version = back ? edit->from : edit->to;
    const char *slash = strrchr(edit->path, '/');
    char name[PLACE_TEMPORARY_NAME];
    struct apply_facts facts;
    if (edit->moves || edit->undone == back || edit->fate != PUT_BACK ||
        version->kind != KIND_FILE || !version->kept ||
        place_look(spares->keeper->work_fd, edit->path, &facts, NULL) < 0 || !S_ISDIR(facts.mode)) {
        return;
    }
    char **list = list_grow(spares->list, spares->count, &spares->space, sizeof *list);
    spares->list = list ? list : spares->list;
    place_temporary_name(name);
    if (list && asprintf(&list[spares->count], "%.*s%s", slash ? (int)(slash + 1 - edit->path) : 0,
                         edit->path, name) >= 0) {
        (void)place_put(spares->keeper, list[spares->count++], version, &(struct apply_facts){},
                        &facts);
    }
}

static void remove_spares(struct spares *spares)
{
    for (size_t i = 0; i < spares->count; i++) {
        (void)place_remove(spares->keeper, spares->list[i]);
        free(spares->list[i]);
    }
    free(spares->list);
}

void edits_switch(struct edits_outcome *outcome)
{
    struct spares spares = {.keeper = outcome->keeper};
    edits_each(&outcome->way, make_spare, &spares);
    edits_each(&outcome->way, expect, outcome);
    edits_each(&outcome->way, carry_out, outcome);
    for (size_t i = 0; i < outcome->removals.count; i++) {
        carry_out_now(outcome, outcome->removals.list[i]);
    }
    remove_spares(&spares);
    edits_each(&outcome->way, end_directory, outcome->keeper);
}
