#include "cli/mount_flags.h"

#include <linux/limits.h>

#include "cli/config_file.h"

void mount_take(struct options *options, const struct flag *flag, const char *value)
{
    struct box_mounts_wanted *mounts = &options->mounts;
    if (mounts->count == BOX_MOUNTS) {
        options_trouble(options, "--%s can be given %d times at most", flag->name, BOX_MOUNTS);
    } else {
        mounts->at[mounts->count++] = value;
    }
}

void mount_flags_settle(struct options *options, const char *config)
{
    char place[PATH_MAX];
    struct fail fail = {};
    char text[FAIL_TEXT + 128];
    options->mounts.config[0] = config_file_place(place, sizeof place) ? place : NULL;
    options->mounts.config[1] = config;
    if (options->trouble[0]) {
        return;
    }
    if (box_mounts_settle(&options->spec, &options->mounts, &fail) < 0) {
        options_trouble(options, "%.500s", fail_describe(&fail, text, sizeof text));
    }
    options->mounts.config[0] = NULL; /* it was ours */
}
