#include "tools/content/app_view.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/embed.h"
#include "base/hash.h"
#include "base/limits.h"
#include "rpc/conn.h"
#include "rpc/text.h"

/* The page that shows results to people, in parts (view/): view.css, clean.js and view.js. Also the
 * look of a record's export. */
extern const struct embedded view_catalog[];

struct views {
    enum tools_ui ui;
    struct buf page; /* empty until somebody needs it */
    char uri[64];
    unsigned next; /* place of the oldest */
    struct {
        uint64_t key;
        json_t *data; /* owned; NULL: none */
    } kept[LIMIT_VIEWS];
    unsigned reviews;             /* that there were */
    json_t *parts[LIMIT_REVIEWS]; /* of the last ones; owned; NULL: none */
};

struct views *views_new(enum tools_ui ui)
{
    struct views *views = calloc(1, sizeof *views);
    if (views) {
        views->ui = ui;
    }
    return views;
}

void views_free(struct views *views)
{
    for (unsigned i = 0; views && i < LIMIT_VIEWS; i++) {
        json_decref(views->kept[i].data);
    }
    for (unsigned i = 0; views && i < LIMIT_REVIEWS; i++) {
        json_decref(views->parts[i]);
    }
    if (views) {
        buf_done(&views->page);
    }
    free(views);
}

static int append_part(struct buf *page, const char *name)
{
    const struct embedded *part = view_catalog;
    while (strcmp(part->name, name) != 0) {
        part++;
    }
    return buf_append(page, part->data, part->size);
}

/* Makes the page and its URI, which changes with the page: clients keep what they have read. */
static bool has_page(struct views *views)
{
    struct buf *page = &views->page;
    if (buf_size(page) == 0) {
        buf_appendf(page,
                    "<!doctype html>\n<html lang=\"en\" data-scripts=\"%s\"><head>"
                    "<meta charset=\"utf-8\"><meta name=\"viewport\" "
                    "content=\"width=device-width, initial-scale=1\">"
                    "<title>Python result</title>\n<style>\n",
                    views->ui == TOOLS_UI_ON ? "ask" : "never");
        append_part(page, "view.css");
        buf_append_text(page,
                        "</style></head>\n<body><p id=\"spoken\" role=\"status\"></p>"
                        "<main id=\"view\" aria-busy=\"true\"><p class=\"wait\">Running</p></main>"
                        "\n<script>\n");
        append_part(page, "clean.js");
        append_part(page, "view.js");
        if (buf_append_text(page, "</script></body></html>\n") < 0) {
            buf_done(page);
            return false;
        }
        (void)snprintf(views->uri, sizeof views->uri, "ui://sandpiper/result-%08" PRIx32,
                       (uint32_t)hash_fnv(HASH_FNV, buf_bytes(page), buf_size(page)));
    }
    return true;
}

/* The member "ui/resourceUri" is an older name, which some clients still read. */
int views_link(struct views *views, json_t *tool)
{
    const char *name = json_string_value(json_object_get(tool, "name"));
    bool has_view = strcmp(name, "run_python") == 0 || strcmp(name, "list_changes") == 0 ||
                    strcmp(name, "apply_changes") == 0;
    if (views->ui == TOOLS_UI_OFF || !has_view) {
        return 0;
    }
    json_t *meta = has_page(views) ? json_pack("{s:{s:s}, s:s}", "ui", "resourceUri", views->uri,
                                               "ui/resourceUri", views->uri)
                                   : NULL;
    return json_object_update_new(json_object_get(tool, "_meta"), meta);
}

json_t *views_page(struct views *views, const char *uri)
{
    if (views->ui == TOOLS_UI_OFF || !has_page(views) || (uri && strcmp(uri, views->uri) != 0)) {
        return NULL;
    }
    if (!uri) {
        return json_pack("{s:s, s:s, s:s}", "uri", views->uri, "name",
                         "The page that shows results", "mimeType", RPC_VIEW_TYPE);
    }
    return json_pack("{s:s, s:s, s:o, s:{s:{s:b}}}", "uri", views->uri, "mimeType", RPC_VIEW_TYPE,
                     "text", json_stringn(buf_bytes(&views->page), buf_size(&views->page)), "_meta",
                     "ui", "prefersBorder", true);
}

/* Of the code and the first text, without the white space at its end. */
static uint64_t key_of(const json_t *arguments, const json_t *content)
{
    const json_t *code = json_object_get(arguments, "code");
    const json_t *text = json_object_get(json_array_get(content, 0), "text");
    const char *bytes = json_string_value(text);
    size_t size = json_string_length(text);
    while (size > 0 && strchr(" \t\r\n", bytes[size - 1])) {
        size--;
    }
    uint64_t key = hash_fnv(HASH_FNV, json_string_value(code), json_string_length(code));
    return hash_fnv(hash_fnv(key, "", 1), bytes, size);
}

void views_keep(struct views *views, const json_t *arguments, const json_t *content,
                const json_t *data)
{
    unsigned at = views->next;
    if (data && content) {
        json_decref(views->kept[at].data);
        views->kept[at].data = json_incref((json_t *)(uintptr_t)data);
        views->kept[at].key = key_of(arguments, content);
        views->next = (at + 1) % LIMIT_VIEWS;
    }
}

json_t *views_keep_parts(struct views *views, json_t *parts)
{
    size_t count = json_array_size(parts);
    json_t *first = json_incref(json_array_get(parts, 0));
    unsigned review = views->reviews;
    for (size_t i = 0; i + 1 < count; i++) {
        char uri[64];
        (void)snprintf(uri, sizeof uri, VIEW_DATA_PREFIX "changes-%u-%zu", review, i + 1);
        (void)json_object_set_new(json_array_get(parts, i), "next", json_string(uri));
    }
    if (count > 1) {
        json_decref(views->parts[review % LIMIT_REVIEWS]);
        views->parts[review % LIMIT_REVIEWS] = json_incref(parts);
        views->reviews++;
    }
    json_decref(parts);
    return first;
}

static const json_t *find_part(const struct views *views, const char *uri)
{
    for (unsigned i = 0; i < LIMIT_REVIEWS; i++) {
        size_t count = json_array_size(views->parts[i]);
        for (size_t at = 1; at < count; at++) {
            const json_t *before = json_array_get(views->parts[i], at - 1);
            const char *next = json_string_value(json_object_get(before, "next"));
            if (next && strcmp(uri, next) == 0) {
                return json_array_get(views->parts[i], at);
            }
        }
    }
    return NULL;
}

const json_t *views_find(const struct views *views, const char *uri)
{
    static const char prefix[] = VIEW_DATA_PREFIX;
    for (unsigned i = 1; i <= LIMIT_VIEWS; i++) {
        unsigned at = (views->next + LIMIT_VIEWS - i) % LIMIT_VIEWS; /* the newest first */
        char name[sizeof prefix + 16];
        (void)snprintf(name, sizeof name, "%s%016" PRIx64, prefix, views->kept[at].key);
        if (views->kept[at].data && strcmp(uri, name) == 0) {
            return views->kept[at].data;
        }
    }
    return find_part(views, uri);
}
