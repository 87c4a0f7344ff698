#include "sandbox/egress/dns.h"

#include <string.h>

enum {
    HEAD_BYTES = 12,
    CLASS_IN = 1,
    TYPE_CNAME = 5,
    FLAG_RESPONSE = 0x8000,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION = 0x0100,
    CODE_MASK = 0xf,
    CODE_NO_NAME = 3,
    POINTER = 0xc0,
    JUMPS_MOST = 16,
    ALIASES_MOST = 8,
};

static void put_u16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

size_t dns_write_query(const char *name, uint16_t type, uint16_t id, uint8_t out[DNS_QUERY_MOST])
{
    memset(out, 0, HEAD_BYTES);
    put_u16(out, id);
    put_u16(out + 2, FLAG_RECURSION);
    put_u16(out + 4, 1);
    uint8_t *at = out + HEAD_BYTES;
    while (*name) {
        size_t size = strcspn(name, ".");
        *at++ = (uint8_t)size;
        memcpy(at, name, size);
        at += size;
        name += size + (name[size] == '.');
    }
    *at++ = 0;
    put_u16(at, type);
    put_u16(at + 2, CLASS_IN);
    return (size_t)(at + 4 - out);
}

struct reader {
    const uint8_t *bytes;
    size_t size;
    size_t at; /* beyond size: the reader ran past the end */
};

static unsigned get_u16(struct reader *reader)
{
    size_t at = reader->at;
    reader->at += 2;
    return reader->at <= reader->size
               ? (unsigned)reader->bytes[at] << 8 | (unsigned)reader->bytes[at + 1]
               : 0;
}

static uint32_t get_u32(struct reader *reader)
{
    uint32_t high = get_u16(reader);
    return high << 16 | get_u16(reader);
}

static char lowered(uint8_t c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Reads a name as text and follows its pointers. Names that host_read() would refuse (blanks, dots
 * within a label) fail, because no query contains one. */
static bool get_name(struct reader *reader, char name[EGRESS_HOST_BYTES])
{
    size_t at = reader->at;
    size_t used = 0;
    bool jumped = false;
    for (unsigned jumps = 0; jumps < JUMPS_MOST;) {
        if (at >= reader->size) {
            return false;
        }
        size_t size = reader->bytes[at++];
        if ((size & POINTER) == POINTER) {
            if (at >= reader->size) {
                return false;
            }
            size_t to = (size & ~(size_t)POINTER) << 8 | reader->bytes[at++];
            reader->at = jumped ? reader->at : at;
            jumped = true;
            at = to;
            jumps++;
            continue;
        }
        if (size == 0) {
            name[used ? used - 1 : 0] = '\0';
            reader->at = jumped ? reader->at : at;
            return true;
        }
        if (size & POINTER || at + size > reader->size || used + size + 1 >= EGRESS_HOST_BYTES) {
            return false;
        }
        for (size_t i = 0; i < size; i++) {
            char c = lowered(reader->bytes[at + i]);
            if (c <= ' ' || c == '.' || c > '~') {
                return false;
            }
            name[used++] = c;
        }
        name[used++] = '.';
        at += size;
    }
    return false;
}

struct record {
    char owner[EGRESS_HOST_BYTES];
    unsigned type;
    uint32_t ttl_s;
    size_t data; /* offset of the data */
    size_t size;
};

static bool get_record(struct reader *reader, struct record *record)
{
    if (!get_name(reader, record->owner)) {
        return false;
    }
    record->type = get_u16(reader);
    unsigned class = get_u16(reader);
    record->ttl_s = get_u32(reader);
    record->size = get_u16(reader);
    record->data = reader->at;
    reader->at += record->size;
    record->type = class == CLASS_IN ? record->type : 0;
    return reader->at <= reader->size;
}

static void take_address(const struct reader *reader, const struct record *record,
                         struct dns_answer *answer)
{
    const uint8_t *bytes = reader->bytes + record->data;
    struct egress_address address;
    if (record->type == DNS_A && record->size == 4) {
        address = address_from_v4(bytes);
    } else if (record->type == DNS_AAAA && record->size == sizeof address.bytes) {
        memcpy(address.bytes, bytes, sizeof address.bytes);
    } else {
        return;
    }
    if (answer->count < DNS_ADDRESSES) {
        answer->addresses[answer->count++] = address;
    }
}

/* Searches the records once for name. Returns whether there is an alias, and then writes that to
 * name. */
static bool walk_records(struct reader reader, unsigned records, uint16_t type,
                         char name[EGRESS_HOST_BYTES], struct dns_answer *answer)
{
    struct record record;
    bool alias = false;
    char next[EGRESS_HOST_BYTES] = "";
    for (unsigned i = 0; i < records && get_record(&reader, &record); i++) {
        if (strcmp(record.owner, name) != 0 || (record.type != type && record.type != TYPE_CNAME)) {
            continue;
        }
        answer->ttl_s = record.ttl_s < answer->ttl_s ? record.ttl_s : answer->ttl_s;
        if (record.type == type) {
            take_address(&reader, &record, answer);
        } else {
            struct reader data = reader;
            data.at = record.data;
            alias = get_name(&data, next);
        }
    }
    if (alias) {
        memcpy(name, next, sizeof next);
    }
    return alias;
}

enum dns_result dns_read_answer(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
                                uint16_t id, struct dns_answer *ret_answer)
{
    struct reader reader = {bytes, size, 0};
    char owner[EGRESS_HOST_BYTES];
    unsigned their_id = get_u16(&reader);
    unsigned flags = get_u16(&reader);
    unsigned questions = get_u16(&reader);
    unsigned records = get_u16(&reader);
    reader.at = HEAD_BYTES;
    if (size < HEAD_BYTES || their_id != id || !(flags & FLAG_RESPONSE) || questions != 1 ||
        !get_name(&reader, owner) || strcmp(owner, name) != 0 || get_u16(&reader) != type ||
        get_u16(&reader) != CLASS_IN || reader.at > size) {
        return DNS_STRANGE;
    }
    if (flags & FLAG_TRUNCATED) {
        return DNS_TRUNCATED;
    }
    if ((flags & CODE_MASK) != 0) {
        return (flags & CODE_MASK) == CODE_NO_NAME ? DNS_NO_NAME : DNS_FAILED;
    }
    *ret_answer = (struct dns_answer){.ttl_s = UINT32_MAX};
    for (unsigned i = 0; i < ALIASES_MOST; i++) {
        if (!walk_records(reader, records, type, owner, ret_answer)) {
            break;
        }
    }
    return DNS_ANSWERED;
}
