#include "sandbox/protocol/apply_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

enum { ALIGN = 8, PATH_BYTES = 4096 };
_Static_assert(sizeof(struct change_record) % ALIGN == 0, "numbers are aligned");

static size_t record_size(size_t length)
{
    return (sizeof(struct change_record) + length + 1 + ALIGN - 1) / ALIGN * ALIGN;
}

int change_record_add(struct buf *records, const struct change_record *record, const char *path,
                      const char *target)
{
    size_t length = strlen(path);
    size_t target_length = target ? strlen(target) : 0;
    size_t size = record_size(length + (target_length ? target_length + 1 : 0));
    char *space = NULL;
    int r = buf_reserve(records, size, &space);
    if (r < 0) {
        return r;
    }
    struct change_record head = *record;
    head.size = (uint32_t)size;
    head.target_bytes = (uint32_t)target_length;
    memset(space, 0, size);
    memcpy(space, &head, sizeof head);
    memcpy(space + sizeof head, path, length + 1);
    if (target_length > 0) {
        memcpy(space + sizeof head + length + 1, target, target_length + 1);
    }
    buf_commit(records, size);
    return 0;
}

const char *change_record_target(const struct change_record *record)
{
    return record->target_bytes ? record->path + strlen(record->path) + 1 : NULL;
}

static bool is_record(const struct change_record *record, size_t space)
{
    if (space < sizeof *record || record->size > space || record->size <= sizeof *record ||
        record->target_bytes >= PATH_BYTES) {
        return false;
    }
    /* A text without its NUL gives a larger size. */
    size_t most = record->size - sizeof *record;
    size_t length = strnlen(record->path, most);
    size_t rest = record->target_bytes ? record->target_bytes + 1 : 0;
    return length > 0 && length < PATH_BYTES && record_size(length + rest) == record->size &&
           (!rest || strnlen(record->path + length + 1, most - length - 1) == rest - 1) &&
           record->sign && strchr("+~-", record->sign);
}

bool change_record_shows_mode(const struct change_record *record)
{
    enum { OTHERS = 077, OTHERS_WRITE = 022 };
    uint32_t bits = record->mode & 0777;
    if (S_ISLNK(record->mode)) {
        return false;
    }
    if (record->sign == '+') {
        return bits & OTHERS_WRITE;
    }
    return (bits & ~(uint32_t)record->before & OTHERS) ||
           (S_ISDIR(record->mode) && bits != record->before) ||
           (S_ISREG(record->mode) && record->added == 0 && record->removed == 0);
}

bool change_records_are_valid(const void *records, size_t size)
{
    size_t at = 0;
    while (at < size) {
        const struct change_record *record = (const void *)((const char *)records + at);
        if (!is_record(record, size - at)) {
            return false;
        }
        at += record->size;
    }
    return true;
}

const struct change_record *change_record_next(const void *records, size_t size,
                                               const struct change_record *record)
{
    const char *begin = records;
    const char *next = record ? (const char *)record + record->size : begin;
    return size > 0 && next < begin + size ? (const void *)next : NULL;
}

_Static_assert(sizeof(struct apply_journal) % APPLY_ITEM_ALIGN == 0, "items follow aligned");
_Static_assert(sizeof(struct apply_item) % APPLY_ITEM_ALIGN == 0, "facts are aligned");

static unsigned rank(char c)
{
    return c == '\0' ? 0 : c == '/' ? 1 : (unsigned)(unsigned char)c + 1;
}

int apply_path_compare(const char *one, const char *other)
{
    while (*one && *one == *other) {
        one++;
        other++;
    }
    return (int)rank(*one) - (int)rank(*other);
}

bool apply_path_is_below(const char *path, const char *directory)
{
    const char *rest = path_behind(path, directory);
    return rest && *rest;
}

size_t apply_path_git_size(const char *path)
{
    static const char name[] = ".git";
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t size = strcspn(at, "/");
        if (size == sizeof name - 1 && strncasecmp(at, name, size) == 0) {
            return (size_t)(at - path) + size;
        }
    }
    return 0;
}

bool apply_path_is_valid(const char *path)
{
    for (const char *name = path;; name++) {
        size_t length = strcspn(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0)) {
            return false;
        }
        name += length;
        if (!*name) {
            return true;
        }
    }
}

/* Of an item with a path of that length. */
static size_t item_size(size_t length)
{
    size_t size = sizeof(struct apply_item) + length + 1;
    return (size + APPLY_ITEM_ALIGN - 1) / APPLY_ITEM_ALIGN * APPLY_ITEM_ALIGN;
}

