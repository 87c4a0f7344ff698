#include "sandbox/python/python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/python/known.h"
#include "sandbox/python/shim.h"
#include "sandbox/sandbox.h"
#include "sandbox/trust/trust.h"

enum { PYTHON_LINKS = 16 };

static const char remedy[] = "; name an interpreter with --python PATH";

static bool is_executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* dir/name into out. Returns false when it does not fit. */
static bool join(char *out, const char *dir, const char *name)
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size > 0 && size < PATH_MAX;
}

/* The first of PATH, or of the usual places when the client has passed no PATH on. */
static bool search_path(const char *name, char *out)
{
    const char *path = getenv("PATH");
    if (!path || !*path) {
        path = "/usr/local/bin:/usr/bin:/bin";
    }
    while (*path) {
        size_t size = strcspn(path, ":");
        char dir[PATH_MAX];
        if (size > 0 && size < sizeof dir && path[0] == '/') {
            memcpy(dir, path, size);
            dir[size] = '\0';
            if (join(out, dir, name) && is_executable(out)) {
                return true;
            }
        }
        path += size;
        path += *path == ':';
    }
    return false;
}

static int choose(const char *chosen, char *out, struct fail *ret_fail)
{
    const char *environment = getenv("VIRTUAL_ENV");
    if (chosen && strchr(chosen, '/')) {
        char cwd[PATH_MAX];
        if (chosen[0] == '/') {
            (void)snprintf(out, PATH_MAX, "%s", chosen);
        } else if (!getcwd(cwd, sizeof cwd) || !join(out, cwd, chosen)) {
            return fail_set(ret_fail, EINVAL, "the interpreter's path %s%s", chosen, remedy);
        }
        if (!is_executable(out)) {
            return fail_set(ret_fail, ENOENT, "the interpreter %s%s", chosen, remedy);
        }
        return 0;
    }
    if (!chosen && environment && environment[0] == '/' && join(out, environment, "bin/python") &&
        is_executable(out)) {
        return 0;
    }
    if (!search_path(chosen ? chosen : "python3", out)) {
        return fail_set(ret_fail, ENOENT, "%s in PATH%s", chosen ? chosen : "python3", remedy);
    }
    return 0;
}

static bool is_below(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* by_code: code could have chosen it, so judge_folder() asks for more. */
static void add_folder(struct python *python, const char *folder, bool by_code)
{
    static const char *const always[] = {"/usr", "/bin", "/lib", "/lib64", "/sbin"};
    for (unsigned i = 0; i < sizeof always / sizeof *always; i++) {
        if (is_below(folder, always[i])) {
            return;
        }
    }
    for (unsigned i = 0; i < python->folder_count; i++) {
        if (is_below(folder, python->folders[i])) {
            return;
        }
    }
    if (python->folder_count < PYTHON_FOLDERS) {
        python->by_code[python->folder_count] = by_code;
        (void)snprintf(python->folders[python->folder_count++], PATH_MAX, "%s", folder);
    }
}

/* The folder two levels up: the prefix of a path of the form PREFIX/bin/python3. */
static bool prefix_of(const char *path, char *out)
{
    (void)snprintf(out, PATH_MAX, "%s", path);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            return false;
        }
        *slash = '\0';
    }
    return out[0] == '/';
}

/* Finds PREFIX/lib/pythonX.Y with the standard library in it. */
static bool has_library(const char *prefix, char *ret_version)
{
    static const char *const libs[] = {"lib", "lib64"};
    char lib[PATH_MAX];
    char file[PATH_MAX];
    for (unsigned i = 0; i < 2; i++) {
        if (!join(lib, prefix, libs[i])) {
            continue;
        }
        DIR *dir = opendir(lib);
        const struct dirent *entry = NULL;
        while (dir && (entry = readdir(dir))) {
            int size = snprintf(file, sizeof file, "%s/%s/os.py", lib, entry->d_name);
            if (strncmp(entry->d_name, "python3.", 8) == 0 && strlen(entry->d_name) < 14 &&
                size < PATH_MAX && access(file, R_OK) == 0) {
                (void)snprintf(ret_version, 16, "%s", entry->d_name);
                (void)closedir(dir);
                return true;
            }
        }
        if (dir) {
            (void)closedir(dir);
        }
    }
    return false;
}

