#pragma once
#include "cli/options.h"

/* The flags, a row each: what getopt_long(3) needs, what --help shows, and who takes the value. */

struct flag {
    const char *name;     /* without the dashes */
    const char *value;    /* what it takes, in the words of --help; NULL: nothing */
    const char *help;     /* may have several lines */
    const char *fallback; /* what holds without it, or NULL */
    /* Tells what is wrong with value by options_trouble(). */
    void (*take)(struct options *options, const struct flag *flag, const char *value);
    size_t field;         /* offset in struct options, for takers that serve several flags */
    uint64_t bound;       /* the least of a size; the most of seconds, in milliseconds */
    const char *variable; /* of the environment, which says the same, or NULL */
    bool many;            /* may be given several times, and all count */
    bool is_url;          /* may hold credentials: is shown without them */
    bool command_only;    /* says what one command does: not for a configuration file */
};

extern const struct flag flags[];
extern const unsigned flag_count; /* at most OPTIONS_FLAGS */

/* NULL when there is none with this name. */
const struct flag *flag_find(const char *name);

/* The last one, which counts unless the flag may be given several times; NULL: there is none. */
const struct options_setting *flag_setting(const struct options *options, const struct flag *flag);

/* value: ignored by a flag that takes none. */
void flag_take(struct options *options, const struct flag *flag, const char *value);

/* Keeps the first mistake, with its place in the configuration file: that is the one which is told. */
__attribute__((format(printf, 2, 3))) void options_trouble(struct options *options, const char *fmt,
                                                           ...);
