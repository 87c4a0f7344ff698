#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "record/record.h"
#include "tools/install/install.h"
#include "tools/install/install_log.h"

void install_log_add(struct install_log *log, const char *bytes, size_t size)
{
    size_t used = buf_size(&log->head);
    size_t part = LIMIT_INSTALL_LOG_BYTES / 2 - used;
    part = size < part ? size : part;
    log->total += size;
    /* Without memory the log has a gap; the install goes on. */
    (void)buf_append(&log->head, bytes, part);
    (void)buf_append(&log->tail, bytes + part, size - part);
    if (buf_size(&log->tail) > LIMIT_INSTALL_LOG_BYTES) {
        buf_consume(&log->tail, buf_size(&log->tail) - LIMIT_INSTALL_LOG_BYTES / 2);
    }
}

void install_log_done(struct install_log *log)
{
    buf_done(&log->head);
    buf_done(&log->tail);
    *log = (struct install_log){};
}

void install_log_save(struct install_log *log, const struct install_sources *sources,
                      struct overflows *overflows, struct overflow **ret_overflow, overflow_fn fn,
                      void *arg)
{
    uint64_t left_out = log->total - buf_size(&log->head) - buf_size(&log->tail);
    OWNED(buf_done) struct buf text = log->head;
    log->head = BUF_EMPTY;
    if (left_out > 0) {
        (void)buf_appendf(&text, "\n[... %llu bytes omitted ...]\n", (unsigned long long)left_out);
    }
    (void)buf_append(&text, buf_bytes(&log->tail), buf_size(&log->tail));
    install_log_done(log);
    struct overflow *overflow = NULL;
    if (buf_size(&text) > 0) {
        install_sources_redact(sources, text.data + text.start, buf_size(&text));
        overflow = overflow_begin(overflows, "install", 0, &text, NULL, NULL);
    }
    *ret_overflow = overflow;
    overflow_finish(overflow, fn, arg);
}

/* New: the member of an item, without what a URL in it may hold; NULL: it is no string. */
static json_t *clean(const json_t *item, const char *key)
{
    const json_t *value = json_object_get(item, key);
    return json_is_string(value)
               ? record_message(json_string_value(value), json_string_length(value))
               : NULL;
}

void install_record(struct record *record, const struct install_op *op)
{
    const struct install_report *report = &op->report;
    json_t *requested = json_array();
    json_t *installed = json_array();
    size_t i = 0;
    json_t *item = NULL;
    if (!record) {
        json_decref(requested);
        json_decref(installed);
        return;
    }
    json_array_foreach (op->packages, i, item) {
        (void)json_array_append_new(
            requested, record_message(json_string_value(item), json_string_length(item)));
    }
    bool done = !report->failure && !op->cancelled && report->installed;
    json_array_foreach (done ? json_object_get(report->fetched, "to_install") : NULL, i, item) {
        (void)json_array_append_new(
            installed, json_pack("{s:o*, s:o*, s:o*}", "name", clean(item, "name"), "version",
                                 clean(item, "version"), "sha256", clean(item, "sha256")));
    }
    record_add(record, "install",
               json_pack("{s:o, s:b, s:o, s:b, s:o}", "packages", requested, "upgrade", op->upgrade,
                         "installed", installed, "failed", report->failure != INSTALL_DONE,
                         "message", record_message(report->message, strlen(report->message))));
}
