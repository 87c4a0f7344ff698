/* sandpiper doctor --effective: each setting, and the source of its value. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "tools/install/index_url.h"

/* Prints a default that --help breaks into lines as one line. */
static void print_line(const char *text, int width)
{
    int column = 0;
    for (; *text; text++, column++) {
        (void)putchar(*text == '\n' ? ' ' : *text);
    }
    (void)printf("%*s", column < width ? width - column : 1, "");
}

/* The value as it was given, without a password that may be in it. */
static const char *shown_value(const struct flag *flag, const char *value, struct index_url *url)
{
    if (!flag->value) {
        return "yes";
    }
    if (!flag->is_url) {
        return value;
    }
    return index_url_parse(value, url) ? "(invalid)" : url->clean;
}

/* A size in force may be less than the one that was given, as those around it bound it, and a
 * default may depend on the machine. Returns it as "768M", or value where it says the same or the
 * flag is no such size. */
static const char *value_in_force(const struct options *options, const struct flag *flag,
                                  const char *value, char out[24])
{
    bool is_memory = strcmp(flag->name, "memory") == 0;
    uint64_t bytes = 0;
    uint64_t in_force =
        is_memory ? options->spec.limits.memory_bytes : box_spec_disk_bytes(&options->spec);
    if ((!is_memory && strcmp(flag->name, "disk") != 0) ||
        (parse_size(value, &bytes) == 0 && bytes == in_force)) {
        return value;
    }
    unsigned long long mib = in_force >> 20;
    (void)snprintf(out, 24, "%llu%s", mib % 1024 ? mib : mib / 1024, mib % 1024 ? "M" : "G");
    return out;
}

/* name: empty after the first of several values. */
static void print_setting(const struct options *options, const char *name,
                          const struct options_setting *setting)
{
    struct index_url url = {};
    char size[24];
    const char *value = shown_value(setting->flag, setting->value, &url);
    const char *in_force = value_in_force(options, setting->flag, value, size);
    char reduced[128];
    if (in_force != value) {
        (void)snprintf(reduced, sizeof reduced, "%s, from %.90s", in_force, value);
        value = reduced;
    }
    (void)printf("%-20s", name);
    print_line(value, 30);
    if (setting->line) {
        (void)printf("%s:%u\n", options->config_file, setting->line);
    } else {
        (void)puts(setting->from_variable ? setting->flag->variable : "command line");
    }
}

int print_effective(const struct options *options)
{
    for (unsigned i = 0; i < flag_count; i++) {
        const struct flag *flag = &flags[i];
        const struct options_setting *last = flag_setting(options, flag);
        const char *name = flag->name;
        if (flag->commands) {
            continue;
        }
        for (unsigned k = 0; last && flag->many && k < options->setting_count; k++) {
            if (options->settings[k].flag == flag) {
                print_setting(options, name, &options->settings[k]);
                name = "";
            }
        }
        if (last && !flag->many) {
            print_setting(options, name, last);
        } else if (!last) {
            (void)printf("%-20s", name);
            const char *value = flag->fallback ? flag->fallback : flag->value ? "none" : "no";
            char size[24];
            print_line(value_in_force(options, flag, value, size), 30);
            (void)puts("default");
        }
    }
    return 0;
}
