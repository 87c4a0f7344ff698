/* sandpiper doctor --effective: each setting, and where its value comes from. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "tools/index_url.h"

/* A default that --help breaks into lines. */
static void print_line(const char *text, int width)
{
    int column = 0;
    for (; *text; text++, column++) {
        (void)putchar(*text == '\n' ? ' ' : *text);
    }
    (void)printf("%*s", column < width ? width - column : 1, "");
}

/* What was given, without a password that may be in it. */
static const char *shown_value(const struct flag *flag, const char *value, struct index_url *url)
{
    if (!flag->value) {
        return "yes";
    }
    if (!flag->is_url) {
        return value;
    }
    return index_url_parse(value, url) ? "(not valid)" : url->clean;
}

/* name: empty behind the first of several values. */
static void print_setting(const struct options *options, const char *name,
                          const struct options_setting *setting)
{
    struct index_url url = {};
    (void)printf("%-20s", name);
    print_line(shown_value(setting->flag, setting->value, &url), 30);
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
        if (flag->command_only) {
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
            print_line(flag->fallback ? flag->fallback : flag->value ? "none" : "no", 30);
            (void)puts("default");
        }
    }
    return fflush(stdout) == 0 ? 0 : 2;
}
