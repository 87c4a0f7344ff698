#include "tools/servers/tool_start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "tools/servers/grants.h"
#include "tools/servers/tools_file.h"

enum { ENVIRONMENT = 128, ARGUMENTS = 254 };

struct environment {
    const char *all[ENVIRONMENT + 1];
    char *made[ENVIRONMENT];
    size_t count;
};

static void add_variable(struct environment *environment, const char *name, const char *value)
{
    char *made = NULL;
    if (value && environment->count < ENVIRONMENT && asprintf(&made, "%s=%s", name, value) >= 0) {
        environment->made[environment->count] = made;
        environment->all[environment->count++] = made;
    }
}

/* What SDKs of clients pass on, and env. */
static void fill_environment(const struct tool_start *start, struct environment *environment)
{
    static const char *const names[] = {"HOME", "LOGNAME", "SHELL", "TERM", "USER"};
    json_t *env = (json_t *)(uintptr_t)start->entry->env; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    char path[PATH_MAX];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_object_get(env, names[i])) {
            add_variable(environment, names[i], getenv(names[i]));
        }
    }
    box_program_search_path(start->spec, path, sizeof path);
    if (!json_object_get(env, "PATH")) {
        add_variable(environment, "PATH", path);
    }
    json_object_foreach (env, key, value) {
        add_variable(environment, key, json_string_value(value));
    }
}

int tool_start(const struct tool_start *start, struct box_program **ret_program, int ret_fds[3],
               struct fail *ret_fail)
{
    const struct tool_entry *entry = start->entry;
    const char *directory = tool_entry_directory(entry);
    const char *argv[ARGUMENTS + 2] = {entry->command};
    char path[PATH_MAX];
    struct environment environment = {};
    size_t count = json_array_size(entry->args);
    if (count > ARGUMENTS) {
        return fail_set(ret_fail, 0, "has more than 254 args"), -E2BIG;
    }
    for (size_t i = 0; i < count; i++) {
        argv[i + 1] = json_string_value(json_array_get(entry->args, i));
    }
    int r = box_program_find(start->spec, entry->command, directory, path, ret_fail);
    r = r ? r : box_program_check(start->spec, directory, argv, ret_fail);
    if (r < 0) {
        return r;
    }
    fill_environment(start, &environment);
    const struct box_program_request request = {path,      argv,           environment.all,
                                                directory, start->on_exit, start->arg};
    r = box_program_start(start->loop, &request, ret_program, ret_fds, ret_fail);
    for (size_t i = 0; i < environment.count; i++) {
        free(environment.made[i]);
    }
    return r;
}