/* The same path as text without "." and "..", which is right unless a folder of it is a link. */
static void fold_dots(const char *path, char *out)
{
    size_t size = 0;
    for (const char *part = path; *part;) {
        part += strspn(part, "/");
        size_t length = strcspn(part, "/");
        if (length == 2 && strncmp(part, "..", 2) == 0) {
            while (size > 0 && out[--size] != '/') {
            }
        } else if (length > 0 && !(length == 1 && *part == '.')) {
            out[size++] = '/';
            memcpy(out + size, part, length);
            size += length;
        }
        part += length;
    }
    if (size == 0) {
        out[size++] = '/';
    }
    out[size] = '\0';
}

/* Folders of the result become places in the box, where ".." would lead through folders that are not
 * there. A folder that is a link keeps its name where that can be: other links lead through it. */
static void resolve_dots(char *path)
{
    char folded[PATH_MAX];
    char real[PATH_MAX];
    struct stat wanted;
    struct stat st;
    char *slash = strrchr(path, '/');
    if (!slash || stat(path, &wanted) < 0) {
        return;
    }
    fold_dots(path, folded);
    if (stat(folded, &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino) {
        (void)snprintf(path, PATH_MAX, "%s", folded);
        return;
    }
    if (strcmp(slash, "/..") == 0) {
        if (realpath(path, real)) {
            memcpy(path, real, strlen(real) + 1);
        }
        return;
    }
    *slash = '\0';
    bool known = realpath(path, real) != NULL;
    *slash = '/';
    if (known && join(folded, real, slash + 1)) {
        (void)snprintf(path, PATH_MAX, "%s", folded);
    }
}

/* The folder of the standard library that "home = …" stands for; none when the interpreter finds none. */
static void add_base(struct python *python, const char *home, bool by_code)
{
    char program[PATH_MAX];
    char base[PATH_MAX];
    char version[16];
    if (join(program, home, "python") && program[0] == '/' && prefix_of(program, base) &&
        has_library(base, version)) {
        resolve_dots(base);
        add_folder(python, base, by_code);
    }
}

/* Without the white space around it. */
static char *trim(char *text)
{
    static const char space[] = " \t\r\f\v";
    text += strspn(text, space);
    size_t size = strlen(text);
    while (size > 0 && strchr(space, text[size - 1])) {
        text[--size] = '\0';
    }
    return text;
}

/* Reads a virtual environment's settings and adds the folder of its base: by the keys that CPython 3.11 takes, the
 * first "home" of Modules/getpath.py, the last "include-system-site-packages" of Lib/site.py. */
static bool read_environment(struct python *python, const char *prefix, bool by_code)
{
    char path[PATH_MAX];
    char text[8192];
    char *state = NULL;
    bool has_home = false;
    if (!join(path, prefix, "pyvenv.cfg") ||
        fd_read_text_at(AT_FDCWD, path, text, sizeof text) < 0) {
        return false;
    }
    (void)snprintf(python->environment, sizeof python->environment, "%s", prefix);
    add_folder(python, prefix, by_code);
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        char *value = strchr(line, '=');
        if (!value) {
            continue;
        }
        *value++ = '\0';
        const char *key = trim(line);
        value = trim(value);
        if (strcasecmp(key, "include-system-site-packages") == 0) {
            python->system_packages = strcasecmp(value, "true") == 0;
        } else if (strcasecmp(key, "home") == 0 && !has_home) {
            has_home = true;
            add_base(python, value, by_code);
        }
    }
    return true;
}

/* Whether the plan makes folders of the interpreter in this place read-only. */
static bool is_kept(const struct box_spec *spec, const struct trust_place *place)
{
    return place->workspace && !spec->room;
}

