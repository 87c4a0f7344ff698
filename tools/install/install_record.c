#include <string.h>

#include "record/record.h"
#include "tools/install/install.h"

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
