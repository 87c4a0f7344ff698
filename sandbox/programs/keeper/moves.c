/* Undoes moves by moves: a file above the bound of copies is still there under another name. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/programs/keeper/keeper.h"

static bool is_wanted(const struct keeper *keeper, const struct record *record)
{
    const struct version *goal = record->scratch.goal;
    struct apply_facts lower;
    return goal && goal != record->now && goal->kind == KIND_FILE && !goal->kept &&
           goal->facts.mode && !moves_is_below(keeper, record, &lower);
}

bool moves_is_below(const struct keeper *keeper, const struct record *record,
                    struct apply_facts *ret_lower)
{
    const struct version *goal = record->scratch.goal;
    return keeper->cow && goal->kind == KIND_FILE && !goal->kept && goal->facts.mode &&
           place_look(keeper->lower_fd, record->path, ret_lower, NULL) == 0 &&
           S_ISREG(ret_lower->mode) && ret_lower->bytes == goal->bytes &&
           ret_lower->mtime_ns == goal->mtime_ns;
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
    for (uint32_t i = 0; list && i < keeper->records.bucket_count; i++) {
        for (struct record *record = keeper->records.buckets[i]; record; record = record->next) {
            if (S_ISREG(record->facts.mode)) {
                list[(*ret_count)++] = record;
            }
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

void moves_begin(struct keeper *keeper, struct record *const *list, size_t count)
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

int moves_finish(struct keeper *keeper, struct record *record)
{
    int r = record->now->kind == KIND_NONE ? 0 : place_remove(keeper, record->path);
    r = r ? r
          : place_move(keeper, record->scratch.moved_from, record->path, NULL,
                       &(struct apply_facts){});
    free(record->scratch.moved_from);
    record->scratch.moved_from = NULL;
    return r;
}
