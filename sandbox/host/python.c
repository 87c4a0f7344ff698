#include "sandbox/host/python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stddef.h>
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
#include "sandbox/host/host_facts.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

enum { PYTHON_LINKS = 16, PYTHON_OLDEST = 9 /* 3.9 */ };

/* dir/name into out (PATH_MAX bytes). Returns false when it does not fit. */
static bool python_join(char *out, const char *dir, const char *name)
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size > 0 && size < PATH_MAX;
}

/* --- an interpreter that code could change is refused --- */

/* Refuses what is more than an interpreter, whoever has named it: the root directory, a home
 * directory and its parents. 0 or -EPERM with ret_fail */
static int known_check_size(const char *directory, struct fail *ret_fail)
{
    struct fail why = {};
    bool is_home = directory_is_home(directory);
    if (!is_home && directory_check("", directory, /* writable= */ false, &why) == 0) {
        return 0;
    }
    return fail_refuse(
        ret_fail, EPERM,
        "the interpreter's directory %.300s is %s, so code could read too much: name "
        "another interpreter with --python PATH",
        directory,
        is_home                                 ? "the home directory"
        : strstr(why.text, "whole file system") ? "the whole file system"
                                                : "a parent of the home directory");
}

/* Where a system's packages install whole interpreters. Ordinary users cannot write there. */
static bool is_of_system(const char *real)
{
    static const char *const directories[] = {"/usr", "/opt", "/nix/store", "/gnu/store", "/snap"};
    bool found = false;
    for (unsigned i = 0; i < sizeof directories / sizeof *directories && !found; i++) {
        const char *rest = path_behind(real, directories[i]);
        found = rest && (*rest || i == 0);
    }
    return found;
}

/* Whether the symlink or program at path resolves to real's interpreter, and code can write nowhere
 * on the way. */
static bool leads_to(const struct box_spec *spec, const char *path, const char *real)
{
    char end[PATH_MAX];
    if (access(path, X_OK) < 0 || !realpath(path, end) || trust_meets(spec, path).path ||
        shim_is_script(end)) {
        return false;
    }
    const char *rest = path_behind(end, real);
    return rest && strncmp(rest, "bin/", 4) == 0 && !strchr(rest + 4, '/');
}

static bool is_of_path(const struct box_spec *spec, const char *real)
{
    enum { OLDEST = 9, NEWEST = 20 }; /* python3.N */
    char list[4 * PATH_MAX];
    char path[PATH_MAX];
    char *state = NULL;
    trust_path(spec, list, sizeof list);
    for (char *dir = strtok_r(list, ":", &state); dir; dir = strtok_r(NULL, ":", &state)) {
        for (int minor = OLDEST - 1; minor < NEWEST; minor++) {
            int size = minor < OLDEST ? snprintf(path, sizeof path, "%s/python3", dir)
                                      : snprintf(path, sizeof path, "%s/python3.%d", dir, minor);
            if (size < PATH_MAX && leads_to(spec, path, real)) {
                return true;
            }
        }
    }
    return false;
}

