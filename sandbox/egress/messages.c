#include "sandbox/egress/messages.h"

#include <string.h>
#include <strings.h>

#include "base/parse.h"

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
            char c = parse_lower((char)reader->bytes[at + i]);
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

/* --- requests --- */

enum { METHOD_MOST = 32, VERSION_BYTES = 8, LENGTH_DIGITS = 18, HTTP_PORT = 80 };

static bool span_is(struct span span, const char *text)
{
    return span.size == strlen(text) && strncasecmp(span.bytes, text, span.size) == 0;
}

/* Returns what lies before the first end; *rest continues behind it. */
static bool span_cut(struct span *rest, const char *end, struct span *ret_part)
{
    size_t size = strlen(end);
    const char *found = memmem(rest->bytes, rest->size, end, size);
    if (!found) {
        return false;
    }
    *ret_part = (struct span){rest->bytes, (size_t)(found - rest->bytes)};
    rest->size -= ret_part->size + size;
    rest->bytes = found + size;
    return true;
}

/* "tchar", RFC 9110 5.6.2 */
static bool is_token(struct span span)
{
    for (size_t i = 0; i < span.size; i++) {
        char c = span.bytes[i];
        if (!parse_is_alnum(c) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) {
            return false;
        }
    }
    return span.size > 0;
}

/* Methods are case-sensitive, RFC 9110 9.1, but some proxies and sites take "connect" for CONNECT.
 */
static bool is_method(struct span span)
{
    for (size_t i = 0; i < span.size; i++) {
        if ((span.bytes[i] < 'A' || span.bytes[i] > 'Z') && span.bytes[i] != '-') {
            return false;
        }
    }
    return span.size > 0 && span.size <= METHOD_MOST;
}

static bool is_visible(struct span span)
{
    for (size_t i = 0; i < span.size; i++) {
        if (span.bytes[i] <= ' ' || span.bytes[i] > '~') {
            return false;
        }
    }
    return span.size > 0;
}

static struct span trimmed(struct span span)
{
    while (span.size && (*span.bytes == ' ' || *span.bytes == '\t')) {
        span.bytes++;
        span.size--;
    }
    while (span.size && (span.bytes[span.size - 1] == ' ' || span.bytes[span.size - 1] == '\t')) {
        span.size--;
    }
    return span;
}

struct head {
    struct span method;
    struct span uri;
    struct span version;
    struct span fields; /* lines, each with its CRLF */
};

/* Whether the head has no control characters but tabs in values and CRLF at the ends of lines. */
static bool head_is_clean(struct span head)
{
    for (size_t i = 0; i < head.size; i++) {
        unsigned char c = (unsigned char)head.bytes[i];
        bool line_ends = c == '\r' && i + 1 < head.size && head.bytes[i + 1] == '\n';
        bool line_ended = c == '\n' && i > 0 && head.bytes[i - 1] == '\r';
        if (!line_ends && !line_ended && ((c < ' ' && c != '\t') || c == 0x7f)) {
            return false;
        }
    }
    return true;
}

static bool head_split(struct span whole, struct head *head)
{
    struct span line;
    head->fields = whole;
    return span_cut(&head->fields, "\r\n", &line) && span_cut(&line, " ", &head->method) &&
           span_cut(&line, " ", &head->uri) && (head->version = line).size == VERSION_BYTES &&
           is_visible(head->uri);
}

/* Reads the next field line. Returns false at the end, or with *ret_bad at a malformed line. */
static bool next_field(struct span *lines, struct span *ret_name, struct span *ret_value,
                       bool *ret_bad)
{
    struct span line;
    if (!span_cut(lines, "\r\n", &line) || line.size == 0) {
        return false;
    }
    *ret_bad = !span_cut(&line, ":", ret_name) || !is_token(*ret_name);
    *ret_value = trimmed(line);
    return !*ret_bad;
}

