#include "record/export.h"

#include <string.h>

#include "base/buf.h"

record_export_fn record_export_find(const char *format)
{
    static const struct {
        const char *name;
        record_export_fn fn;
    } rows[] = {{"html", record_export_html},
                {"ipynb", record_export_ipynb},
                {"md", record_export_md},
                {"py", record_export_py}};
    for (unsigned i = 0; format && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(format, rows[i].name) == 0) {
            return rows[i].fn;
        }
    }
    return NULL;
}

const char *record_image_type(const json_t *data)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *text = json_string_value(data);
    if (!text || strspn(text, alphabet) != json_string_length(data)) {
        return NULL;
    }
    return strncmp(text, "iVBORw0KGgo", 11) == 0 ? "image/png"
           : strncmp(text, "/9j/", 4) == 0       ? "image/jpeg"
                                                 : NULL;
}

bool record_is_of(const struct record_entry *entry, const char *session)
{
    const char *of = record_text(entry->event, "session");
    return !session || !of[0] || strcmp(of, session) == 0;
}

void record_join_output(const json_t *result, const char *stream, struct buf *out)
{
    size_t i = 0;
    json_t *piece = NULL;
    json_array_foreach (json_object_get(result, "output"), i, piece) {
        const json_t *text = json_array_get(piece, 1);
        if (!stream || strcmp(json_string_value(json_array_get(piece, 0)), stream) == 0) {
            buf_append(out, json_string_value(text), json_string_length(text));
        }
    }
}
