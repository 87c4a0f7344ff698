/* Which folders --mount may show, looked at on this host: see mount.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/packages/packages.h"
#include "sandbox/plan/overlap.h"

enum { MOUNTINFO_BYTES = 1 << 20 };

/* A sentence of our own, to which errno would add nothing. */
static int refuse(struct fail *ret_fail, const char *dir, const char *why, const char *what)
{
    (void)fail_set(ret_fail, 0, "--mount %s: %s%s", dir, why, what);
    return -EPERM;
}

/* What the server keeps, or goes by when it is started again. */
struct own_place {
    const char *path; /* absolute; empty: nowhere */
    const char *name; /* in a sentence */
    bool around;      /* nor may a folder in it be shown */
    bool readable;    /* code may read it, but not write to it */
};

enum { OWN_PLACES = 5 };
struct own_places {
    struct own_place at[OWN_PLACES];
    char texts[OWN_PLACES][PATH_MAX];
};

static void find_own_places(const struct box_spec *spec, const struct box_mounts_wanted *wanted,
                            struct own_places *ret_places)
{
    struct own_places *places = ret_places;
    *places = (struct own_places){
        .at = {{places->texts[0], "the workspace", .around = true},
               {places->texts[1], "the folder of installed packages", .around = true},
               {places->texts[2], "the server's program", .readable = true},
               {places->texts[3], "the configuration file"},
               {places->texts[4], "the configuration file"}}};
    if (!spec->workspace || !realpath(spec->workspace, places->texts[0])) {
        places->texts[0][0] = '\0';
    }
    if (packages_path(spec, places->texts[1], NULL) < 0) {
        places->texts[1][0] = '\0';
    }
    ssize_t size = readlink("/proc/self/exe", places->texts[2], PATH_MAX - 1);
    places->texts[2][size > 0 ? size : 0] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        const char *path = wanted->config[i];
        char *text = places->texts[3 + i];
        bool relative = path && path[0] != '/';
        if (relative && !getcwd(text, PATH_MAX)) {
            text[0] = '\0';
        }
        size_t used = strlen(text);
        (void)snprintf(text + used, PATH_MAX - used, "%s%s", relative ? "/" : "", path ? path : "");
    }
}

static bool meet(const char *path, const char *folder, bool around)
{
    char rest[PATH_MAX];
    return overlap_of(path, folder, rest) != OVERLAP_NONE ||
           overlap_of_parent(path, folder, rest) != OVERLAP_NONE ||
           (around && overlap_of(folder, path, rest) != OVERLAP_NONE);
}

/* Of the ordinary user whom the server runs for; root can read all. */
static int judge_access(const struct box_mount *mount, struct fail *ret_fail)
{
    int mode = R_OK | X_OK | (mount->writable ? W_OK : 0);
    return faccessat(AT_FDCWD, mount->path, mode, AT_EACCESS) == 0
               ? 0
               : fail_set(ret_fail, errno, "--mount %s: it cannot be %s", mount->path,
                          mount->writable ? "written to" : "read");
}

static int judge(const struct box_spec *spec, const struct box_mount *mount,
                 const struct own_places *places, struct fail *ret_fail)
{
    for (unsigned i = 0; i < OWN_PLACES; i++) {
        const struct own_place *place = &places->at[i];
        if (place->path[0] && (mount->writable || !place->readable) &&
            meet(place->path, mount->path, place->around)) {
            return refuse(ret_fail, mount->path,
                          place->around ? "it holds or lies in " : "it holds ", place->name);
        }
    }
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *other = &spec->mounts[i];
        if (strcmp(other->name, mount->name) == 0) {
            return refuse(ret_fail, mount->path,
                          "another folder has this name already; say DIR:NAME instead of ",
                          mount->name);
        }
        /* Code could put a link in the place of the inner one, for the next sandbox to follow. */
        if ((other->writable || mount->writable) && meet(other->path, mount->path, true)) {
            return refuse(ret_fail, mount->path, "one that code may write to overlaps with ",
                          other->path);
        }
    }
    if (!box_mount_is_text(mount->path) || !box_mount_is_text(mount->name)) {
        return refuse(ret_fail, mount->path, "what is no plain text cannot be told to a model", "");
    }
    return judge_access(mount, ret_fail);
}