int apply_journal_begin(struct buf *journal, uint32_t owner_uid, uint32_t owner_gid)
{
    const struct apply_journal head = {
        .magic = APPLY_MAGIC, .size = sizeof head, .owner_uid = owner_uid, .owner_gid = owner_gid};
    return buf_append(journal, &head, sizeof head);
}

int apply_journal_add(struct buf *journal, const char *path, const struct apply_facts *before,
                      const struct apply_facts *source)
{
    size_t length = strlen(path);
    size_t size = item_size(length);
    char *space = NULL;
    if (length >= APPLY_PATH_BYTES || !apply_path_is_valid(path)) {
        return -EINVAL;
    }
    int r = buf_reserve(journal, size, &space);
    if (r < 0) {
        return r;
    }
    const struct apply_item item = {.size = (uint32_t)size, .before = *before, .source = *source};
    memset(space, 0, size);
    memcpy(space, &item, sizeof item);
    memcpy(space + sizeof item, path, length + 1);
    buf_commit(journal, size);
    struct apply_journal *head = (void *)(journal->data + journal->start);
    head->count++;
    head->size += size;
    return 0;
}

static bool is_item(const struct apply_item *item, size_t space)
{
    if (space < sizeof *item || item->size > space || item->size <= sizeof *item ||
        item->status >= APPLY_STATUS_COUNT) {
        return false;
    }
    /* A path without its NUL gives a larger size. */
    size_t length = strnlen(item->path, item->size - sizeof *item);
    return length < APPLY_PATH_BYTES && item_size(length) == item->size &&
           apply_path_is_valid(item->path);
}

bool apply_journal_is_valid(const void *bytes, size_t size)
{
    const struct apply_journal *journal = bytes;
    const struct apply_item *last = NULL;
    if (size < sizeof *journal || journal->magic != APPLY_MAGIC || journal->size != size ||
        journal->complete > 1 || journal->temporary_item > journal->count ||
        !memchr(journal->temporary, '\0', sizeof journal->temporary) ||
        (journal->temporary[0] && !apply_path_is_valid(journal->temporary))) {
        return false;
    }
    size_t at = sizeof *journal;
    for (uint32_t i = 0; i < journal->count; i++) {
        const struct apply_item *item = (const void *)((const char *)bytes + at);
        if (!is_item(item, size - at) ||
            (last && apply_path_compare(last->path, item->path) >= 0)) {
            return false;
        }
        last = item;
        at += item->size;
    }
    return at == size;
}

struct apply_item *apply_journal_next(const struct apply_journal *journal,
                                      const struct apply_item *item)
{
    const char *next = item ? (const char *)item + item->size : (const char *)(journal + 1);
    return next < (const char *)journal + journal->size ? (void *)(uintptr_t)next : NULL;
}

/* Code chooses a file's times, and a product of foreign numbers may wrap. */
static int64_t time_ns(const struct timespec *time)
{
    const uint64_t second_ns = 1000000000;
    return (int64_t)((uint64_t)time->tv_sec * second_ns + (uint64_t)time->tv_nsec);
}

struct apply_facts apply_facts_of(const struct stat *st)
{
    return (struct apply_facts){.inode = st->st_ino,
                                .bytes = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
                                .ctime_ns = time_ns(&st->st_ctim),
                                .mtime_ns = time_ns(&st->st_mtim),
                                .mode = st->st_mode};
}

struct apply_facts apply_facts_in(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? apply_facts_of(&st)
                                                                : (struct apply_facts){};
}

bool apply_facts_equal(const struct apply_facts *one, const struct apply_facts *other)
{
    return apply_facts_equal_moved(one, other) &&
           (!one->mode || S_ISDIR(one->mode) || one->ctime_ns == other->ctime_ns);
}

bool apply_facts_alike(const struct apply_facts *one, const struct apply_facts *other)
{
    return S_ISDIR(one->mode) ? one->mode == other->mode : apply_facts_equal(one, other);
}

bool apply_facts_equal_moved(const struct apply_facts *one, const struct apply_facts *other)
{
    if (!one->mode || !other->mode) {
        return one->mode == other->mode;
    }
    return one->mode == other->mode && one->inode == other->inode &&
           (S_ISDIR(one->mode) || (one->bytes == other->bytes && one->mtime_ns == other->mtime_ns));
}
