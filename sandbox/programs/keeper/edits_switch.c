/* Takes edits back, and repeats them: see edits.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "sandbox/programs/keeper/edits.h"

/* --- what has become of each path --- */

/* Before anything is done at path. */
static struct record *mention(struct keeper *keeper, struct edits_outcome *outcome,
                              const char *path)
{
    struct record *record = record_get(keeper, path);
    if (!record || record->mark) {
        return record;
    }
    if (outcome->count == outcome->space) {
        size_t space = outcome->space ? outcome->space * 2 : 32;
        struct record **list = realloc(outcome->list, space * sizeof(struct record *));
        if (!list) {
            return NULL;
        }
        outcome->list = list;
        outcome->space = space;
    }
    outcome->list[outcome->count++] = record;
    record->mark = 1 + PUT_BACK;
    (void)place_look(keeper->work_fd, path, &record->found, NULL);
    return record;
}

void edits_outcome_add(struct keeper *keeper, struct edits_outcome *outcome, const char *path,
                       enum put put)
{
    struct record *record = mention(keeper, outcome, path);
    if (record && record->mark == 1 + PUT_BACK) {
        record->mark = 1 + (unsigned)put;
    }
}

void edits_outcome_tell(struct keeper *keeper, struct edits_outcome *outcome, put_fn done,
                        void *arg)
{
    for (size_t i = 0; i < outcome->count; i++) {
        struct record *record = outcome->list[i];
        struct apply_facts facts;
        enum put put = (enum put)(record->mark - 1);
        (void)place_look(keeper->work_fd, record->path, &facts, NULL);
        /* What came and went in between is not worth a name. */
        if (put != PUT_BACK || !facts_equal(&facts, &record->found)) {
            done(arg, put, record);
        }
        record->mark = 0;
    }
    for (size_t i = 0; i < outcome->left_count; i++) {
        version_release(keeper, &outcome->left[i]);
    }
    free(outcome->left);
    free(outcome->list);
    *outcome = (struct edits_outcome){};
}

/* --- a directory that moves back --- */

struct looking {
    const struct keeper *keeper;
    int64_t since_ns;
    bool as_known;
    unsigned depth;
};

static void look_into(struct looking *looking, int fd);

static void check_entry(struct looking *looking, int dir_fd, const char *name)
{
    struct stat st;
    struct apply_facts facts;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        looking->as_known = false;
        return;
    }
    facts_of_stat(&st, &facts);
    if (S_ISDIR(st.st_mode)) {
        look_into(looking, openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        return;
    }
    looking->as_known = looking->as_known && (facts.ctime_ns < looking->since_ns ||
                                              version_known(looking->keeper, &facts));
}

/* Takes the descriptor. One for each level is open: there is a bound. */
static void look_into(struct looking *looking, int fd)
{
    DIR *directory = fd < 0 || looking->depth >= KEEPER_DEPTH ? NULL : fdopendir(fd);
    if (!directory) {
        looking->as_known = false;
        own_close(&fd);
        return;
    }
    looking->depth++;
    for (struct dirent *entry = readdir(directory); entry && looking->as_known;
         entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            check_entry(looking, fd, entry->d_name);
        }
    }
    looking->depth--;
    (void)closedir(directory);
}

/* Whether nothing but what is known has changed in a directory's files since. */
static bool is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns)
{
    struct looking looking = {.keeper = keeper, .since_ns = since_ns, .as_known = true};
    look_into(&looking, place_open(keeper->work_fd, path, O_RDONLY | O_DIRECTORY));
    return looking.as_known;
}

/* --- one edit --- */

/* The version is at path now. */
static void see_at(struct keeper *keeper, const char *path, struct version *version)
{
    struct apply_facts facts;
    (void)place_look(keeper->work_fd, path, &facts, NULL);
    version_seen_as(keeper, version, &facts);
}

/* --- what does not come back --- */

/* The version stays replaced, because something else stands at its path. */
static void leave(struct edits_outcome *outcome, struct version *version)
{
    if (version->kind != KIND_FILE || version->bytes == 0) {
        return;
    }
    struct version **left =
        realloc(outcome->left, (outcome->left_count + 1) * sizeof(struct version *));
    if (left) {
        outcome->left = left;
        left[outcome->left_count++] = version_take(version);
    }
    outcome->left_lost = outcome->left_lost || !left;
}

/* Whether the file may be the last with what does not come back: where code has moved a file by
 * copying and removing it, and the user has put another one in its place. */
