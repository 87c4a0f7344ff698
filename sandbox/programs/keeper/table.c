/* The records of all paths, by name, and the versions that they and the states share. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/list.h"
#include "sandbox/programs/keeper/keeper.h"

enum { BUCKETS_FIRST = 256 };

/* As FNV-1a, but with random numbers and the upper half of the result: code chooses the names, and
 * must not find many that share a bucket. */
uint32_t table_hash(const char *path)
{
    static uint64_t keys[2];
    if (!keys[0]) {
        (void)getrandom(keys, sizeof keys, 0);
        keys[0] |= 1;
    }
    uint64_t hash = keys[1];
    for (; *path; path++) {
        hash = (hash ^ (unsigned char)*path) * keys[0];
    }
    return (uint32_t)(hash >> 32);
}

static struct record *find(const struct keeper *keeper, const char *path, uint32_t hash)
{
    struct record *record = keeper->records.bucket_count
                                ? keeper->records.buckets[hash % keeper->records.bucket_count]
                                : NULL;
    while (record && (record->hash != hash || strcmp(record->path, path) != 0)) {
        record = record->next;
    }
    return record;
}

struct record *record_find(const struct keeper *keeper, const char *path)
{
    return find(keeper, path, table_hash(path));
}

static bool grow(struct keeper *keeper)
{
    uint32_t count =
        keeper->records.bucket_count ? keeper->records.bucket_count * 4 : BUCKETS_FIRST;
    struct record **buckets = calloc(count, sizeof(struct record *));
    struct records_at at = {};
    if (!buckets) {
        return false;
    }
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        record->next = buckets[record->hash % count];
        buckets[record->hash % count] = record;
    }
    free(keeper->records.buckets);
    keeper->records.buckets = buckets;
    keeper->records.bucket_count = count;
    return true;
}

struct record *record_get(struct keeper *keeper, const char *path)
{
    uint32_t hash = table_hash(path);
    struct record *record = find(keeper, path, hash);
    if (record) {
        return record;
    }
    size_t size = strlen(path) + 1;
    if (keeper->records.count >= KEEPER_RECORDS ||
        keeper->records.name_bytes + size > KEEPER_NAME_BYTES ||
        (keeper->records.count >= keeper->records.bucket_count && !grow(keeper))) {
        return NULL;
    }
    record = calloc(1, sizeof *record);
    char *name = strdup(path);
    if (!record || !name) {
        free(record);
        free(name);
        return NULL;
    }
    record->path = name;
    record->hash = hash;
    record->next = keeper->records.buckets[hash % keeper->records.bucket_count];
    keeper->records.buckets[hash % keeper->records.bucket_count] = record;
    keeper->records.count++;
    keeper->records.name_bytes += size;
    return record;
}

void record_drop(struct keeper *keeper, struct record *record)
{
    list_remove(&keeper->records.buckets[record->hash % keeper->records.bucket_count], record);
    keeper->records.count--;
    keeper->records.name_bytes -= strlen(record->path) + 1;
    version_release(keeper, &record->now);
    free(record->path);
    free(record);
}

struct record *records_next(const struct keeper *keeper, struct records_at *at)
{
    while (!at->next && at->bucket < keeper->records.bucket_count) {
        at->next = keeper->records.buckets[at->bucket++];
    }
    struct record *record = at->next;
    at->next = record ? record->next : NULL;
    return record;
}

void records_release(const struct keeper *keeper)
{
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        record->scratch.held = record->scratch.awaits = false;
    }
}

int record_compare(const void *one, const void *other)
{
    const struct record *const *a = one;
    const struct record *const *b = other;
    return apply_path_compare((*a)->path, (*b)->path);
}

struct record **records_sorted(const struct keeper *keeper, size_t *ret_count)
{
    struct record **list = calloc(keeper->records.count + 1, sizeof(struct record *));
    struct records_at at = {};
    size_t count = 0;
    while (list && (list[count] = records_next(keeper, &at))) {
        count++;
    }
    if (list) {
        qsort(list, count, sizeof(struct record *), record_compare);
    }
    *ret_count = count;
    return list;
}

enum kind kind_of_mode(uint32_t mode)
{
    return mode == 0       ? KIND_NONE
           : S_ISREG(mode) ? KIND_FILE
           : S_ISLNK(mode) ? KIND_LINK
           : S_ISDIR(mode) ? KIND_DIRECTORY
                           : KIND_OTHER;
}

