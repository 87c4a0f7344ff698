#include "sandbox/trust/trust.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "sandbox/scratch.h"
#include "sandbox/types.h"

static const char usual_path[] = "/usr/local/bin:/usr/bin:/bin";
static const char shared_memory[] = "/dev/shm";

/* Without a mount namespace, code can make and write files there without listing them; see
 * allow_content() in plan_container.c. The plan does not offer it if the scratch directory lies in
 * it. */
static bool has_shared_memory(const struct box_spec *spec)
{
    return spec->scratch ? !path_behind(spec->scratch->path, shared_memory)
                         : spec->isolation == BOX_ISOLATION_CONTAINER ||
                               spec->isolation == BOX_ISOLATION_BEST;
}

unsigned trust_places(const struct box_spec *spec, struct trust_place places[TRUST_PLACES])
{
    unsigned count = 0;
    const char *const workspaces[] = {spec->workspace, spec->workspace_elsewhere};
    for (unsigned i = 0; i < 2; i++) {
        if (workspaces[i]) {
            places[count++] = (struct trust_place){workspaces[i], .workspace = true};
        }
    }
    for (unsigned i = 0; i < spec->mount_count; i++) {
        if (spec->mounts[i].writable) {
            places[count++] = (struct trust_place){spec->mounts[i].path, .workspace = false};
        }
    }
    for (unsigned i = 0; i < spec->aliases.count; i++) {
        places[count++] = (struct trust_place){spec->aliases.at[i], .alias = true};
    }
    if (spec->scratch) {
        places[count++] = (struct trust_place){spec->scratch->work, .workspace = false};
        places[count++] = (struct trust_place){spec->scratch->tmp, .workspace = false};
        places[count++] = (struct trust_place){spec->scratch->home, .workspace = false};
    }
    if (has_shared_memory(spec)) {
        places[count++] = (struct trust_place){shared_memory, .shared_memory = true};
    }
    return count;
}

struct trust_place trust_meets(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        if (overlap_enters(path, places[i].path)) {
            return places[i];
        }
    }
    return (struct trust_place){};
}

int trust_refuse(const char *what, const char *path, const struct trust_place *place,
                 const char *fix, struct fail *ret_fail)
{
    return fail_refuse(ret_fail, EPERM, "%s %.300s is in %s%.300s, where code can change it: %s",
                       what, path, place->workspace ? "the workspace " : "", place->path, fix);
}

int trust_check(const struct box_spec *spec, const char *what, const char *path, const char *fix,
                struct fail *ret_fail)
{
    struct trust_place place = trust_meets(spec, path);
    return place.path ? trust_refuse(what, path, &place, fix, ret_fail) : 0;
}

int trust_check_tree(const struct box_spec *spec, const char *what, const char *dir,
                     const char *fix, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        if (overlap_enters(places[i].path, dir)) {
            return fail_refuse(ret_fail, EPERM,
                               "%s %.300s contains %.300s, which code can write to: %s", what, dir,
                               places[i].path, fix);
        }
    }
    return trust_check(spec, what, dir, fix, ret_fail);
}

/* --- the server itself --- */

struct libraries {
    const struct box_spec *spec;
    struct fail *ret_fail;
};

static int check_library(struct dl_phdr_info *info, size_t, void *arg)
{
    const struct libraries *libraries = arg;
    return info->dlpi_name[0] == '/'
               ? trust_check(libraries->spec, "the server's library", info->dlpi_name,
                             "start it with libraries from another directory", libraries->ret_fail)
               : 0;
}

/* Entries are separated as in ld.so(8); an empty one in a list of directories is the current
 * directory. */
static int check_list(const struct box_spec *spec, const char *name, const char *separators,
                      bool directories, struct fail *ret_fail)
{
    const char *at = getenv(name);
    bool more = at && *at;
    int r = 0;
    while (more && r == 0) {
        char entry[PATH_MAX];
        char what[96];
        size_t size = strcspn(at, separators);
        (void)snprintf(entry, sizeof entry, "%.*s", (int)size, at);
        (void)snprintf(what, sizeof what, "the %sentry of %s,",
                       entry[0] ? "" : "empty (which means the current directory) ", name);
        if (directories || strchr(entry, '/')) {
            r = trust_check(spec, what, entry[0] ? entry : ".",
                            "start the server without that entry", ret_fail);
        }
        more = at[size];
        at += size + more;
    }
    return r;
}

int trust_check_self(const struct box_spec *spec, struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    char program[PATH_MAX];
    if (trust_places(spec, places) == 0) {
        return 0;
    }
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    program[size > 0 ? size : 0] = '\0';
    int r = program[0] == '/' ? trust_check(spec, "the server's own program", program,
                                            "install it in another directory", ret_fail)
                              : 0;
    if (r < 0 || getauxval(AT_BASE) == 0) {
        return r; /* a static program has no loader, getauxval(3) */
    }
    struct libraries libraries = {spec, ret_fail};
    r = dl_iterate_phdr(check_library, &libraries);
    r = r ? r : check_list(spec, "LD_LIBRARY_PATH", ":;", /* directories= */ true, ret_fail);
    r = r ? r : check_list(spec, "LD_AUDIT", ":", /* directories= */ false, ret_fail);
    return r ? r : check_list(spec, "LD_PRELOAD", ": ", /* directories= */ false, ret_fail);
}

/* --- programs --- */

void trust_path(const struct box_spec *spec, char *out, size_t size)
{
    const char *at = getenv("PATH");
    at = at && *at ? at : usual_path;
    out[0] = '\0';
    while (*at) {
        char entry[PATH_MAX];
        size_t length = strcspn(at, ":");
        if (length > 0 && length < sizeof entry && *at == '/') {
            (void)snprintf(entry, sizeof entry, "%.*s", (int)length, at);
            bool fits = strlen(out) + length + 2 <= size;
            if (fits && !trust_meets(spec, entry).path) {
                buf_extend(out, size, "%s%s", out[0] ? ":" : "", entry);
            }
        }
        at += length;
        at += *at == ':';
    }
}

bool trust_find_system_program(const struct box_spec *spec, const char *name, char *out)
{
    static const char *const dirs[] = {"/usr/bin", "/bin", "/run/current-system/sw/bin"};
    bool found = false;
    for (unsigned i = 0; i < sizeof dirs / sizeof *dirs && !found; i++) {
        struct stat st;
        int size = snprintf(out, PATH_MAX, "%s/%s", dirs[i], name);
        found = size < PATH_MAX && stat(out, &st) == 0 && S_ISREG(st.st_mode) &&
                access(out, X_OK) == 0 && !trust_meets(spec, out).path;
    }
    return found;
}