/* Splits "scheme://authority/path" into authority and path, which begins at its '/' or '?'. */
static bool split_uri(struct span uri, struct span *ret_authority, struct span *ret_path)
{
    static const char scheme[] = "http://";
    size_t skip = sizeof scheme - 1;
    if (uri.size < skip || strncasecmp(uri.bytes, scheme, skip) != 0) {
        return false;
    }
    const char *at = uri.bytes + skip;
    size_t size = 0;
    while (skip + size < uri.size && !strchr("/?#", at[size])) {
        size++;
    }
    *ret_authority = (struct span){at, size};
    *ret_path = (struct span){at + size, uri.size - skip - size};
    return !memchr(ret_path->bytes, '#', ret_path->size);
}

/* Reads lengths and hosts. Returns what is wrong, or NULL. */
static const char *read_fields(const struct head *head, struct request *request,
                               unsigned *ret_status)
{
    struct span lines = head->fields;
    struct span name;
    struct span value;
    unsigned count = 0;
    unsigned lengths = 0;
    unsigned hosts = 0;
    bool bad = false;
    *ret_status = 400;
    while (next_field(&lines, &name, &value, &bad)) {
        hosts += span_is(name, "host");
        request->expects =
            request->expects || (span_is(name, "expect") && head->version.bytes[7] == '1');
        if (++count > REQUEST_HEADERS_MOST) {
            *ret_status = 431;
            return "too many header fields";
        }
        if (span_is(name, "transfer-encoding")) {
            *ret_status = 411;
            return "a request body needs a Content-Length; transfer codings are not supported";
        }
        if (span_is(name, "content-length") &&
            (++lengths > 1 ||
             !digits_read(value.bytes, value.size, LENGTH_DIGITS, &request->body_bytes))) {
            return "the Content-Length is missing or ambiguous";
        }
    }
    if (bad || hosts > 1) {
        return bad ? "a malformed header field" : "more than one Host";
    }
    return request->tunnel && lengths ? "CONNECT must not have a body" : NULL;
}

static const char *read_target(const struct head *head, struct request *request)
{
    struct span authority = head->uri;
    struct span path;
    if (!is_method(head->method)) {
        return "the method must be in capital letters, such as GET";
    }
    if (!request->tunnel && !split_uri(head->uri, &authority, &path)) {
        return "not a request to a proxy: CONNECT host:port or METHOD http://host/path";
    }
    if (!target_read(authority.bytes, authority.size, &request->target)) {
        return "neither a host name nor an address in its usual form";
    }
    if (request->target.port == 0) {
        request->target.port = HTTP_PORT;
        return request->tunnel ? "CONNECT needs a port" : NULL;
    }
    return NULL;
}

enum request_result request_read(const char *bytes, size_t size, struct request *ret_request,
                                 unsigned *ret_status, const char **ret_why)
{
    static const char end[] = "\r\n\r\n";
    struct request request = {};
    struct head head;
    const char *found = memmem(bytes, size, end, sizeof end - 1);
    *ret_status = 400;
    if (!found) {
        *ret_status = 431;
        *ret_why = "the request header is too long";
        return size < REQUEST_HEAD_MOST ? REQUEST_MORE : REQUEST_BAD;
    }
    struct span whole = {bytes, (size_t)(found - bytes) + sizeof end - 1};
    request.head_bytes = whole.size;
    if (!head_is_clean(whole) || !head_split(whole, &head)) {
        *ret_why = "a malformed request";
        return REQUEST_BAD;
    }
    if (strncmp(head.version.bytes, "HTTP/1.", VERSION_BYTES - 1) != 0 ||
        (head.version.bytes[7] != '0' && head.version.bytes[7] != '1')) {
        *ret_status = 505;
        *ret_why = "only HTTP/1.1 and HTTP/1.0 are supported";
        return REQUEST_BAD;
    }
    request.tunnel = head.method.size == strlen("CONNECT") &&
                     memcmp(head.method.bytes, "CONNECT", head.method.size) == 0;
    request.traces = span_is(head.method, "TRACE");
    *ret_why = read_target(&head, &request);
    *ret_why = *ret_why ? *ret_why : read_fields(&head, &request, ret_status);
    if (*ret_why) {
        return REQUEST_BAD;
    }
    *ret_request = request;
    return REQUEST_WHOLE;
}

