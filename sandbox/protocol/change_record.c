#include "sandbox/protocol/change_record.h"

#include <string.h>
#include <sys/stat.h>

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