static bool is_last_copy(const struct edits_outcome *outcome, const struct version *version)
{
    bool is = outcome->left_lost;
    for (size_t i = 0; i < outcome->left_count && !is && version->kind == KIND_FILE; i++) {
        const struct version *left = outcome->left[i];
        is = left->bytes == version->bytes &&
             (!left->kept || !version->kept || memcmp(left->data, version->data, left->bytes) == 0);
    }
    return is;
}

/* At path, the version there gives way to another one. */
static enum put put_content(struct keeper *keeper, const struct edits_outcome *outcome,
                            const char *path, struct version *there, struct version *wanted,
                            bool linked)
{
    struct apply_facts facts = {};
    unsigned links = 0;
    if (place_look(keeper->work_fd, path, &facts, &links) < 0 || !version_is_at(there, &facts) ||
        (linked && S_ISREG(facts.mode) && links < 2)) { /* the file's last name */
        return PUT_STAYS;
    }
    if (wanted->kind == KIND_OTHER || !wanted->kept) {
        return PUT_MISSED;
    }
    place_keep(keeper, path, there); /* so that the opposite is possible */
    if (is_last_copy(outcome, there)) {
        return PUT_STAYS;
    }
    int r = place_put(keeper, path, wanted, &facts);
    if (r < 0) {
        return r == -ESTALE || r == -ENOTEMPTY || r == -EEXIST ? PUT_STAYS : PUT_MISSED;
    }
    see_at(keeper, path, wanted);
    return PUT_BACK;
}

static enum put move(struct keeper *keeper, const char *from, const char *to, struct version *what)
{
    struct apply_facts facts = {};
    if (place_look(keeper->work_fd, from, &facts, NULL) < 0 || !version_is_at(what, &facts) ||
        (S_ISDIR(facts.mode) && !is_as_known(keeper, from, what->facts.ctime_ns))) {
        return PUT_STAYS;
    }
    int r = place_move(keeper, from, to, &facts);
    if (r < 0) {
        return r == -ESTALE ? PUT_STAYS : PUT_MISSED;
    }
    see_at(keeper, to, what);
    return PUT_BACK;
}

static struct version none = {.kind = KIND_NONE, .kept = true};

static void take_back(struct keeper *keeper, struct edit *edit, struct edits_outcome *outcome)
{
    const char *place = edit_place(edit);
    (void)mention(keeper, outcome, edit->path);
    (void)mention(keeper, outcome, place);
    enum put put = edit->unsure  ? PUT_STAYS
                   : edit->moves ? move(keeper, edit->target, edit->path, edit->to)
                                 : put_content(keeper, outcome, edit->path, edit->to, edit->from,
                                               edit->linked);
    if (put == PUT_BACK && edit->moves && edit->from->kind != KIND_NONE) {
        put = put_content(keeper, outcome, edit->target, &none, edit->from, false);
    }
    if (put != PUT_BACK) {
        leave(outcome, edit->from);
    }
    edits_outcome_add(keeper, outcome, place, put);
}

static void repeat(struct keeper *keeper, struct edit *edit, struct edits_outcome *outcome)
{
    const char *place = edit_place(edit);
    enum put put = PUT_BACK;
    if (edit->unsure) {
        return; /* it was not taken back */
    }
    (void)mention(keeper, outcome, edit->path);
    (void)mention(keeper, outcome, place);
    if (edit->moves && edit->from->kind != KIND_NONE) {
        put = put_content(keeper, outcome, edit->target, edit->from, &none, false);
    }
    if (put == PUT_BACK) {
        put = edit->moves ? move(keeper, edit->path, edit->target, edit->to)
                          : put_content(keeper, outcome, edit->path, edit->from, edit->to, false);
    }
    edits_outcome_add(keeper, outcome, place, put);
}

void edits_switch(struct keeper *keeper, struct state *state, bool back,
                  struct edits_outcome *outcome)
{
    const struct edits *edits = &state->edits;
    for (size_t i = 0; i < edits->count; i++) {
        if (back) {
            take_back(keeper, edits->list[edits->count - 1 - i], outcome);
        } else {
            repeat(keeper, edits->list[i], outcome);
        }
    }
}

void edits_end_directories(struct keeper *keeper, const struct edits *edits, bool back)
{
    for (size_t i = 0; i < edits->count; i++) {
        const struct edit *edit = edits->list[i];
        struct version *version = back ? edit->from : edit->to;
        struct apply_facts facts;
        if (!edit->moves && version->kind == KIND_DIRECTORY &&
            place_look(keeper->work_fd, edit->path, &facts, NULL) == 0 &&
            version_is_at(version, &facts)) {
            place_end_directory(keeper, edit->path, version);
            see_at(keeper, edit->path, version);
        }
    }
}
