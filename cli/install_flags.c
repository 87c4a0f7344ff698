#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "cli/flags.h"
#include "tools/install/install_request.h"

void install_take_words(struct options *options, const struct flag *flag, const char *value)
{
    struct install_words *words = field_of(options, flag);
    if (words->count == INSTALL_WORDS) {
        options_error(options, "--%s can be given at most %d times", flag->name, INSTALL_WORDS);
    } else {
        words->at[words->count++] = value;
    }
}

static bool is_url(struct options *options, const struct flag *flag, const char *value)
{
    struct index_url url = {};
    const char *wrong = index_url_parse(value, &url);
    if (wrong) {
        options_error(options, "--%s: %s", flag->name, wrong);
    }
    return !wrong;
}

void install_take_url(struct options *options, const struct flag *flag, const char *value)
{
    if (is_url(options, flag, value)) {
        *(const char **)field_of(options, flag) = value;
    }
}

void install_take_more_urls(struct options *options, const struct flag *flag, const char *value)
{
    if (is_url(options, flag, value)) {
        install_take_words(options, flag, value);
    }
}

void install_take_host(struct options *options, const struct flag *flag, const char *value)
{
    struct egress_policy policy = {};
    struct fail fail = {};
    if (egress_policy_add(&policy, value, &fail) < 0) {
        options_error(options, "--%s: %.300s", flag->name, fail.text);
    } else {
        install_take_words(options, flag, value);
    }
}

void install_take_file(struct options *options, const struct flag *flag, const char *value)
{
    if (access(value, R_OK) < 0) {
        options_error(options, "--%s %.200s: %m", flag->name, value);
    } else {
        *(const char **)field_of(options, flag) = value;
    }
}

void install_take_requirement(struct options *options, const struct flag *flag, const char *value)
{
    char name[REQUIREMENT_NAME_BYTES];
    char why[REQUIREMENT_TEXT_BYTES];
    if (requirement_check(value, strlen(value), name, why)) {
        options_error(options, "--%s: %s", flag->name, why);
    } else {
        install_take_words(options, flag, value);
    }
}

void install_flags_resolve(struct options *options)
{
    const struct install_config *config = &options->install;
    if (config->mode == INSTALL_OFF && (config->preinstall.count > 0 || config->auto_install)) {
        options_error(options, "--%s cannot be combined with --install off",
                      config->auto_install ? "auto-install" : "preinstall");
    }
    if (config->mode == INSTALL_ASK && config->auto_install) {
        options_error(
            options,
            "--auto-install installs without asking: it cannot be combined with --install ask");
    }
    if (config->no_index && (config->index_url || config->extra_index_urls.count > 0)) {
        options_error(options,
                      "--no-index cannot be combined with --index-url or --extra-index-url");
    }
    options->spec.packages = config->mode != INSTALL_OFF;
}
