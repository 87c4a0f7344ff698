#pragma once
#include "cli/options.h"

/* The flags, a row each: what getopt_long(3) needs, what --help shows, and what takes the value. */

struct flag {
    const char *name;     /* without the dashes */
    const char *value;    /* its value's name in --help; NULL: it takes none */
    const char *help;     /* may have several lines */
    const char *fallback; /* the default, or NULL */
    /* Reports a wrong value by options_error(). */
    void (*take)(struct options *options, const struct flag *flag, const char *value);
    size_t field;         /* offset in struct options, for takers that serve several flags */
    uint64_t bound;       /* the least size; the most of a number, and of seconds, in ms */
    uint64_t least;       /* for a number */
    const char *words;    /* "a, b or c" of an enum, in its order */
    const char *variable; /* of the environment, with the same meaning, or NULL */
    bool many;            /* may be given several times, and all count */
    bool is_url;          /* may hold credentials, which are not shown */
    bool is_path;         /* from the current directory, unless it is absolute */
    bool is_common;       /* -h shows it too */
    bool only_serves;     /* changes nothing for `run` and `call`, which refuse it */
    /* Comma-separated: an option of these commands, "": of all; not for a configuration file. NULL:
     * a setting. */
    const char *commands;
};

/* What a taker that serves several flags sets. */
static inline void *field_of(struct options *options, const struct flag *flag)
{
    return (char *)options + flag->field;
}

extern const struct flag flags[];
extern const unsigned flag_count; /* at most OPTIONS_FLAGS */

/* NULL when there is none with this name. */
const struct flag *flag_find(const char *name);

/* The position of value among words, "a, b or c"; -1: it is none of them. */
int flag_find_choice(const char *words, const char *value);

/* The last setting, which counts unless the flag may be given several times; NULL: there is
 * none. */
const struct options_setting *flag_setting(const struct options *options, const struct flag *flag);

/* Whether the command refuses the flag on its line, because it would change nothing. */
bool flag_is_refused(const struct flag *flag, enum command command);

/* value: ignored by a flag that takes none. */
void flag_take(struct options *options, const struct flag *flag, const char *value);

/* Keeps the first mistake, with its place in the configuration file; only that one is reported. */
__attribute__((format(printf, 2, 3))) void options_error(struct options *options, const char *fmt,
                                                         ...);

/* --- takers in files of their own --- */

/* install_flags.c: of install_package. Their error messages never repeat a URL, which may hold a
 * password. */

/* The URL of an index, into a string or into a list. */
void install_take_url(struct options *options, const struct flag *flag, const char *value);
void install_take_more_urls(struct options *options, const struct flag *flag, const char *value);
/* NAME[:PORT], into a list. */
void install_take_host(struct options *options, const struct flag *flag, const char *value);
/* An existing file or directory. */
void install_take_file(struct options *options, const struct flag *flag, const char *value);
/* Patterns, into a list. */
void install_take_words(struct options *options, const struct flag *flag, const char *value);
/* A requirement, into a list. */
void install_take_requirement(struct options *options, const struct flag *flag, const char *value);

/* Reports settings that contradict each other as options' error. */
void install_flags_resolve(struct options *options);

/* --- proxy_flags.c --- */

/* A proxy's URL or "off", and the list of what goes without it. */
void proxy_take(struct options *options, const struct flag *flag, const char *value);
void proxy_take_direct(struct options *options, const struct flag *flag, const char *value);

/* Finds the upstream proxies, once all flags are known. */
void proxy_resolve(struct options *options);

/* Overwrites the password of a URL on the command line, which ps(1) shows to everybody. Returns a
 * copy from before, which is never freed. */
char *proxy_hide(char *value);

bool proxy_has_password(const char *url);

/* The URL of --proxy without its password. Returns out, or another text. */
const char *proxy_show(const char *url, char *out, size_t size);

/* For doctor: the upstream proxies, and whether they lead to the hosts of indexes and of
 * --allow-host. Returns how many facts these are, at most PROXY_FACTS. */
enum { PROXY_FACTS = EGRESS_TRIES + EGRESS_KINDS };
unsigned proxy_facts(const struct options *options, const struct box_spec *spec,
                     struct box_fact *facts);

/* Warns of what works otherwise than the user may think. */
void proxy_warn(const struct options *options);

/* --- ca_flags.c --- */

/* A file of certificates, into a list. */
void ca_take(struct options *options, const struct flag *flag, const char *value);

/* Finds the certificates of this machine, and adds those of the flag and of the variables with
 * which users tell other programs. */
void ca_resolve(struct options *options);

/* --- config_file.c --- */

/* Takes the settings of a configuration file: lines of "name = value" with the names of the flags,
 * "yes" or "no" for flags without a value, comments after "#" at the beginning of a line. The first
 * mistake becomes options' error, with file and line. path: NULL for the usual place, which may be
 * empty: $XDG_CONFIG_HOME/sandpiper/config, else $HOME/.config/sandpiper/config. */
void config_file_read(struct options *options, const char *path);

/* That place. False: there is none. */
bool config_file_place(char *path, size_t size);
