#include "sandbox/host/python.h"

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
#include "base/parse.h"
#include "base/path.h"
#include "sandbox/host/python_internal.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

enum { PYTHON_LINKS = 16 };

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

/* The first match in PATH, or in the usual directories when the client has passed no PATH on. */
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
            return fail_set(ret_fail, EINVAL, "the interpreter's path %s", chosen);
        }
        /* The directory of an environment stands for its interpreter. */
        char program[PATH_MAX];
        struct stat st;
        bool is_directory = stat(out, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_directory && join(program, out, "bin/python3")) {
            (void)snprintf(out, PATH_MAX, "%s", program);
        }
        if (!is_executable(out)) {
            return fail_set(ret_fail, ENOENT, "the interpreter %s%s", chosen,
                            is_directory ? "/bin/python3" : "");
        }
        return 0;
    }
    if (!chosen && environment && environment[0] == '/' && join(out, environment, "bin/python") &&
        is_executable(out)) {
        return 0;
    }
    if (!search_path(chosen ? chosen : "python3", out)) {
        return fail_set(ret_fail, ENOENT, "%s in PATH", chosen ? chosen : "python3");
    }
    return 0;
}

/* by_code: code could have chosen it, so check_directory() requires more. */
static void add_directory(struct python *python, const char *directory, bool by_code)
{
    static const char *const always[] = {"/usr", "/bin", "/lib", "/lib64", "/sbin"};
    for (unsigned i = 0; i < sizeof always / sizeof *always; i++) {
        if (path_behind(directory, always[i])) {
            return;
        }
    }
    for (unsigned i = 0; i < python->directory_count; i++) {
        if (path_behind(directory, python->directories[i])) {
            return;
        }
    }
    if (python->directory_count < PYTHON_DIRECTORIES) {
        python->by_code[python->directory_count] = by_code;
        (void)snprintf(python->directories[python->directory_count++], PATH_MAX, "%s", directory);
    }
}

/* The directory two levels up: the prefix of a path of the form PREFIX/bin/python3. */
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
        defer_closedir DIR *dir = opendir(lib);
        const struct dirent *entry = NULL;
        while (dir && (entry = readdir(dir))) {
            int size = snprintf(file, sizeof file, "%s/%s/os.py", lib, entry->d_name);
            if (strncmp(entry->d_name, "python3.", 8) == 0 && strlen(entry->d_name) < 14 &&
                size < PATH_MAX && access(file, R_OK) == 0) {
                (void)snprintf(ret_version, 16, "%s", entry->d_name);
                return true;
            }
        }
    }
    return false;
}

/* The same path as text without "." and "..". Right unless a directory of the path is a symlink. */
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

/* Paths of the result exist in the sandbox too, where ".." would pass through directories that are
 * missing. A directory that is a symlink keeps its name where possible: other symlinks may lead
 * through it. */
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

/* The directory of the standard library that "home = …" names; none where the interpreter finds
 * none. */
static void add_base(struct python *python, const char *home, bool by_code)
{
    char program[PATH_MAX];
    char base[PATH_MAX];
    char version[16];
    if (join(program, home, "python") && program[0] == '/' && prefix_of(program, base) &&
        has_library(base, version)) {
        resolve_dots(base);
        add_directory(python, base, by_code);
    }
}

/* Strips white space at both ends. */
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

/* Reads a virtual environment's settings and adds the directory of its base. Takes the keys that
 * CPython 3.11 takes: the first "home" (Modules/getpath.py) and the last
 * "include-system-site-packages" (Lib/site.py). */
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
    add_directory(python, prefix, by_code);
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

/* Whether the plan makes the interpreter's directories in this place read-only. */
static bool is_kept(const struct box_spec *spec, const struct trust_place *place)
{
    return place->workspace && !spec->scratch;
}

static int refuse(const char *path, const struct trust_place *place, struct fail *ret_fail)
{
    return trust_refuse("the interpreter", path, place,
                        place->workspace
                            ? "name another with --python PATH"
                            : "mount that directory read-only, name it with --workspace, or name "
                              "another interpreter with --python PATH",
                        ret_fail);
}

/* Refuses a name of the interpreter that code could change. Names in a directory that the plan
 * makes read-only are safe. */
static int check_name(const struct box_spec *spec, const char *path, bool in_directory,
                      struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false; /* then so is what is mounted in it */
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        enum overlap overlap = overlap_of_parent(path, places[i].path, rest);
        if (overlap == OVERLAP_INSIDE && in_directory && is_kept(spec, &places[i])) {
            kept = true;
        } else if (overlap != OVERLAP_NONE && !(kept && places[i].alias)) {
            return refuse(path, &places[i], ret_fail);
        }
    }
    return 0;
}

/* Refuses a place from which code could write to the interpreter's modules and programs. In a
 * directory of packages, everything is a module. */
