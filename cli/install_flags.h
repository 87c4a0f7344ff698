#pragma once
#include "cli/flags.h"

/* Takers of the flags of install_package, see flags.h. Their error messages never repeat a URL,
 * which may hold a password. */

/* on, ask, off. */
void install_take_mode(struct options *options, const struct flag *flag, const char *value);
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