static int refuse(const char *path, const struct trust_place *place, struct fail *ret_fail)
{
    return trust_refuse("the interpreter", path, place,
                        place->workspace ? "name another with --python PATH"
                                         : "mount that read-only, name it with --workspace, or "
                                           "name another interpreter with --python PATH",
                        ret_fail);
}

/* Whether a name of the interpreter stays what it is: it is nowhere where code writes, or in a folder there
 * that is made read-only. */
static int judge_name(const struct box_spec *spec, const char *path, bool in_folder,
                      struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false; /* then so is what is mounted in it */
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        enum overlap overlap = overlap_of_parent(path, places[i].path, rest);
        if (overlap == OVERLAP_INSIDE && in_folder && is_kept(spec, &places[i])) {
            kept = true;
        } else if (overlap != OVERLAP_NONE && !(kept && places[i].alias)) {
            return refuse(path, &places[i], ret_fail);
        }
    }
    return 0;
}

/* Nor may code write where the interpreter's modules and programs are, from a folder around the place. Of the
 * user's own packages all is a module. */
static int judge_modules(const char *folder, const struct trust_place *place, struct fail *ret_fail)
{
    static const char *const of_prefix[] = {"bin", "lib", "lib64", NULL};
    static const char *const of_packages[] = {".", NULL};
    const char *name = strrchr(folder, '/');
    bool packages = name && strcmp(name, "/site-packages") == 0;
    char path[PATH_MAX];
    char rest[PATH_MAX];
    for (const char *const *part = packages ? of_packages : of_prefix; *part; part++) {
        if (join(path, folder, *part) && overlap_of(place->path, path, rest) != OVERLAP_NONE) {
            return refuse(folder, place, ret_fail);
        }
    }
    return 0;
}

static int judge_folder(struct python *python, unsigned index, const struct box_spec *spec,
                        struct fail *ret_fail)
{
    const char *folder = python->folders[index];
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false;
    unsigned count = trust_places(spec, places);
    int checked = known_check_size(folder, ret_fail);
    if (checked < 0) {
        return checked;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct trust_place *place = &places[i];
        enum overlap overlap = overlap_of(folder, place->path, rest);
        int r = 0;
        if (kept && place->alias) {
            continue;
        }
        if (overlap == OVERLAP_NONE) {
            r = judge_modules(folder, place, ret_fail);
        } else if (overlap == OVERLAP_INSIDE && rest[0] && is_kept(spec, place)) {
            (void)snprintf(python->inside[python->inside_count++], PATH_MAX, "%s", rest);
            kept = true;
        } else {
            r = refuse(folder, place, ret_fail);
        }
        if (r < 0) {
            return r;
        }
    }
    if (!kept && python->by_code[index] && !known_is_prefix(spec, folder)) {
        (void)fail_set(ret_fail, 0,
                       "the interpreter's directory %.300s is named in a place that code writes "
                       "to, so code could have chosen it: name an interpreter elsewhere with "
                       "--python PATH",
                       folder);
        return -EPERM;
    }
    return 0;
}

static int judge_folders(struct python *python, const struct box_spec *spec, struct fail *ret_fail)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < python->folder_count; i++) {
        r = judge_folder(python, i, spec, ret_fail);
    }
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; r == 0 && i < count; i++) { /* the system's own is no folder of the list */
        r = judge_modules(python->prefix, &places[i], ret_fail);
    }
    return r;
}

/* Whether code could have made the name path, or what lies beside it. */
static bool is_named_by_code(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    unsigned count = trust_places(spec, places);
    bool found = false;
    for (unsigned i = 0; i < count && !found; i++) {
        found = overlap_of_parent(path, places[i].path, rest) != OVERLAP_NONE;
    }
    return found;
}

/* Follows path's links, adding the prefix at each hop. A hop that is in no prefix of Python (a link
 * in a folder of the user's) is passed over: what is executed starts behind it, so that no more of
 * the host is shown than needed. */