static int check_modules(const char *directory, const struct trust_place *place,
                         struct fail *ret_fail)
{
    static const char *const of_prefix[] = {"bin", "lib", "lib64", NULL};
    static const char *const of_packages[] = {".", NULL};
    const char *name = strrchr(directory, '/');
    bool packages = name && strcmp(name, "/site-packages") == 0;
    char path[PATH_MAX];
    char rest[PATH_MAX];
    for (const char *const *part = packages ? of_packages : of_prefix; *part; part++) {
        if (join(path, directory, *part) && overlap_of(place->path, path, rest) != OVERLAP_NONE) {
            return refuse(directory, place, ret_fail);
        }
    }
    return 0;
}

static int check_directory(struct python *python, unsigned index, const struct box_spec *spec,
                           struct fail *ret_fail)
{
    const char *directory = python->directories[index];
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false;
    unsigned count = trust_places(spec, places);
    int checked = known_check_size(directory, ret_fail);
    if (checked < 0) {
        return checked;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct trust_place *place = &places[i];
        enum overlap overlap = overlap_of(directory, place->path, rest);
        int r = 0;
        if (kept && place->alias) {
            continue;
        }
        if (overlap == OVERLAP_NONE) {
            r = check_modules(directory, place, ret_fail);
        } else if (overlap == OVERLAP_INSIDE && rest[0] && is_kept(spec, place)) {
            (void)snprintf(python->inside[python->inside_count++], PATH_MAX, "%s", rest);
            kept = true;
        } else {
            r = refuse(directory, place, ret_fail);
        }
        if (r < 0) {
            return r;
        }
    }
    if (!kept && python->by_code[index] && !known_is_prefix(spec, directory)) {
        (void)fail_set(ret_fail, 0,
                       "code can write to the file that names the interpreter's directory %.300s: "
                       "name another interpreter with --python PATH",
                       directory);
        return -EPERM;
    }
    return 0;
}

static int check_directories(struct python *python, const struct box_spec *spec,
                             struct fail *ret_fail)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < python->directory_count; i++) {
        r = check_directory(python, i, spec, ret_fail);
    }
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    /* The system's own interpreter is not in the list. */
    for (unsigned i = 0; r == 0 && i < count; i++) {
        r = check_modules(python->prefix, &places[i], ret_fail);
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

/* Follows path's symlinks and adds the prefix at each hop. Skips a hop that is in no prefix of
 * Python, such as a symlink in a user's directory: execution starts after it, so no more of the
 * host is shown than needed. */
static int follow(struct python *python, const struct box_spec *spec, struct fail *ret_fail)
{
    char path[PATH_MAX];
    char prefix[PATH_MAX];
    bool found = false;
    bool by_code = false; /* then code chooses everything after it as well */
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
            add_directory(python, prefix, by_code);
        }
        int r = check_name(spec, path, environment || library, ret_fail);
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
        return fail_set(ret_fail, ENOENT, "the standard library of %s (a CPython 3.9 or newer)",
                        python->path);
    }
    add_directory(python, prefix, by_code);
    (void)snprintf(python->prefix, sizeof python->prefix, "%s", prefix);
    if (!found) {
        (void)snprintf(python->path, sizeof python->path, "%s", real);
    }
    return 0;
}

/* The packages that the user has installed with --user, unless a virtual environment hides them. */
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
    add_directory(python, lib, /* by_code= */ false);
    (void)snprintf(python->user_base, sizeof python->user_base, "%s", base);
}

/* The path chosen by this process. It stays, so that code cannot cause another choice and no script
 * runs after code has run. */
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

/* CPython takes the same values, and does not start with others, python(1). */
static int take_hash_seed(struct python *python, struct fail *ret_fail)
{
    const char *seed = getenv("PYTHONHASHSEED");
    uint64_t value = 0;
    if (!seed || !seed[0]) {
        return 0;
    }
    if (strcmp(seed, "random") != 0 && (strlen(seed) >= sizeof python->hash_seed ||
                                        parse_u64(seed, &value) < 0 || value > UINT32_MAX)) {
        return fail_set(ret_fail, EINVAL,
                        "PYTHONHASHSEED must be \"random\" or an integer from 0 to 4294967295");
    }
    (void)snprintf(python->hash_seed, sizeof python->hash_seed, "%s", seed);
    return 0;
}

static int find(const struct box_spec *spec, bool ask, struct python *python, struct fail *ret_fail)
{
    *python = (struct python){};
    int r = take_hash_seed(python, ret_fail);
    r = r ? r : choose_once(spec, ask, python->path, ret_fail);
    r = r ? r : follow(python, spec, ret_fail);
    if (r == 0) {
        add_user_packages(python);
        r = check_directories(python, spec, ret_fail);
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