/* Whether a Connection field names this field, so that it is not forwarded, RFC 9110 7.6.1. The
 * length always is, else the origin would find the body's end elsewhere. */
static bool is_named_by_connection(const struct head *head, struct span name)
{
    struct span lines = head->fields;
    struct span field;
    struct span value;
    bool bad = false;
    while (next_field(&lines, &field, &value, &bad)) {
        while (span_is(field, "connection") && value.size) {
            struct span option = value;
            const char *comma = memchr(value.bytes, ',', value.size);
            option.size = comma ? (size_t)(comma - value.bytes) : value.size;
            value.bytes += option.size + (comma != NULL);
            value.size -= option.size + (comma != NULL);
            option = trimmed(option);
            if (option.size == name.size && strncasecmp(option.bytes, name.bytes, name.size) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_for_the_proxy(const struct head *head, struct span name)
{
    static const char *const names[] = {"connection", "host",    "keep-alive", "te",
                                        "expect",     "trailer", "upgrade",    "max-forwards"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (span_is(name, names[i])) {
            return true;
        }
    }
    return (name.size > 6 && strncasecmp(name.bytes, "proxy-", 6) == 0) ||
           (!span_is(name, "content-length") && is_named_by_connection(head, name));
}

struct writer {
    char *at;
    size_t left; /* 0: it did not fit */
};

static void put(struct writer *writer, struct span span)
{
    if (span.size >= writer->left) {
        writer->left = 0;
        return;
    }
    memcpy(writer->at, span.bytes, span.size);
    writer->at += span.size;
    writer->left -= span.size;
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, (struct span){text, strlen(text)});
}

static void put_login(struct writer *writer, const char *login)
{
    if (login && *login) {
        put_text(writer, "\r\nProxy-Authorization: ");
        put_text(writer, login);
    }
}

size_t request_write_connect(const struct target *target, const char *login, char *out, size_t size)
{
    struct writer writer = {out, size};
    char name[TARGET_BYTES];
    put_text(&writer, "CONNECT ");
    put_text(&writer, target_print(target, name));
    put_text(&writer, " HTTP/1.1\r\nHost: ");
    put_text(&writer, name);
    put_login(&writer, login);
    put_text(&writer, "\r\n\r\n");
    return writer.left ? size - writer.left : 0;
}

size_t request_write_head(const struct request *request, const char *bytes, const char *login,
                          char *out, size_t size)
{
    struct writer writer = {out, size};
    struct head head;
    struct span authority;
    struct span path;
    struct span name;
    struct span value;
    bool bad = false;
    if (!head_split((struct span){bytes, request->head_bytes}, &head) ||
        !split_uri(head.uri, &authority, &path)) {
        return 0;
    }
    put(&writer, head.method);
    put_text(&writer, login ? " http://" : " ");
    if (login) {
        put(&writer, authority);
    }
    put_text(&writer, path.size && path.bytes[0] == '/' ? "" : "/");
    put(&writer, path);
    put_text(&writer, " ");
    put(&writer, head.version);
    put_text(&writer, "\r\nHost: ");
    put(&writer, authority);
    struct span lines = head.fields;
    while (next_field(&lines, &name, &value, &bad)) {
        if (!is_for_the_proxy(&head, name)) {
            put_text(&writer, "\r\n");
            put(&writer, name);
            put_text(&writer, ": ");
            put(&writer, value);
        }
    }
    put_login(&writer, login);
    put_text(&writer, "\r\nConnection: close\r\n\r\n");
    return writer.left ? size - writer.left : 0;
}