struct version *version_new(enum kind kind)
{
    struct version *version = calloc(1, sizeof *version);
    if (version) {
        version->references = 1;
        version->kind = kind;
        version->kept = kind == KIND_NONE || kind == KIND_DIRECTORY;
    }
    return version;
}

void version_describe(struct version *version, const struct apply_facts *facts)
{
    version->described = *facts;
    version->kind = kind_of_mode(facts->mode);
    version->kept = version->kind == KIND_NONE || version->kind == KIND_DIRECTORY;
    version->mode = facts->mode & 0777;
    version->mtime_ns = facts->mtime_ns;
    version->bytes = facts->bytes;
}

struct version *version_of(const struct apply_facts *facts)
{
    struct version *version = version_new(KIND_NONE);
    if (version) {
        version_describe(version, facts);
    }
    return version;
}

struct version *version_take(struct version *version)
{
    if (version) {
        version->references++;
    }
    return version;
}

void versions_forget(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        struct version *next = NULL;
        for (struct version *version = keeper->known[i]; version; version = next) {
            next = version->next_known;
            if (version->references == 0) {
                version_seen_as(keeper, version, &(struct apply_facts){});
                free(version);
            }
        }
    }
    keeper->remembered = 0;
}

void version_release(struct keeper *keeper, struct version **version)
{
    struct version *gone = *version;
    *version = NULL;
    if (!gone || --gone->references > 0) {
        return;
    }
    keeper->used_bytes -= gone->data ? gone->data_bytes : 0;
    keeper->used_bytes -= gone->attributes_size;
    free(gone->data);
    free(gone->attributes);
    gone->data = gone->attributes = NULL;
    gone->attributes_size = 0;
    gone->kept = gone->kept && gone->kind == KIND_DIRECTORY;
    if (gone->facts.mode == 0) {
        free(gone);
    } else if (++keeper->remembered >
               KEEPER_KNOWN) { /* what an undo has put there is still known */
        versions_forget(keeper);
    }
}

void version_set(struct keeper *keeper, struct version **version, struct version *to)
{
    struct version *before = *version;
    *version = version_take(to);
    version_release(keeper, &before);
}

void version_seen_as(struct keeper *keeper, struct version *version,
                     const struct apply_facts *facts)
{
    struct version **at = &keeper->known[version->facts.inode % KEEPER_KNOWN];
    while (version->facts.mode && *at != version) {
        at = &(*at)->next_known;
    }
    if (version->facts.mode) {
        *at = version->next_known;
    }
    version->facts = *facts;
    if (facts->mode) {
        at = &keeper->known[facts->inode % KEEPER_KNOWN];
        version->next_known = *at;
        *at = version;
    }
}

void versions_changed(struct keeper *keeper, const struct apply_facts *from,
                      const struct apply_facts *to)
{
    for (struct version *version = keeper->known[from->inode % KEEPER_KNOWN]; version;
         version = version->next_known) {
        if (apply_facts_equal(&version->facts, from)) {
            version->facts = *to; /* of the same inode, so in the same bucket */
        }
    }
}

bool version_is_at(const struct version *version, const struct apply_facts *facts)
{
    if (version->kind == KIND_NONE) {
        return facts->mode == 0;
    }
    return S_ISDIR(facts->mode)
               ? version->kind == KIND_DIRECTORY && facts->inode == version->facts.inode
               : apply_facts_alike(facts, &version->facts);
}

struct version *version_known(const struct keeper *keeper, const struct apply_facts *facts)
{
    struct version *version = keeper->known[facts->inode % KEEPER_KNOWN];
    while (version &&
           (version->facts.inode != facts->inode || !apply_facts_alike(&version->facts, facts) ||
            (S_ISREG(facts->mode) && version->mode != (facts->mode & ACCESSPERMS)))) {
        version = version->next_known;
    }
    return version;
}

bool version_differs(const struct version *one, const struct version *other)
{
    return one->kind != other->kind || one->mode != other->mode || one->bytes != other->bytes ||
           one->kept != other->kept ||
           (one->data && other->data && memcmp(one->data, other->data, one->bytes) != 0);
}

void *array_grow(void *list, size_t count, size_t *space, size_t size)
{
    enum { FIRST = 32 };
    if (count < *space) {
        return list;
    }
    size_t more = *space ? *space * 2 : FIRST;
    void *grown = realloc(list, more * size);
    *space = grown ? more : *space;
    return grown;
}
