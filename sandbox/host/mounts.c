#include "sandbox/host/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/word.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/scratch.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

/* Removes ":word" from the end of text, if it is there. */
static bool take_word(char *text, const char *word)
{
    size_t size = strlen(text);
    size_t length = strlen(word);
    bool found = size > length + 1 && strcmp(text + size - length, word) == 0 &&
                 text[size - length - 1] == ':';
    if (found) {
        text[size - length - 1] = '\0';
    }
    return found;
}

bool box_mount_is_text(const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        int size = utf8_size(text, (size_t)(end - text));
        if (size < 0 || (unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
        text += size;
    }
    return true;
}

/* Whoever means a mode would get a name, and no word of it. */
static const char *const misspelt[] = {"rx", "w", "wr", "rwx", "RO", "RW", NULL};

int box_mount_split(char *text, const char **ret_dir, const char **ret_name, bool *ret_writable,
                    struct fail *ret_fail)
{
    *ret_writable = take_word(text, "rw");
    if (!*ret_writable) {
        (void)take_word(text, "ro"); /* the default; with it a directory can have the name rw */
    }
    char *colon = strrchr(text, ':');
    /* A colon before a slash belongs to the directory's path. */
    *ret_name = colon && !strchr(colon, '/') ? colon + 1 : NULL;
    if (*ret_name) {
        *colon = '\0';
    }
    *ret_dir = text;
    const char *name = *ret_name;
    const char *why = NULL;
    if (!*text) {
        why = "the directory is missing";
    } else if (name && (strspn(name, ".") == strlen(name) || strlen(name) > NAME_MAX)) {
        why = "NAME is invalid";
    } else if (name && parse_is_among(name, misspelt)) {
        why = "NAME looks like a misspelt :rw";
    } else if (!box_mount_is_text(text) || (name && !box_mount_is_text(name))) {
        why = "path is not printable text";
    }
    return why ? fail_refuse(ret_fail, EINVAL, "--mount takes DIR[:NAME][:rw]: %s", why) : 0;
}

/* --- kernel file systems below --- */

/* File systems that show the kernel and its processes, or give access to their descriptors. */
static const char *const kernel_types[] = {
    "proc",       "sysfs",      "cgroup",  "cgroup2",     "devtmpfs", "devpts",
    "securityfs", "selinuxfs",  "smackfs", "debugfs",     "tracefs",  "bpf",
    "configfs",   "efivarfs",   "pstore",  "binfmt_misc", "fusectl",  "mqueue",
    "nsfs",       "rpc_pipefs", "nfsd",    NULL,
};

struct shown {
    const char *flag;
    const char *path;
    const char *around; /* type of the file system that holds it */
    size_t deepest;     /* length of that file system's mount point */
};

static int refuse_shown(struct fail *ret_fail, const struct shown *shown, const char *type,
                        const char *why)
{
    return fail_refuse(ret_fail, EPERM, "%s %s: %s%s", shown->flag, shown->path, why, type);
}

static unsigned list_shown(const struct box_spec *spec, struct shown shown[BOX_MOUNTS + 1])
{
    unsigned count = 0;
    for (; count < spec->mount_count; count++) {
        shown[count] = (struct shown){.flag = "--mount", .path = spec->mounts[count].path};
    }
    if (spec->workspace) {
        shown[count++] = (struct shown){.flag = "--workspace", .path = spec->workspace};
    }
    return count;
}

/* The last of the mounts above a directory is the one that holds it. Changes text. */
static int check_lines(const struct box_spec *spec, char *text, struct fail *ret_fail)
{
    struct shown shown[BOX_MOUNTS + 1];
    unsigned count = list_shown(spec, shown);
    struct parsed_mount mount;
    while (parse_mount(&text, &mount)) {
        for (unsigned i = 0; i < count; i++) {
            size_t size = strlen(mount.point);
            if (path_behind(shown[i].path, mount.point) && size >= shown[i].deepest) {
                shown[i].deepest = size;
                shown[i].around = mount.type;
            } else if (path_behind(mount.point, shown[i].path) &&
                       parse_is_among(mount.type, kernel_types)) {
                return refuse_shown(ret_fail, &shown[i], mount.type,
                                    "it contains a kernel file system: ");
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (shown[i].around && parse_is_among(shown[i].around, kernel_types)) {
            return refuse_shown(ret_fail, &shown[i], shown[i].around,
                                "it is a kernel file system: ");
        }
    }
    return 0;
}

const char *box_mounts_below(char **at, const char *dir)
{
    struct parsed_mount mount;
    while (parse_mount(at, &mount)) {
        const char *below = path_behind(mount.point, dir);
        if (below && *below) {
            return mount.point;
        }
    }
    return NULL;
}

int box_mounts_check(const struct box_spec *spec, const char *mountinfo, struct fail *ret_fail)
{
    char *text = strdup(mountinfo);
    int r = text ? check_lines(spec, text, ret_fail) : fail_set(ret_fail, ENOMEM, "--mount");
    free(text);
    return r;
}

/* Checks which host directories --mount may show: see mounts.h. */

/* A message to which errno would add nothing. */
static int refuse(struct fail *ret_fail, const char *dir, const char *why, const char *what)
{
    return fail_refuse(ret_fail, EPERM, "--mount %s: %s%s", dir, why, what);
}

/* What the server writes, or reads at its next start. */
struct own_place {
    const char *path; /* empty: nowhere */
    const char *name; /* for messages */
    bool around;      /* its subdirectories may not be shown either */
};

enum { OWN_PLACES = 5 };
struct own_places {
    struct own_place at[OWN_PLACES];
    char texts[2][PATH_MAX];
};

/* The package directory's path, whether it exists or not. 0 or -errno */
static int cache_path(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    char parent[PATH_MAX] = "";
    const char *name = NULL;
    int r = cache_place(spec, parent, &name, ret_fail);
    if (r == 0 && snprintf(path, PATH_MAX, "%s/%s", parent[1] ? parent : "", name) >= PATH_MAX) {
        r = fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
    }
    return r;
}

static void find_own_places(const struct box_spec *spec, const struct box_mounts_wanted *wanted,
                            struct own_places *ret_places)
{
    struct own_places *places = ret_places;
    *places = (struct own_places){
        .at = {{places->texts[0], "the workspace", .around = true},
               {places->texts[1], "the directory of installed packages", .around = true},
               {wanted->config[0] ? wanted->config[0] : "", "the configuration file"},
               {wanted->config[1] ? wanted->config[1] : "", "the configuration file"},
               {spec->cow_store ? spec->cow_store : "", "the directory of --cow-store",
                .around = true}}};
    if (!spec->workspace || !realpath(spec->workspace, places->texts[0])) {
        places->texts[0][0] = '\0';
    }
    if (cache_path(spec, places->texts[1], NULL) < 0) {
        places->texts[1][0] = '\0';
    }
}

static bool meet(const char *path, const char *directory, bool around)
{
    return around ? overlap_between(path, directory) : overlap_enters(path, directory);
}

/* With the rights of the ordinary user for whom the server runs; root can read everything. */
static int check_access(const struct box_mount *mount, struct fail *ret_fail)
{
    int mode = R_OK | X_OK | (mount->writable ? W_OK : 0);
    return faccessat(AT_FDCWD, mount->path, mode, AT_EACCESS) == 0
               ? 0
               : fail_set(ret_fail, errno, "--mount %s: cannot be %s", mount->path,
                          mount->writable ? "written to" : "read");
}

static int check(const struct box_spec *spec, const struct box_mount *mount,
                 const struct own_places *places, struct fail *ret_fail)
{
    for (unsigned i = 0; i < OWN_PLACES; i++) {
        const struct own_place *place = &places->at[i];
        if (place->path[0] && meet(place->path, mount->path, place->around)) {
            return refuse(ret_fail, mount->path, place->around ? "it overlaps " : "it contains ",
                          place->name);
        }
    }
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *other = &spec->mounts[i];
        if (strcmp(other->name, mount->name) == 0) {
            return refuse(ret_fail, mount->path,
                          "another directory already has this name; use DIR:NAME instead of ",
                          mount->name);
        }
        /* Code could replace the inner directory by a symlink, which the next sandbox would
         * follow. */
        if ((other->writable || mount->writable) && meet(other->path, mount->path, true)) {
            return refuse(ret_fail, mount->path, "a writable directory overlaps ", other->path);
        }
    }
    if (!box_mount_is_text(mount->path) || !box_mount_is_text(mount->name)) {
        return refuse(ret_fail, mount->path, "path is not printable text", "");
    }
    return check_access(mount, ret_fail);
}

/* Adds a copy. */
static int add(struct box_spec *spec, const struct box_mount *mount,
               const struct own_places *places, struct fail *ret_fail)
{
    int r = check(spec, mount, places, ret_fail);
    if (r < 0) {
        return r;
    }
    if (spec->mount_count == BOX_MOUNTS) {
        return fail_refuse(
            ret_fail, E2BIG,
            "--mount accepts at most %d directories; name only those that are needed", BOX_MOUNTS);
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

/* The directories of the home directory, one by one: so no hidden one is shown, where keys and
 * passwords are kept, not even one that is made later. Leaves out what cannot be shown. */
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
        struct fail is_store = {};
        if (made && r == 0 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
            directory_check_stores("--mount", path, &is_store) == 0) {
            const struct box_mount mount = {name, path, st.st_uid, st.st_gid, .writable = false};
            int added = add(spec, &mount, places, ret_fail);
            r = added == -E2BIG || added == -ENOMEM ? added : 0;
        }
        free(entries[i]);
    }
    free(entries);
    return r;
}

/* The last component of the user's text, or of the real path. */
static const char *default_name(char *dir, const char *path)
{
    size_t size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/') {
        dir[--size] = '\0';
    }
    const char *name = path_last(dir);
    bool plain = strspn(name, ".") < strlen(name) && strcmp(name, "~") != 0;
    return plain ? name : strrchr(path, '/') + 1;
}

/* --mount-home shows the home directory read-only. */
static int check_directory(const char *path, bool writable, bool may_home, struct fail *ret_fail)
{
    if (directory_is_home(path) && !writable && !may_home) {
        return refuse(ret_fail, path,
                      "it is the home directory, with keys and passwords; name a directory "
                      "in it, or add --mount-home",
                      "");
    }
    int r = directory_check("--mount", path, writable, ret_fail);
    return r ? r : directory_check_stores("--mount", path, ret_fail);
}

/* words: cut at its parts. */
static int add_words(struct box_spec *spec, char *words, bool may_home,
                     const struct own_places *places, struct fail *ret_fail)
{
    struct box_mount mount = {};
    struct stat st;
    const char *dir = NULL;
    const char *name = NULL;
    char path[PATH_MAX];
    int r = box_mount_split(words, &dir, &name, &mount.writable, ret_fail);
    if (r < 0) {
        return r;
    }
    r = directory_find("--mount", dir, path, &st, ret_fail);
    r = r ? r : check_directory(path, mount.writable, may_home, ret_fail);
    if (r < 0) {
        return r;
    }
    mount.name = name ? name : default_name(words + (dir - words), path);
    mount.path = path;
    mount.uid = st.st_uid;
    mount.gid = st.st_gid;
    return directory_is_home(path) ? add_home(spec, &mount, places, ret_fail)
                                   : add(spec, &mount, places, ret_fail);
}

static int add_wanted(struct box_spec *spec, const char *text, bool may_home,
                      const struct own_places *places, struct fail *ret_fail)
{
    char *words = strdup(text);
    int r = words ? add_words(spec, words, may_home, places, ret_fail)
                  : fail_set(ret_fail, ENOMEM, "--mount");
    free(words);
    return r;
}

/* An overlay shows nothing that is mounted below its layer; the kernel refuses it where that would
 * reveal files. */
static int check_below(const struct box_spec *spec, char *mountinfo, struct fail *ret_fail)
{
    const char *below = spec->cow && spec->workspace && !box_cow_may_leave_out()
                            ? box_mounts_below(&mountinfo, spec->workspace)
                            : NULL;
    return below ? fail_refuse(
                       ret_fail, EPERM,
                       "--cow: something is mounted at %.300s, and only root can leave that out of "
                       "the workspace: unmount it, or name another directory",
                       below)
                 : 0;
}

int box_mounts_check_now(const struct box_spec *spec, struct fail *ret_fail)
{
    if (spec->mount_count == 0 && !spec->workspace) {
        return 0;
    }
    defer_free char *text = NULL;
    int r = trust_read_mounts(&text, ret_fail);
    r = r ? r : box_mounts_check(spec, text, ret_fail);
    return r ? r : check_below(spec, text, ret_fail);
}

int box_workspace_resolve(struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    struct stat st;
    if (!spec->workspace) {
        return 0;
    }
    int r = directory_find("--workspace", spec->workspace, path, &st, ret_fail);
    if (r < 0 && ret_fail->code == ENOENT) {
        return fail_refuse(ret_fail, ENOENT,
                           "--workspace %.300s: No such file or directory; make it, or name "
                           "another: sandpiper config --install -- --workspace DIR",
                           spec->workspace);
    }
    r = r ? r : directory_check("--workspace", path, /* writable= */ true, ret_fail);
    r = r ? r : directory_check_stores("--workspace", path, ret_fail);
    if (r == 0) {
        spec->workspace = path;
    }
    return r;
}

int box_mounts_resolve(struct box_spec *spec, const struct box_mounts_wanted *wanted,
                       struct fail *ret_fail)
{
    if (wanted->count == 0) {
        return 0;
    }
    defer_free struct own_places *places = malloc(sizeof *places);
    if (!places) {
        return fail_set(ret_fail, ENOMEM, "--mount");
    }
    find_own_places(spec, wanted, places);
    spec->mount_count = 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < wanted->count; i++) {
        r = add_wanted(spec, wanted->at[i], wanted->home, places, ret_fail);
    }
    r = r ? r : box_mounts_check_now(spec, ret_fail);
    if (r < 0) {
        box_mounts_done(spec);
    }
    return r;
}

