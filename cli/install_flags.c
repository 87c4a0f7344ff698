#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "tools/install/index_url.h"
#include "tools/install/requirement.h"

void mount_take(struct options *options, const struct flag *flag, const char *value)
{
    struct box_mounts_wanted *mounts = &options->mounts;
    if (mounts->count == BOX_MOUNTS) {
        options_error(options, "--%s can be given at most %d times", flag->name, BOX_MOUNTS);
    } else {
        mounts->at[mounts->count++] = value;
    }
}

/* Checks that no writable mount contains the server's own settings, now and at its next start: code
 * must not be able to change it. */
static int check_trusted(struct options *options, const char *place, const char *config,
                         struct fail *ret_fail)
{
    static const char move[] = "move it where code cannot write";
    const struct install_config *install = &options->install;
    const struct box_trusted files[] = {
        {"the configuration file", config, move, .is_tree = false},
        {"the configuration file", place, move, .is_tree = false},
        {"the constraint file", install->constraint, move, .is_tree = false},
        {"the certificate file", install->index_cert, move, .is_tree = false},
        {"the directory of wheels", install->find_links, move, .is_tree = true},
        {"the store", options->spec.cow_store, "name another directory with --cow-store",
         .is_tree = true},
        {"the directory of records", options->record.directory,
         "name another directory with --record", .is_tree = true},
    };
    return box_trust_check(&options->spec, files, sizeof files / sizeof *files, ret_fail);
}

static int resolve_record(struct options *options, struct fail *ret_fail)
{
    static char path[PATH_MAX];
    struct record_config *record = &options->record;
    if (!record->directory && record->required) {
        (void)fail_set(ret_fail, 0, "--record-required needs the directory of --record");
        return -EINVAL;
    }
    if (!record->directory) {
        return 0;
    }
    int r = box_record_resolve(&options->spec, record->directory, path, ret_fail);
    record->directory = path;
    return r ? r : record_check(path, ret_fail);
}

void mount_flags_resolve(struct options *options, const char *config)
{
    static char workspace[PATH_MAX];
    static char store[PATH_MAX];
    char place[PATH_MAX];
    struct fail fail = {};
    if (options->error[0]) {
        return;
    }
    options->mounts.config[0] = config_file_place(place, sizeof place) ? place : NULL;
    options->mounts.config[1] = config;
    int r = box_workspace_resolve(&options->spec, workspace, &fail);
    r = r ? r : box_cow_resolve(&options->spec, store, &fail);
    r = r ? r : box_mounts_resolve(&options->spec, &options->mounts, &fail);
    r = r ? r : resolve_record(options, &fail);
    r = r ? r : check_trusted(options, options->mounts.config[0], config, &fail);
    if (r < 0) {
        options_error(options, "%.500s", fail_text(&fail));
    }
    options->mounts.config[0] = NULL; /* it was this process's */
}

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
