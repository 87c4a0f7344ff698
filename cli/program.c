#include "cli/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/path.h"
#include "cli/options.h"

/* The sandbox's path of a host's real path, or an empty string. */
static void find_in_sandbox(const struct box_spec *spec, const char *path, char out[PATH_MAX])
{
    const char *rest = spec->workspace ? path_behind(path, spec->workspace) : NULL;
    out[0] = '\0';
    if (rest) {
        (void)snprintf(out, PATH_MAX, "%s%s%s", spec->paths.work, *rest ? "/" : "", rest);
    }
    for (unsigned i = 0; i < spec->mount_count && !out[0]; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        rest = path_behind(path, mount->path);
        if (rest && spec->paths.data) {
            (void)snprintf(out, PATH_MAX, "%s/%s%s%s", spec->paths.data, mount->name,
                           *rest ? "/" : "", rest);
        } else if (rest) {
            (void)snprintf(out, PATH_MAX, "%s", path);
        }
    }
}

static int append_argument(struct program *program, const char *argument)
{
    return buf_append(&program->argv, argument, strlen(argument) + 1);
}

int program_locate(struct program *program, const struct options *options)
{
    const struct box_spec *spec = &options->spec;
    const char *file = options->file;
    const char *first = options->code ? "-c" : file;
    defer_free char *here = realpath(".", NULL);
    if (here) {
        find_in_sandbox(spec, here, program->directory);
    }
    if (!options->code && strcmp(file, "-") != 0) {
        defer_free char *path = realpath(file, NULL);
        if (!path) {
            return -errno;
        }
        find_in_sandbox(spec, path, program->file);
        if (!program->file[0]) {
            (void)snprintf(program->file, sizeof program->file, "%s/%s",
                           spec->workspace ? spec->paths.tmp : spec->paths.work, path_last(file));
        }
        first = program->file;
    }
    int r = append_argument(program, first);
    for (int i = 0; r == 0 && i < options->argc; i++) {
        r = append_argument(program, options->argv[i]);
    }
    program->run = (struct run_program){.argv = buf_bytes(&program->argv),
                                        .argv_size = buf_size(&program->argv),
                                        .file = program->file,
                                        .directory = program->directory};
    return r;
}

void program_done(struct program *program)
{
    buf_done(&program->argv);
}