int box_trust_check(struct box_spec *spec, const struct box_trusted *files, unsigned count,
                    struct fail *ret_fail)
{
    int r = trust_find_aliases(spec, ret_fail);
    r = r ? r : trust_check_self(spec, ret_fail);
    for (unsigned i = 0; r == 0 && i < count; i++) {
        const struct box_trusted *file = &files[i];
        r = !file->path     ? 0
            : file->is_tree ? trust_check_tree(spec, file->what, file->path, file->fix, ret_fail)
                            : trust_check(spec, file->what, file->path, file->fix, ret_fail);
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
    trust_forget_aliases(spec);
}

/* Whether --cow and --cow-store can be what the user means: see mounts.h. */

int box_cow_resolve(struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    if (spec->cow_store && !spec->cow) {
        return fail_refuse(ret_fail, EINVAL, "--cow-store keeps the changes of --cow: add --cow");
    }
    if (!spec->cow) {
        return 0;
    }
    if (!spec->workspace) {
        return fail_refuse(
            ret_fail, EINVAL,
            "--cow keeps the directory of --workspace unchanged: add --workspace DIR");
    }
    if (spec->isolation == BOX_ISOLATION_CONTAINER) {
        return fail_refuse(ret_fail, EINVAL, COW_NEEDS_NAMESPACES);
    }
    if (!spec->cow_store) {
        return 0;
    }
    int r = directory_find_new("--cow-store", spec->cow_store, path, ret_fail);
    if (r < 0) {
        return r;
    }
    spec->cow_store = path;
    if (overlap_between(path, spec->workspace)) {
        return fail_refuse(
            ret_fail, EPERM,
            "--cow-store %.300s and the workspace %.300s overlap: name a directory outside "
            "of the workspace",
            path, spec->workspace);
    }
    return directory_check("--cow-store", path, /* writable= */ true, ret_fail);
}

bool box_cow_may_leave_out(void)
{
    static const cap_value_t needed[] = {CAP_SYS_ADMIN};
    return idmap_has_capabilities(needed, 1);
}

/* Whether sandboxes see the package directories at the host's paths and with another uid. Then the
 * home directory is unsuitable, and the directories let others pass through. */
static bool cache_is_shared_by_path(const struct box_spec *spec)
{
    return spec->scratch && spec->scratch->ids.guest != geteuid();
}

mode_t cache_mode(const struct box_spec *spec)
{
    return cache_is_shared_by_path(spec) ? 0711 : 0700;
}

int cache_place(const struct box_spec *spec, char parent[PATH_MAX], const char **ret_name,
                struct fail *ret_fail)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int size = -1;
    *ret_name = "sandpiper";
    if (spec->cache) {
        size = snprintf(parent, PATH_MAX, "%s", spec->cache);
        while (size > 1 && size < PATH_MAX && parent[size - 1] == '/') {
            parent[--size] = '\0';
        }
        char *slash = size < PATH_MAX ? strrchr(parent, '/') : NULL;
        if (!slash || !slash[1]) {
            return fail_refuse(ret_fail, EPERM, "%s is not an absolute path", spec->cache);
        }
        *ret_name = spec->cache + (slash + 1 - parent);
        slash[slash == parent] = '\0';
    } else if (cache_is_shared_by_path(spec)) {
        size = snprintf(parent, PATH_MAX, "%s", spec->scratch->path);
        *ret_name = "packages";
    } else if (xdg && xdg[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s", xdg);
    } else if (home && home[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s/.cache", home);
    } else {
        return fail_refuse(ret_fail, EPERM, "HOME is not set");
    }
    return size >= 0 && size < PATH_MAX ? 0
                                        : fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
}

/* Whether --record or --keep can be where the user says: see mounts.h. */

/* Refuses path where it and a directory that code can see lie in one another. seen: NULL: none. */
static int check_apart(const char *flag, const char *path, const char *seen, struct fail *ret_fail)
{
    return overlap_between(path, seen)
               ? fail_refuse(ret_fail, EPERM,
                             "%s %.300s and %.300s, which code can see, overlap: name a "
                             "directory outside of it",
                             flag, path, seen)
               : 0;
}

/* What the interpreter needs is shown, too. One that cannot be found runs no code. */
static int check_apart_python(const struct box_spec *spec, const char *flag, const char *path,
                              struct fail *ret_fail)
{
    struct fail none = {};
    defer_free struct python *python = malloc(sizeof *python);
    if (!python) {
        return fail_set(ret_fail, ENOMEM, "%s", flag);
    }
    unsigned count = python_expect(spec, python, &none) == 0 ? python->directory_count : 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < count; i++) {
        r = check_apart(flag, path, python->directories[i], ret_fail);
    }
    return r;
}

int box_apart_resolve(const struct box_spec *spec, const char *flag, const char *dir,
                      char path[PATH_MAX], struct fail *ret_fail)
{
    static const char *const system[] = {"/usr", "/etc", "/nix/store"};
    char cache[PATH_MAX];
    int r = directory_find_new(flag, dir, path, ret_fail);
    r = r ? r : directory_check(flag, path, /* writable= */ true, ret_fail);
    for (unsigned i = 0; r == 0 && i < sizeof system / sizeof *system; i++) {
        r = check_apart(flag, path, system[i], ret_fail);
    }
    r = r ? r : check_apart(flag, path, spec->workspace, ret_fail);
    r = r ? r : check_apart(flag, path, spec->cow_store, ret_fail);
    for (unsigned i = 0; r == 0 && i < spec->mount_count; i++) {
        r = check_apart(flag, path, spec->mounts[i].path, ret_fail);
    }
    if (r == 0 && cache_path(spec, cache, NULL) == 0) {
        r = check_apart(flag, path, cache, ret_fail);
    }
    return r ? r : check_apart_python(spec, flag, path, ret_fail);
}