/* Tools that keep each version in its own directory. A variable can move their root. */
static bool is_of_tool(const struct box_spec *spec, const char *real)
{
    static const struct {
        const char *variable;
        const char *usual; /* below the home directory */
        const char *versions;
    } tools[] = {
        {"PYENV_ROOT", ".pyenv", "versions"},
        {"ASDF_DATA_DIR", ".asdf", "installs/python"},
        {"MISE_DATA_DIR", ".local/share/mise", "installs/python"},
        {"UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "."},
    };
    const char *home = getenv("HOME");
    const char *name = strrchr(real, '/');
    char path[PATH_MAX];
    char versions[PATH_MAX];
    for (unsigned i = 0; i < sizeof tools / sizeof *tools; i++) {
        const char *moved = getenv(tools[i].variable);
        int size = moved && moved[0] == '/'
                       ? snprintf(path, sizeof path, "%s/%s", moved, tools[i].versions)
                       : snprintf(path, sizeof path, "%s/%s/%s", home ? home : "", tools[i].usual,
                                  tools[i].versions);
        if (size < PATH_MAX && realpath(path, versions) && !trust_meets(spec, path).path &&
            strlen(versions) == (size_t)(name - real) &&
            memcmp(versions, real, strlen(versions)) == 0) {
            return true;
        }
    }
    return false;
}

/* conda's own list of the environments that it has made. */
static bool is_of_conda(const char *real)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/conda-meta/history", real) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* Whether directory, which code could have named, is known as an interpreter's independently of
 * code: as one of the system, of the trusted part of PATH, of a known tool's versions, or of conda.
 * Reads no file that code can write. */
static bool known_is_prefix(const struct box_spec *spec, const char *directory)
{
    char real[PATH_MAX];
    return realpath(directory, real) && (is_of_system(real) || is_of_conda(real) ||
                                         is_of_tool(spec, real) || is_of_path(spec, real));
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
static int python_check_name(const struct box_spec *spec, const char *path, bool in_directory,
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
    for (const char *const *part = packages ? of_packages : of_prefix; *part; part++) {
        if (python_join(path, directory, *part) && overlap_enters(place->path, path)) {
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
        return fail_refuse(
            ret_fail, EPERM,
            "code can write to the file that names the interpreter's directory %.300s: "
            "name another interpreter with --python PATH",
            directory);
    }
    return 0;
}

/* The same for what may be loaded from the interpreter's directories. */
static int python_check_directories(struct python *python, const struct box_spec *spec,
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
static bool python_is_named_by_code(const struct box_spec *spec, const char *path)
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

/* --- which one it is, and what it needs --- */

/* The directory two levels up: the prefix of a path of the form PREFIX/bin/python3. */
static bool prefix_of(const char *path, char *out)
{
    (void)snprintf(out, PATH_MAX, "%s", path);
    bool found = path_cut_last(out); /* the program, then bin */
    return found && path_cut_last(out) && out[0] == '/';
}

/* The interpreter of the virtual environment that the program is installed in, as pip and pipx do:
 * pyvenv.cfg stands above its bin, PEP 405. */
static bool find_beside(char *out)
{
    char program[PATH_MAX];
    char prefix[PATH_MAX];
    char config[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    program[size > 0 ? size : 0] = '\0';
    return prefix_of(program, prefix) && python_join(config, prefix, "pyvenv.cfg") &&
           access(config, F_OK) == 0 && python_join(out, prefix, "bin/python") &&
           helper_is_program(out);
}

static int choose(const char *chosen, char *out, struct fail *ret_fail)
{
    const char *environment = getenv("VIRTUAL_ENV");
    if (chosen && strchr(chosen, '/')) {
        char cwd[PATH_MAX];
        if (chosen[0] == '/') {
            (void)snprintf(out, PATH_MAX, "%s", chosen);
        } else if (!getcwd(cwd, sizeof cwd) || !python_join(out, cwd, chosen)) {
            return fail_set(ret_fail, EINVAL, "the interpreter's path %s", chosen);
        }
        /* The directory of an environment stands for its interpreter. */
        char program[PATH_MAX];
        struct stat st;
        bool is_directory = stat(out, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_directory && python_join(program, out, "bin/python3")) {
            (void)snprintf(out, PATH_MAX, "%s", program);
        }
        if (!helper_is_program(out)) {
            return fail_set(ret_fail, ENOENT, "the interpreter %s%s", chosen,
                            is_directory ? "/bin/python3" : "");
        }
        return 0;
    }
    if (!chosen && environment && environment[0] == '/' &&
        python_join(out, environment, "bin/python") && helper_is_program(out)) {
        return 0;
    }
    if (!chosen && find_beside(out)) {
        return 0;
    }
    /* The first match in PATH, or in the usual directories when the client has passed no PATH on.
     */
    const char *path = getenv("PATH");
    if (!helper_find(path && *path ? path : "/usr/local/bin:/usr/bin:/bin",
                     chosen ? chosen : "python3", out)) {
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

/* Finds PREFIX/lib/pythonX.Y with the standard library in it. */
static bool has_library(const char *prefix, char *ret_version)
{
    static const char *const libs[] = {"lib", "lib64"};
    char lib[PATH_MAX];
    char file[PATH_MAX];
    for (unsigned i = 0; i < 2; i++) {
        if (!python_join(lib, prefix, libs[i])) {
            continue;
        }
        defer_closedir DIR *dir = opendir(lib);
        for (const char *name = NULL; (name = fd_next_name(dir));) {
            int size = snprintf(file, sizeof file, "%s/%s/os.py", lib, name);
            if (strncmp(name, "python3.", 8) == 0 && strlen(name) < 14 && size < PATH_MAX &&
                access(file, R_OK) == 0) {
                (void)snprintf(ret_version, 16, "%s", name);
                return true;
            }
        }
    }
    return false;
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
    /* The same path as text: right unless a directory of the path is a symlink. */
    path_fold(path, folded);
    if (!folded[0]) {
        memcpy(folded, "/", sizeof "/");
    }
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
    if (known && python_join(folded, real, slash + 1)) {
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
    if (python_join(program, home, "python") && program[0] == '/' && prefix_of(program, base) &&
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
    if (!python_join(path, prefix, "pyvenv.cfg") ||
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

/* Mostly the hops of one interpreter are in one prefix, whose lib is a large directory. */
static bool is_of_library(const char *prefix, char known[PATH_MAX], char *ret_version)
{
    bool is = strcmp(prefix, known) == 0 || has_library(prefix, ret_version);
    (void)snprintf(known, PATH_MAX, "%s", is ? prefix : "");
    return is;
}

/* Follows path's symlinks and adds the prefix at each hop. Skips a hop that is in no prefix of
 * Python, such as a symlink in a user's directory: execution starts after it, so no more of the
 * host is shown than needed. */
static int follow(struct python *python, const struct box_spec *spec, struct fail *ret_fail)
{
    char path[PATH_MAX];
    char prefix[PATH_MAX];
    char known[PATH_MAX] = "";
    bool found = false;
    bool by_code = false; /* then code chooses everything after it as well */
    (void)snprintf(path, sizeof path, "%s", python->path);
    resolve_dots(path);
    for (unsigned hop = 0; hop < PYTHON_LINKS; hop++) {
        by_code = by_code || python_is_named_by_code(spec, path);
        bool environment = prefix_of(path, prefix) && read_environment(python, prefix, by_code);
        bool library = !environment && *prefix && is_of_library(prefix, known, python->version);
        if (environment || library) {
            if (!found) {
                (void)snprintf(python->path, sizeof python->path, "%s", path);
            }
            found = true;
        }
        if (library) {
            add_directory(python, prefix, by_code);
        }
        int r = python_check_name(spec, path, environment || library, ret_fail);
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
            path_cut_last(path);
            char joined[PATH_MAX];
            if (!python_join(joined, path, target)) {
                break;
            }
            (void)snprintf(path, sizeof path, "%s", joined);
        }
        resolve_dots(path);
    }
    char real[PATH_MAX];
    if (!realpath(path, real) || !prefix_of(real, prefix) ||
        !is_of_library(prefix, known, python->version)) {
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
        access(lib, X_OK) < 0 || !python_join(base, home, ".local")) {
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
        seed = "0"; /* the same code prints the same */
    }
    if (strcmp(seed, "random") != 0 && (strlen(seed) >= sizeof python->hash_seed ||
                                        parse_u64(seed, &value) < 0 || value > UINT32_MAX)) {
        return fail_set(ret_fail, ERANGE,
                        "PYTHONHASHSEED must be \"random\" or an integer from 0 to 4294967295");
    }
    (void)snprintf(python->hash_seed, sizeof python->hash_seed, "%s", seed);
    return 0;
}

static int find(const struct box_spec *spec, bool ask, struct python *python, struct fail *ret_fail)
{
    memset(python, 0, offsetof(struct python, directories));
    int r = take_hash_seed(python, ret_fail);
    r = r ? r : choose_once(spec, ask, python->path, ret_fail);
    r = r ? r : follow(python, spec, ret_fail);
    if (r == 0) {
        add_user_packages(python);
        r = python_check_directories(python, spec, ret_fail);
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

/* --- an interpreter for programs of ours, outside of the sandbox --- */

/* Whether it lies below the current directory, which may be a workspace that this command does not
 * know of. */
static bool is_here(const char *path)
{
    char cwd[PATH_MAX];
    return getcwd(cwd, sizeof cwd) && strcmp(cwd, "/") != 0 && path_behind(path, cwd);
}

/* Whether this interpreter can be used; it is the first that chosen names. */
static int find_outside(struct box_spec *spec, const char *chosen, struct python *python,
                        struct fail *ret_fail)
{
    uint64_t minor = 0;
    memset(python, 0, offsetof(struct python, directories));
    spec->python = chosen;
    int r = choose_once(spec, /* ask= */ true, python->path, ret_fail);
    r = r ? r : follow(python, spec, ret_fail);
    r = r ? r : python_check_directories(python, spec, ret_fail);
    if (r < 0) {
        return r;
    }
    char real[PATH_MAX];
    if (!realpath(python->path, real) || trust_meets(spec, real).path ||
        trust_meets(spec, python->path).path || is_here(python->path)) {
        return fail_refuse(ret_fail, EPERM, "code can change the interpreter %s", python->path);
    }
    if (python->inside_count > 0) { /* read-only in a sandbox of this server, not in others */
        return fail_refuse(ret_fail, EPERM, "code can change the interpreter %s", python->path);
    }
    const char *version = python->version + strlen("python3.");
    return parse_u64(version, &minor) < 0 || minor < PYTHON_OLDEST
               ? fail_refuse(ret_fail, EINVAL, "%s is CPython 3.%s", python->path, version)
               : 0;
}

int python_outside(const struct box_spec *spec, const char *chosen, char path[PATH_MAX],
                   struct fail *ret_fail)
{
    struct box_spec own = *spec;
    own.aliases.count = 0;
    struct python *python = malloc(sizeof *python);
    if (!python) {
        return fail_set(ret_fail, ENOMEM, "python3");
    }
    int r = trust_find_aliases(&own, ret_fail);
    r = r ? r : trust_check_self(&own, ret_fail);
    r = r ? r : find_outside(&own, chosen, python, ret_fail);
    if (r == 0) {
        memcpy(path, python->path, PATH_MAX);
    }
    trust_forget_aliases(&own);
    free(python);
    return r;
}

int box_python_outside(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    const char *const candidates[] = {"/usr/bin/python3", spec->python, "python3"};
    struct fail fail = {};
    int r = -ENOENT;
    for (unsigned i = 0; r < 0 && i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i]) {
            r = python_outside(spec, candidates[i], path, &fail);
            *ret_fail = spec->python && i > 1 ? *ret_fail : fail; /* of the user's own choice */
        }
    }
    return r;
}

/* --- its packages ---
 *
 * Which well-known ones an interpreter has, by the names of their metadata directories (PyPA,
 * recording installed projects; Debian still writes .egg-info for some). */

enum { VERSION_SIZE = 24, ENTRIES_MOST = 20000 };

/* What a model tries first, in this order. Names are normalised (PEP 503). */
static const char *const well_known[] = {
    "numpy",   "pandas",   "matplotlib",     "scipy",       "scikit-learn", "sympy",
    "pillow",  "requests", "seaborn",        "plotly",      "statsmodels",  "polars",
    "pyarrow", "duckdb",   "openpyxl",       "networkx",    "torch",        "tensorflow",
    "lxml",    "httpx",    "beautifulsoup4", "sqlalchemy",  "xarray",       "numba",
    "nltk",    "pydantic", "pypdf",          "python-docx", "pyyaml",       "jinja2",
    "pip", /* not listed */
};

enum { WELL_KNOWN = sizeof well_known / sizeof *well_known, PIP = WELL_KNOWN - 1 };

/* The normalised form of a character. */
static int normal(char c)
{
    bool separates = c == '-' || c == '_' || c == '.';
    return separates ? '-' : parse_lower(c);
}

/* Whether text[0 … size) equals name, except for case and separators. */
static bool is_name(const char *text, size_t size, const char *name)
{
    size_t same = 0;
    while (same < size && normal(text[same]) == name[same]) { /* false at the end of name */
        same++;
    }
    return same == size && name[size] == '\0';
}

/* Notes the version in "numpy-1.26.4.dist-info", "numpy-1.24.2-py3.11.egg-info" or
 * "pip-23.0.1-py3-none-any.whl". */
static void note_version(const char *entry, char versions[WELL_KNOWN][VERSION_SIZE])
{
    const char *dash = strchr(entry, '-');
    const char *end = dash ? strstr(dash, ".dist-info") : NULL;
    if (dash && !end) {
        end = strstr(dash, ".egg-info");
        end = end ? end : strstr(dash, ".whl");
    }
    if (!end) {
        return;
    }
    size_t size = strspn(dash + 1, "0123456789abcdefghijklmnopqrstuvwxyz.+!");
    size = dash + 1 + size > end ? (size_t)(end - dash - 1) : size;
    for (unsigned i = 0; i < WELL_KNOWN; i++) {
        if (!versions[i][0] && is_name(entry, (size_t)(dash - entry), well_known[i]) && size > 0 &&
            size < VERSION_SIZE) {
            (void)snprintf(versions[i], VERSION_SIZE, "%.*s", (int)size, dash + 1);
        }
    }
}

/* Searches PREFIX/LIB/NAME. */
static void search_directory(const char *prefix, const char *lib, const char *name,
                             char versions[WELL_KNOWN][VERSION_SIZE])
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s/%s", prefix, lib, name);
    defer_closedir DIR *dir = size > 0 && size < PATH_MAX ? opendir(path) : NULL;
    const char *entry = NULL;
    for (unsigned i = 0; i < ENTRIES_MOST && (entry = fd_next_name(dir)); i++) {
        note_version(entry, versions);
    }
}

/* In the order of sys.path: Python imports the first match. */
static void search_all(const struct python *python, char versions[WELL_KNOWN][VERSION_SIZE])
{
    char site[40];
    char dist[40];
    (void)snprintf(site, sizeof site, "%s/site-packages", python->version);
    (void)snprintf(dist, sizeof dist, "%s/dist-packages", python->version);
    if (python->environment[0]) {
        search_directory(python->environment, "lib", site, versions);
        if (!python->system_packages) {
            return;
        }
    }
    if (python->user_base[0]) {
        search_directory(python->user_base, "lib", site, versions);
    }
    search_directory(python->prefix, "lib", site, versions);
    search_directory(python->prefix, "lib64", site, versions);
    search_directory(python->prefix, "local/lib", dist, versions);
    search_directory(python->prefix, "lib", "python3/dist-packages", versions);
}

/* Where guest/installer/confine.py takes a wheel of pip from. */
static void search_pip(const struct python *python, char versions[WELL_KNOWN][VERSION_SIZE])
{
    char bundled[40];
    (void)snprintf(bundled, sizeof bundled, "%s/ensurepip/_bundled", python->version);
    search_directory(python->prefix, "lib", bundled, versions);
    search_directory(python->prefix, "lib64", bundled, versions);
    search_directory("/usr", "share", "python-wheels", versions);
}

void box_python_look(const struct box_spec *spec, struct box_python *ret_python)
{
    char versions[WELL_KNOWN][VERSION_SIZE] = {};
    struct fail fail = {};
    size_t used = 0;
    struct python *python = malloc(sizeof *python);
    *ret_python = (struct box_python){};
    int r = python ? python_expect(spec, python, &fail) : -ENOMEM;
    if (r < 0) {
        (void)snprintf(ret_python->error, FAIL_TEXT, "%s", r == -ENOEXEC ? "" : fail_text(&fail));
        free(python);
        return;
    }
    (void)snprintf(ret_python->version, sizeof ret_python->version, "%s",
                   python->version + strlen("python"));
    search_all(python, versions);
    search_pip(python, versions);
    ret_python->has_pip = versions[PIP][0] != '\0';
    for (unsigned i = 0; i < PIP; i++) {
        char text[64];
        int size =
            snprintf(text, sizeof text, "%s%s %s", used ? ", " : "", well_known[i], versions[i]);
        if (versions[i][0] && used + (size_t)size < sizeof ret_python->packages) {
            memcpy(ret_python->packages + used, text, (size_t)size + 1);
            used += (size_t)size;
        }
    }
    free(python);
}
