#pragma once
#include "cli/flags.h"

/* Takers of the flags of install_package, see flags.h. No complaint of theirs repeats a URL, which may
 * hold a password. */

/* on, ask, off. */
void install_take_mode(struct options *options, const struct flag *flag, const char *value);
/* The URL of an index: into a string, and into a list. */
void install_take_url(struct options *options, const struct flag *flag, const char *value);
void install_take_more_urls(struct options *options, const struct flag *flag, const char *value);
/* NAME[:PORT], into a list. */
void install_take_host(struct options *options, const struct flag *flag, const char *value);
/* A file or a folder that is there. */
void install_take_file(struct options *options, const struct flag *flag, const char *value);
/* Patterns, into a list. */
void install_take_words(struct options *options, const struct flag *flag, const char *value);
/* A requirement, into a list. */
void install_take_requirement(struct options *options, const struct flag *flag, const char *value);

/* What does not go together becomes options' trouble. */
void install_flags_settle(struct options *options);
