#include "tools/install/install.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/text.h"
#include "schema/schema.h"
#include "tools/content/content.h"

enum { NAMES_SHOWN = 16, NOTES_SHOWN = 6 };

static const struct {
    const char *name; /* in replies and in the structured form */
    const char *headline;
    const char *remedy;
} failures[] = {
    [INSTALL_DONE] = {"", "", ""},
    [INSTALL_NOT_FOUND] = {"not_found", "not found",
                           "Check the spelling: the name to install may differ from the name to "
                           "import."},
    [INSTALL_NO_WHEEL] = {"no_wheel", "no wheel for this platform",
                          "Another version or package may have one; the user can allow building "
                          "from source with --allow-sdist."},
    [INSTALL_CONFLICT] = {"conflict", "version conflict",
                          "Relax or remove one of the version requirements, or install the "
                          "packages in separate calls."},
    [INSTALL_UNREACHABLE] = {"unreachable", "index unreachable",
                             "Try again later; the user can check the network and --index-url."},
    [INSTALL_BLOCKED] = {"blocked", "blocked by policy",
                         "Continue without it, unless the user allows it."},
    [INSTALL_DISK] = {"disk", "package disk full",
                      "Install fewer or smaller packages; the user can raise --package-disk."},
    [INSTALL_TIMEOUT] = {"timeout", "timeout",
                         "Try again: downloads are kept. Or install fewer packages at once."},
    [INSTALL_AUTH] = {"auth", "the index requires credentials",
                      "The user can add them to --index-url."},
    [INSTALL_PROXY] = {"proxy", "no way through the user's proxy",
                       "Repeating the call changes nothing before that."},
    [INSTALL_BAD_HASH] =
        {"bad_hash", "wrong hash of a download",
         "Try again; if it fails again, the index is broken or cannot be trusted."},
    [INSTALL_NO_INSTALLER] =
        {"no_installer", "no pip",
         "The user can install pip for this Python (Debian, Ubuntu: sudo apt install "
         "python3-venv), or choose another with --python."},
    [INSTALL_BUILD_FAILED] =
        {"build_failed", "the build from source failed",
         "Another version may have a wheel; the log has the compiler's output."},
    [INSTALL_MEMORY] = {"memory", "out of memory",
                        "Install fewer packages at once; the user can raise --memory."},
    [INSTALL_UNAVAILABLE] = {"unavailable", "packages cannot be installed on this machine", ""},
    [INSTALL_OTHER] = {"other", "the installer failed", "See the log."},
};

_Static_assert(sizeof failures / sizeof *failures == INSTALL_FAILURE_COUNT, "a row for each");

static const char *string_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static bool is_requested(const struct install_report *report, const char *name)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(report->fetched, "to_install"), i, item) {
        if (strcmp(string_of(item, "name"), name) == 0) {
            return json_is_true(json_object_get(item, "requested"));
        }
    }
    return false;
}

enum install_failure install_failure_of(const json_t *reply)
{
    const char *name = string_of(reply, "class");
    for (unsigned i = INSTALL_DONE + 1; i < INSTALL_FAILURE_COUNT; i++) {
        if (strcmp(failures[i].name, name) == 0) {
            return (enum install_failure)i;
        }
    }
    return INSTALL_OTHER;
}

/* --- text --- */

/* Appends words of an index, of a package or of the installer. second: after a blank, or NULL. */
static void list_item(struct word_list *list, const char *first, const char *second)
{
    if (!word_list_next(list)) {
        return;
    }
    word_append(list->out, first, strlen(first));
    if (second && second[0]) {
        buf_append_text(list->out, " ");
        word_append(list->out, second, strlen(second));
    }
}

/* Appends array key of reply: "name version" of each. version: the key of that; NULL: of strings.
 */
static void append_items(const json_t *reply, const char *key, const char *version,
                         const char *before, const char *behind, struct buf *text)
{
    struct word_list list = {.out = text, .most = NAMES_SHOWN, .before = before};
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(reply, key), i, item) {
        const char *value = version ? string_of(item, "name") : json_string_value(item);
        list_item(&list, value ? value : "?", version ? string_of(item, version) : NULL);
    }
    word_list_end(&list);
    buf_append_text(text, list.count > 0 ? behind : "");
}

