#include <errno.h>
#include <linux/limits.h>

#include "cli/config_file.h"
#include "cli/flags.h"

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
