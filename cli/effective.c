/* sandpiper doctor --effective: each setting, and the source of its value. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "rpc/text.h"
#include "tools/install/install_request.h"

/* The value as it was given, without a password that may be in it. */
static const char *shown_value(const struct flag *flag, const char *value, struct index_url *url)
{
    if (!flag->value) {
        return "yes";
    }
    if (!flag->is_url) {
        return value;
    }
    if (strcmp(flag->name, "proxy") == 0) {
        return proxy_show(value, url->clean, sizeof url->clean);
    }
    return index_url_parse(value, url) ? "(invalid)" : url->clean;
}

/* A size or a time in force may be another than the one that was given, as those around it bound
 * it, and a default may depend on the machine. Returns it as "768M", or value where it says the
 * same or the flag is no such size. */
static const char *value_in_force(const struct options *options, const struct flag *flag,
                                  const char *value, char out[24])
{
    uint64_t ms = strcmp(flag->name, "timeout") == 0       ? options->server.timeout_ms
                  : strcmp(flag->name, "max-timeout") == 0 ? options->server.max_timeout_ms
                                                           : 0;
    uint64_t given_ms = 0;
    if (ms && (parse_seconds(value, &given_ms) < 0 || given_ms != ms)) {
        (void)snprintf(out, 24, "%g", (double)ms / 1000);
        return out;
    }
    uint64_t bytes = 0;
    uint64_t in_force = strcmp(flag->name, "memory") == 0 ? options->spec.limits.memory_bytes
                        : strcmp(flag->name, "disk") == 0 ? box_spec_disk_bytes(&options->spec)
                        : strcmp(flag->name, "undo-files") == 0
                            ? box_spec_undo_files_bytes(&options->spec)
                            : 0;
    if (in_force == 0 || (parse_size(value, &bytes) == 0 && bytes == in_force)) {
        return value;
    }
    unsigned long long mib = in_force >> 20;
    (void)snprintf(out, 24, "%llu%s", mib % 1024 ? mib : mib / 1024, mib % 1024 ? "M" : "G");
    return out;
}

/* value: in force, or the default, which --help may break into lines. */
static void add(json_t *rows, const struct flag *flag, const char *value, const char *source)
{
    char line[PATH_MAX + 64];
    (void)snprintf(line, sizeof line, "%s", value);
    for (char *end = line; (end = strchr(end, '\n'));) {
        *end = ' ';
    }
    (void)json_array_append_new(rows, json_pack("{s:s, s:o, s:s}", "name", flag->name, "value",
                                                flag->is_url || strstr(line, "://")
                                                    ? record_message(line, strlen(line))
                                                    : rpc_text(line, strlen(line)),
                                                "source", source));
}

static void add_setting(json_t *rows, const struct options *options,
                        const struct options_setting *setting)
{
    struct index_url url = {};
    char size[24];
    char source[PATH_MAX + 32];
    const char *value = shown_value(setting->flag, setting->value, &url);
    const char *in_force = value_in_force(options, setting->flag, value, size);
    char reduced[128];
    if (in_force != value) {
        (void)snprintf(reduced, sizeof reduced, "%s, from %.90s", in_force, value);
        value = reduced;
    }
    if (setting->line) {
        (void)snprintf(source, sizeof source, "%s:%u", options->config_file, setting->line);
    } else {
        (void)snprintf(source, sizeof source, "%s",
                       setting->from_variable ? setting->flag->variable : "command line");
    }
    add(rows, setting->flag, value, source);
}

/* Adds what the environment says where no flag does. False: nothing. */
static bool add_proxies(json_t *rows, const struct options *options, const struct flag *flag)
{
    char text[sizeof(struct index_url)];
    const char *last = "";
    bool direct = strcmp(flag->name, "no-proxy") == 0;
    if (!options->spec.ways || (!direct && strcmp(flag->name, "proxy") != 0)) {
        return false;
    }
    if (direct && options->ways.direct[0]) {
        add(rows, flag, options->ways.direct, "NO_PROXY");
    }
    for (unsigned kind = 0; !direct && kind < EGRESS_KINDS; kind++) {
        const struct egress_upstream *upstream = &options->ways.upstreams[kind];
        if (upstream->source[0] && strcmp(upstream->source, last) != 0) {
            add(rows, flag,
                upstream->unusable[0]
                    ? "(invalid)"
                    : upstream_print(upstream, /* user= */ true, text, sizeof text),
                upstream->source);
            last = upstream->source;
        }
    }
    return !direct || options->ways.direct[0];
}

json_t *effective_settings(const struct options *options)
{
    json_t *rows = json_array();
    for (unsigned i = 0; i < flag_count; i++) {
        const struct flag *flag = &flags[i];
        const struct options_setting *last = flag_setting(options, flag);
        if (flag->commands) {
            continue;
        }
        for (unsigned k = 0; last && flag->many && k < options->setting_count; k++) {
            if (options->settings[k].flag == flag) {
                add_setting(rows, options, &options->settings[k]);
            }
        }
        if (last && !flag->many) {
            add_setting(rows, options, last);
        } else if (!last && !add_proxies(rows, options, flag)) {
            const char *value = flag->fallback ? flag->fallback : flag->value ? "none" : "no";
            char size[24];
            add(rows, flag, value_in_force(options, flag, value, size), "default");
        }
    }
    return rows;
}

int print_effective(const struct options *options)
{
    json_auto_t *rows = effective_settings(options);
    const char *before = "";
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach (rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        (void)printf("%-20s%-29s %s\n", strcmp(name, before) == 0 ? "" : name,
                     json_string_value(json_object_get(row, "value")),
                     json_string_value(json_object_get(row, "source")));
        before = name;
    }
    return 0;
}