/* Appends the requested packages first, then their dependencies. */
static void append_installed(const struct install_report *report, struct buf *text)
{
    struct word_list list = {.out = text, .most = NAMES_SHOWN, .before = "installed "};
    const json_t *installed = json_object_get(report->installed, "installed");
    uint64_t bytes = 0;
    char size[16];
    for (unsigned pass = 0; pass < 2; pass++) {
        size_t i = 0;
        json_t *item = NULL;
        json_array_foreach (installed, i, item) {
            const char *name = string_of(item, "name");
            if (is_requested(report, name) == (pass == 0)) {
                list_item(&list, name, string_of(item, "version"));
                json_int_t own = json_integer_value(json_object_get(item, "bytes"));
                bytes += own > 0 ? (uint64_t)own : 0;
            }
        }
    }
    word_list_end(&list);
    buf_appendf(text, " (%zu package%s, %s, %.1f s)", list.count, list.count == 1 ? "" : "s",
                content_size(bytes, size),
                (double)report->duration_ns / (1000.0 * CLOCK_NS_PER_MS));
}

static void append_imports(const struct install_report *report, struct buf *text)
{
    struct word_list list = {.out = text, .most = NAMES_SHOWN, .before = "; import as: "};
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(report->installed, "installed"), i, item) {
        size_t j = 0;
        json_t *module = NULL;
        if (!is_requested(report, string_of(item, "name"))) {
            continue;
        }
        json_array_foreach (json_object_get(item, "imports"), j, module) {
            const char *value = json_string_value(module);
            list_item(&list, value ? value : "?", NULL);
        }
    }
    word_list_end(&list);
}

static void append_replaced(const struct install_report *report, struct buf *text)
{
    append_items(report->fetched, "replaces", "from", "\nreplaced ", "", text);
    if (json_array_size(json_object_get(report->fetched, "replaces")) > 0) {
        buf_append_text(text,
                        ": an interpreter that has imported it keeps the old version "
                        "until it is reset (run_python with reset=true)");
    }
}

static void append_notes(const json_t *reply, struct buf *text)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(reply, "notes"), i, item) {
        const char *note = json_string_value(item);
        if (note && i < NOTES_SHOWN) {
            buf_append_text(text, "\nnote: ");
            word_append_quoted(text, note, strlen(note));
        }
    }
}

static void compose_success(const struct install_report *report, struct buf *text)
{
    const json_t *fetched = report->fetched;
    if (report->installed) {
        append_installed(report, text);
        append_imports(report, text);
        append_items(fetched, "already", "version", "\nalready installed: ", "", text);
        append_replaced(report, text);
    } else if (json_array_size(json_object_get(fetched, "already")) > 0) {
        append_items(fetched, "already", "version", "already installed: ", "", text);
    } else {
        buf_append_text(text, "nothing to install");
    }
    append_items(fetched, "skipped", NULL, "\nskipped, not for this machine: ", "", text);
    append_notes(fetched, text);
    append_notes(report->installed, text);
}

/* The reply with the failure and its hints. */
static const json_t *failed_reply(const struct install_report *report)
{
    return report->installed ? report->installed : report->fetched;
}

/* An installer that died has no log to see. */
static const char *remedy_of(const struct install_report *report)
{
    bool has_log = report->failure != INSTALL_OTHER || report->log[0];
    return has_log ? failures[report->failure].remedy : "";
}

static void compose_failure(const struct install_report *report, struct buf *text)
{
    const json_t *reply = failed_reply(report);
    const char *remedy = remedy_of(report);
    size_t size = strlen(report->message);
    const char *stop = size > 0 && !strchr(".!?", report->message[size - 1]) ? "." : "";
    char shown[sizeof report->message];
    buf_appendf(text, "not installed, %s%s%s%s", failures[report->failure].headline,
                size > 0 ? ": " : ".", word_line(report->message, shown, sizeof shown), stop);
    size_t before = buf_size(text);
    append_items(reply, "near", NULL, " Similar names: ", ".", text);
    append_items(reply, "available", NULL, " Available versions: ", ".", text);
    if ((buf_size(text) == before || report->failure != INSTALL_NOT_FOUND) && *remedy) {
        buf_appendf(text, " %s", remedy);
    }
    buf_append_text(text, " Nothing has changed.");
}