static int follow(struct python *python, const struct box_spec *spec, struct fail *ret_fail)
{
    char path[PATH_MAX];
    char prefix[PATH_MAX];
    bool found = false;
    bool by_code = false; /* and then all that it leads to */
    (void)snprintf(path, sizeof path, "%s", python->path);
    resolve_dots(path);
    for (unsigned hop = 0; hop < PYTHON_LINKS; hop++) {
        by_code = by_code || is_named_by_code(spec, path);
        bool environment = prefix_of(path, prefix) && read_environment(python, prefix, by_code);
        bool library = !environment && *prefix && has_library(prefix, python->version);
        if (environment || library) {
            if (!found) {
                (void)snprintf(python->path, sizeof python->path, "%s", path);
            }
            found = true;
        }
        if (library) {
            add_folder(python, prefix, by_code);
        }
        int r = judge_name(spec, path, environment || library, ret_fail);
        if (r < 0) {
            return r;
        }
        char target[PATH_MAX];
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size < 0) {
            break;
        }
        target[size] = '\0';
        if (target[0] == '/') {
            (void)snprintf(path, sizeof path, "%s", target);
        } else {
            char *slash = strrchr(path, '/');
            if (slash) {
                *slash = '\0';
            }
            char joined[PATH_MAX];
            if (!join(joined, path, target)) {
                break;
            }
            (void)snprintf(path, sizeof path, "%s", joined);
        }
        resolve_dots(path);
    }
    char real[PATH_MAX];
    if (!realpath(path, real) || !prefix_of(real, prefix) ||
        !has_library(prefix, python->version)) {
        return fail_set(ret_fail, ENOENT, "the standard library of %s (a CPython 3.9 or newer)%s",
                        python->path, remedy);
    }
    add_folder(python, prefix, by_code);
    (void)snprintf(python->prefix, sizeof python->prefix, "%s", prefix);
    if (!found) {
        (void)snprintf(python->path, sizeof python->path, "%s", real);
    }
    return 0;
}

/* The packages that the user has installed for himself, unless a virtual environment hides them. */
static void add_user_packages(struct python *python)
{
    const char *home = getenv("HOME");
    char base[PATH_MAX];
    char lib[PATH_MAX];
    int size = snprintf(lib, sizeof lib, "%s/.local/lib/%s/site-packages", home ? home : "",
                        python->version);
    if (!home || home[0] != '/' || python->environment[0] || size >= PATH_MAX ||
        access(lib, X_OK) < 0 || !join(base, home, ".local")) {
        return;
    }
    add_folder(python, lib, /* by_code= */ false);
    (void)snprintf(python->user_base, sizeof python->user_base, "%s", base);
}

/* The path that was chosen in this process, so that nothing which code does later chooses another, and no
 * script is run once there is code. */
static struct {
    bool known;
    char chosen[PATH_MAX]; /* --python, or empty */
    char path[PATH_MAX];
} choice;

void python_forget(void)
{
    choice.known = false;
}

static int choose_once(const struct box_spec *spec, bool ask, char *path, struct fail *ret_fail)
{
    const char *chosen = spec->python ? spec->python : "";
    if (choice.known && strcmp(choice.chosen, chosen) == 0) {
        memcpy(path, choice.path, PATH_MAX);
        return 0;
    }
    int r = choose(spec->python, path, ret_fail);
    if (r == 0 && shim_is_script(path)) {
        r = ask ? shim_ask(spec, path, ret_fail)
                : fail_set(ret_fail, ENOEXEC, "%s is a script", path);
    }
    if (r == 0) {
        choice.known = snprintf(choice.chosen, PATH_MAX, "%s", chosen) < PATH_MAX;
        memcpy(choice.path, path, PATH_MAX);
    }
    return r;
}

static int find(const struct box_spec *spec, bool ask, struct python *python, struct fail *ret_fail)
{
    *python = (struct python){};
    int r = choose_once(spec, ask, python->path, ret_fail);
    r = r ? r : follow(python, spec, ret_fail);
    if (r == 0) {
        add_user_packages(python);
        r = judge_folders(python, spec, ret_fail);
    }
    return r;
}

int python_find(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail)
{
    return find(spec, /* ask= */ true, ret_python, ret_fail);
}

int python_expect(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail)
{
    return find(spec, /* ask= */ false, ret_python, ret_fail);
}
