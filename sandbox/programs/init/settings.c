#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/programs/init/init.h"

enum { STRINGS = 192 };

/* Returns what follows. */
static struct sock_filter *cut_filter(struct sock_filter *filters, uint32_t count,
                                      struct sock_fprog *ret_program)
{
    *ret_program = (struct sock_fprog){.len = (unsigned short)count, .filter = filters};
    return filters + count;
}

/* Returns the string at *text and moves *text behind it. */
static char *cut_string(char **text)
{
    char *string = *text;
    *text += strlen(string) + 1;
    return string;
}

/* Makes a list of the strings at *text and moves *text behind them. */
static char **cut_strings(char **text, uint32_t count, char **list)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = cut_string(text);
    }
    list[count] = NULL;
    return list;
}

static void cut_all(struct init *init, char *bytes)
{
    static char *strings[STRINGS + 3];
    const struct wire_config *config = init->config;
    uint64_t *rights = (uint64_t *)(void *)(bytes + sizeof *config);
    struct sock_filter *filters = (struct sock_filter *)(void *)(rights + config->rule_count);
    filters = cut_filter(filters, config->filter_notified_count, &init->filter_notified);
    filters = cut_filter(filters, config->filter_uncounted_count, &init->filter_uncounted);
    filters = cut_filter(filters, config->filter_arguments_count, &init->filter_arguments);
    filters = cut_filter(filters, config->filter_names_count, &init->filter_names);
    char *text = (char *)filters;
    init->argv = cut_strings(&text, config->argc, strings);
    init->envp = cut_strings(&text, config->envc, strings + config->argc + 1);
    init->data = cut_strings(&text, config->datac, strings + config->argc + config->envc + 2);
    for (init->rule_count = 0; init->rule_count < config->rule_count; init->rule_count++) {
        init->rules[init->rule_count] =
            (struct landlock_rule){cut_string(&text), rights[init->rule_count]};
    }
    init->paths.work = cut_string(&text);
    init->paths.tmp = cut_string(&text);
    init->paths.staging = cut_string(&text);
    init->paths.egress = cut_string(&text);
    init->paths.output = cut_string(&text);
    for (unsigned i = 0; i < INIT_SCRATCH_DIRECTORIES; i++) {
        init->paths.scratch[i] = cut_string(&text);
    }
}

bool settings_load(struct init *init)
{
    struct stat st;
    if (fstat(WIRE_CONFIG_FD, &st) < 0 || st.st_size < (off_t)sizeof(struct wire_config)) {
        return false;
    }
    char *bytes =
        mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, WIRE_CONFIG_FD, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    (void)close(WIRE_CONFIG_FD);
    const struct wire_config *config = (const struct wire_config *)(void *)bytes;
    if (config->magic != WIRE_CONFIG_MAGIC ||
        config->argc + config->envc + config->datac > STRINGS || config->rule_count > INIT_RULES) {
        return false;
    }
    init->config = config;
    cut_all(init, bytes);
    return true;
}