int install_text_compose(const struct install_report *report, struct buf *text)
{
    if (report->failure) {
        compose_failure(report, text);
    } else {
        compose_success(report, text);
    }
    if (report->log[0]) {
        buf_appendf(text, "\n[pip log: %s]", report->log);
    }
    return buf_append_text(text, "\n");
}

int install_text_brief(const struct install_report *report, struct buf *text)
{
    if (report->failure) {
        char shown[sizeof report->message];
        buf_appendf(text, "not installed, %s: %s", failures[report->failure].headline,
                    word_line(report->message, shown, sizeof shown));
    } else if (report->installed) {
        append_installed(report, text);
    }
    return buf_error(text);
}

/* --- the structured form --- */

/* New: each object of an array, with only these keys. */
static json_t *objects_of(const json_t *reply, const char *key, const char *const *keys)
{
    json_t *list = json_array();
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(reply, key), i, item) {
        json_t *object = json_object();
        for (unsigned k = 0; keys[k]; k++) {
            json_t *value = json_object_get(item, keys[k]);
            if (json_is_string(value)) {
                (void)json_object_set(object, keys[k], value);
            }
        }
        (void)json_array_append_new(list, object);
    }
    return list;
}

static json_t *installed_of(const struct install_report *report)
{
    static const char *const keys[] = {"name", "version", NULL};
    const json_t *installed = json_object_get(report->installed, "installed");
    json_t *list = objects_of(report->installed, "installed", keys);
    size_t i = 0;
    json_t *object = NULL;
    json_array_foreach (list, i, object) {
        const json_t *item = json_array_get(installed, i);
        json_int_t size = json_integer_value(json_object_get(item, "bytes"));
        (void)json_object_set_new(object, "imports",
                                  schema_strings(json_object_get(item, "imports")));
        (void)json_object_set_new(object, "size", json_integer(size > 0 ? size : 0));
        (void)json_object_set_new(object, "requested",
                                  json_boolean(is_requested(report, string_of(item, "name"))));
    }
    return list;
}

static void set_strings(json_t *object, const char *key, const json_t *reply, const char *from)
{
    const json_t *array = json_object_get(reply, from);
    if (json_array_size(array) > 0) {
        (void)json_object_set_new(object, key, schema_strings(array));
    }
}

static void set_failure(json_t *object, const struct install_report *report)
{
    const json_t *reply = failed_reply(report);
    (void)json_object_set_new(object, "reason", json_string(failures[report->failure].name));
    (void)json_object_set_new(object, "message",
                              rpc_text(report->message, strlen(report->message)));
    (void)json_object_set_new(object, "remedy", json_string(remedy_of(report)));
    set_strings(object, "near", reply, "near");
    set_strings(object, "available", reply, "available");
}

json_t *install_text_structured(const struct install_report *report, const char *text, size_t size)
{
    static const char *const package[] = {"name", "version", NULL};
    static const char *const change[] = {"name", "from", "to", NULL};
    const char *status = report->failure     ? "failed"
                         : report->installed ? "installed"
                                             : "already_installed";
    json_t *object = json_pack("{s:s, s:o, s:I}", "status", status, "text", rpc_text(text, size),
                               "duration_ms", (json_int_t)(report->duration_ns / CLOCK_NS_PER_MS));
    if (!object) {
        return NULL;
    }
    if (report->failure) {
        set_failure(object, report);
    } else {
        const json_t *fetched = report->fetched;
        (void)json_object_set_new(object, "installed", installed_of(report));
        (void)json_object_set_new(object, "already_installed",
                                  objects_of(fetched, "already", package));
        (void)json_object_set_new(object, "replaced", objects_of(fetched, "replaces", change));
        set_strings(object, "skipped", fetched, "skipped");
    }
    if (report->log[0]) {
        (void)json_object_set_new(object, "log", json_string(report->log));
    }
    return object;
}

/* --- the record --- */

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
