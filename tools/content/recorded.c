#include "tools/content/recorded.h"

#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/sha256.h"
#include "record/record.h"
#include "rpc/text.h"
#include "tools/content/content.h"

/* New: the arguments, with at most LIMIT_RECORD_PART_BYTES of a long text. */
static json_t *short_arguments(const json_t *arguments, json_t *event)
{
    static const char *const longs[] = {"content", "old_text", "new_text"};
    json_t *copy = json_copy((json_t *)(uintptr_t)arguments);
    for (unsigned i = 0; i < sizeof longs / sizeof *longs; i++) {
        const json_t *text = json_object_get(copy, longs[i]);
        if (json_string_length(text) > LIMIT_RECORD_PART_BYTES) {
            (void)json_object_set_new(copy, longs[i],
                                      rpc_text(json_string_value(text), LIMIT_RECORD_PART_BYTES));
            (void)json_object_set_new(event, "cut", json_true());
        }
    }
    return copy;
}

/* Whether JSON has more than LIMIT_RECORD_PART_BYTES. */
static bool exceeds_part(const json_t *value)
{
    OWNED(buf_done) struct buf dump = BUF_EMPTY;
    return rpc_text_dump(&dump, value) < 0 || buf_size(&dump) > LIMIT_RECORD_PART_BYTES;
}

/* New: the blocks; a text of the installer's, which may hold URLs, without credentials. */
static json_t *clean_content(const json_t *content)
{
    json_t *blocks = json_deep_copy(content);
    size_t i = 0;
    json_t *block = NULL;
    json_array_foreach (blocks, i, block) {
        const json_t *text = json_object_get(block, "text");
        if (text) {
            (void)json_object_set_new(
                block, "text", record_message(json_string_value(text), json_string_length(text)));
        }
    }
    return blocks;
}

static size_t content_size_of(const json_t *content)
{
    size_t size = 0;
    size_t i = 0;
    json_t *block = NULL;
    json_array_foreach (content, i, block) {
        size += json_string_length(json_object_get(block, "text")) +
                json_string_length(json_object_get(block, "data"));
    }
    return size;
}

json_t *content_file_facts(const struct record *record, const char *path, int fd, uint64_t size)
{
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    char hash[SHA256_TEXT];
    json_t *facts = record ? json_pack("{s:o, s:I}", "path", rpc_text(path, strlen(path)), "size",
                                       (json_int_t)size)
                           : NULL;
    if (facts && size <= LIMIT_RECORD_PART_BYTES &&
        content_read(fd, 0, (size_t)size, &content) == 0) {
        (void)json_object_set_new(
            facts, "sha256", json_string(sha256_of(buf_bytes(&content), buf_size(&content), hash)));
    }
    return facts;
}

void content_record(struct record *record, const struct content_call *call, json_t *facts)
{
    const json_t *content = call->content;
    json_t *event =
        record ? json_pack("{s:s, s:b}", "tool", call->tool, "is_error", call->is_error) : NULL;
    bool installs = strcmp(call->tool, "install_package") == 0;
    if (!event) {
        json_decref(facts);
        return;
    }
    json_t *sent = short_arguments(call->arguments, event);
    (void)json_object_set_new(event, "arguments", sent);
    if (strcmp(call->kind, "tool") == 0 && exceeds_part(sent)) {
        record_leave_out(event, "arguments");
    }
    (void)json_object_update_new(event, facts);
    size_t size = content_size_of(content);
    if (content && record_has_space(record, size)) {
        (void)json_object_set_new(event, "content",
                                  installs ? clean_content(content) : json_deep_copy(content));
    } else if (content) {
        (void)json_object_set_new(event, "content_bytes", json_integer((json_int_t)size));
    }
    record_add(record, call->kind, event);
}