/* Takes a copy. */
static int add(struct box_spec *spec, const struct box_mount *mount,
               const struct own_places *places, struct fail *ret_fail)
{
    int r = judge(spec, mount, places, ret_fail);
    if (r < 0) {
        return r;
    }
    if (spec->mount_count == BOX_MOUNTS) {
        (void)fail_set(ret_fail, 0, "--mount shows at most %d folders; name the ones that matter",
                       BOX_MOUNTS);
        return -E2BIG;
    }
    struct box_mount *added = &spec->mounts[spec->mount_count++];
    *added = *mount;
    added->name = strdup(mount->name);
    added->path = strdup(mount->path);
    return added->name && added->path ? 0 : fail_set(ret_fail, ENOMEM, "--mount");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The home folder's own folders, each by itself: so no hidden one is in the view, also none that comes
 * later, where keys and passwords are kept. What cannot be shown is left out. */
static int add_home(struct box_spec *spec, const struct box_mount *home,
                    const struct own_places *places, struct fail *ret_fail)
{
    struct dirent **entries = NULL;
    int count = scandir(home->path, &entries, is_shown, by_name);
    int r = count < 0 ? fail_set(ret_fail, errno, "--mount %s", home->path) : 0;
    for (int i = 0; i < count; i++) {
        struct stat st;
        defer_free char *name = NULL;
        defer_free char *path = NULL;
        bool made = asprintf(&name, "%s/%s", home->name, entries[i]->d_name) >= 0 &&
                    asprintf(&path, "%s/%s", home->path, entries[i]->d_name) >= 0;
        if (made && r == 0 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            const struct box_mount mount = {name, path, st.st_uid, st.st_gid, .writable = false};
            int added = add(spec, &mount, places, ret_fail);
            r = added == -E2BIG || added == -ENOMEM ? added : 0;
        }
        free(entries[i]);
    }
    free(entries);
    return r;
}

/* "~" too: a host's configuration has no shell that would replace it. */
static char *resolve(const char *dir, const char *home)
{
    defer_free char *below = NULL;
    bool in_home = dir[0] == '~' && (dir[1] == '/' || dir[1] == '\0') && home[0];
    if (!in_home) {
        return realpath(dir, NULL);
    }
    return asprintf(&below, "%s%s", home, dir + 1) >= 0 && below ? realpath(below, NULL) : NULL;
}

/* The last part of what the user wrote, or of where that leads. */
static const char *default_name(char *dir, const char *path)
{
    size_t size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/') {
        dir[--size] = '\0';
    }
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    bool plain = strspn(name, ".") < strlen(name) && strcmp(name, "~") != 0;
    return plain ? name : strrchr(path, '/') + 1;
}

/* Whether the home folder itself is meant is left to say. */
static int judge_home(const char *path, const char *home, bool writable, bool may_home,
                      struct fail *ret_fail)
{
    bool is_home = strcmp(path, home) == 0;
    if (is_home && !may_home) {
        return refuse(ret_fail, path,
                      "that is your home folder, with all keys and passwords in it; name a folder "
                      "in it, or say --mount-home as well",
                      "");
    }
    if (is_home && writable) {
        return refuse(ret_fail, path, "the home folder is shown read-only; name a folder in it",
                      "");
    }
    if (!is_home && overlap_behind(home, path)) {
        return refuse(ret_fail, path, "your home folder is in it; name the folder with the data",
                      "");
    }
    return 0;
}

static int find_folder(const char *dir, const char *home, char **ret_path, struct stat *ret_stat)
{
    defer_free char *path = resolve(dir, home);
    if (!path || stat(path, ret_stat) < 0) {
        return -errno;
    }
    if (!S_ISDIR(ret_stat->st_mode)) {
        return -ENOTDIR;
    }
    *ret_path = take_ptr(path);
    return 0;
}

/* home: empty where it is not known. */
static int add_wanted(struct box_spec *spec, const char *text, bool may_home, const char *home,
                      const struct own_places *places, struct fail *ret_fail)
{
    struct box_mount mount = {};
    struct stat st;
    const char *dir = NULL;
    const char *name = NULL;
    defer_free char *path = NULL;
    defer_free char *words = strdup(text);
    if (!words) {
        return fail_set(ret_fail, ENOMEM, "--mount");
    }
    int r = box_mount_split(words, &dir, &name, &mount.writable, ret_fail);
    if (r < 0) {
        return r;
    }
    r = find_folder(dir, home, &path, &st);
    if (r < 0 || !path) {
        return fail_set(ret_fail, -r, "--mount %s (DIR[:NAME][:rw])", text);
    }
    if (strcmp(path, "/") == 0) {
        return refuse(ret_fail, path, "that is all of this machine; name the folder with the data",
                      "");
    }
    r = home[0] ? judge_home(path, home, mount.writable, may_home, ret_fail) : 0;
    if (r < 0) {
        return r;
    }
    mount.name = name ? name : default_name(words + (dir - words), path);
    mount.path = path;
    mount.uid = st.st_uid;
    mount.gid = st.st_gid;
    return strcmp(path, home) == 0 ? add_home(spec, &mount, places, ret_fail)
                                   : add(spec, &mount, places, ret_fail);
}

int box_mounts_judge_now(const struct box_spec *spec, struct fail *ret_fail)
{
    defer_free char *text = spec->mount_count > 0 ? malloc(MOUNTINFO_BYTES) : NULL;
    if (spec->mount_count == 0) {
        return 0;
    }
    int r =
        text ? fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_BYTES) : -ENOMEM;
    return r < 0 ? fail_set(ret_fail, -r, "what is mounted")
                 : box_mounts_judge(spec, text, ret_fail);
}

int box_mounts_settle(struct box_spec *spec, const struct box_mounts_wanted *wanted,
                      struct fail *ret_fail)
{
    const char *variable = getenv("HOME");
    char home[PATH_MAX];
    if (wanted->count == 0) {
        return 0;
    }
    defer_free struct own_places *places = malloc(sizeof *places);
    if (!places) {
        return fail_set(ret_fail, ENOMEM, "--mount");
    }
    if (!variable || variable[0] != '/' || !realpath(variable, home)) {
        home[0] = '\0';
    }
    find_own_places(spec, wanted, places);
    spec->mount_count = 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < wanted->count; i++) {
        r = add_wanted(spec, wanted->at[i], wanted->home, home, places, ret_fail);
    }
    r = r ? r : box_mounts_judge_now(spec, ret_fail);
    if (r < 0) {
        box_mounts_done(spec);
    }
    return r;
}

void box_mounts_done(struct box_spec *spec)
{
    for (unsigned i = 0; i < spec->mount_count; i++) {
        free((void *)(uintptr_t)spec->mounts[i].name);
        free((void *)(uintptr_t)spec->mounts[i].path);
    }
    spec->mount_count = 0;
}
