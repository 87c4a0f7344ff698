#include "sandbox/host/python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include "sandbox/host/command.h"
#include "sandbox/host/python.h"
#include "sandbox/host/python_internal.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

enum { PYTHON_LINKS = 16, PYTHON_OLDEST = 9 /* 3.9 */ };

bool python_join(char *out, const char *dir, const char *name)
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size > 0 && size < PATH_MAX;
}

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
