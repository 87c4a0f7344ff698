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

int print_effective(const struct options *options)
{
    for (unsigned i = 0; i < flag_count; i++) {
        const struct options_setting *setting = &options->settings[i];
        const struct flag *flag = &flags[i];
        if (flag->command_only) {
            continue;
        }
        (void)printf("%-20s", flag->name);
        if (!setting->value) {
            print_line(flag->fallback ? flag->fallback : flag->value ? "none" : "no", 30);
            (void)puts("default");
        } else {
            struct index_url url = {};
            print_line(shown_value(flag, setting->value, &url), 30);
            if (setting->line) {
                (void)printf("%s:%u", options->config_file, setting->line);
            } else {
                (void)fputs(setting->from_variable ? flag->variable : "command line", stdout);
            }
            (void)(setting->before ? printf(" (and %u before it)\n", setting->before)
                                   : putchar('\n'));
        }
    }
    return fflush(stdout) == 0 ? 0 : 2;
}
