#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/trust/trust.h"

enum { SHIM_MS = 10000, HEAD_BYTES = 256 };

static const char remedy[] = "name an interpreter with --python PATH";

/* Reads the first line without "#!", else an empty text. Returns whether the file is a script. */
static bool read_head(const char *path, char head[HEAD_BYTES])
{
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, head, HEAD_BYTES - 1);
    head[size > 0 ? size : 0] = '\0';
    if (size < 2 || head[0] != '#' || head[1] != '!') {
        head[0] = '\0';
        return false;
    }
    head[strcspn(head, "\n")] = '\0';
    memmove(head, head + 2, strlen(head + 2) + 1);
    return true;
}

bool shim_is_script(const char *path)
{
    char head[HEAD_BYTES];
    return read_head(path, head);
}

/* The program that the kernel starts for a script, execve(2). For env(1), the trusted part of PATH
 * is searched. */
static int check_script(const struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    char head[HEAD_BYTES];
    int r = trust_check(spec, "the script", path, remedy, ret_fail);
    if (r < 0 || !read_head(path, head)) {
        return r;
    }
    char *program = head + strspn(head, " \t");
    program[strcspn(program, " \t")] = '\0';
    return *program ? trust_check(spec, "the script's interpreter", program, remedy, ret_fail) : 0;
}

static int check_tree(const struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    return trust_check_tree(spec, "the program that the python script runs,", path, remedy,
                            ret_fail);
}

static int check_entries(const struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    defer_closedir DIR *dir = opendir(path);
    char below[PATH_MAX];
    int r = 0;
    for (const char *name = NULL; r == 0 && (name = fd_next_name(dir));) {
        if (snprintf(below, sizeof below, "%s/%s", path, name) < PATH_MAX) {
            r = check_tree(spec, below, ret_fail);
        }
    }
    return r;
}

/* The root directory of pyenv or asdf. They run what is in it: plugins with their hooks, and
 * versions. Each may be a symlink to where a user keeps it. */
static int check_tool(const struct box_spec *spec, const char *root, struct fail *ret_fail)
{
    static const char *const parts[] = {"", "/plugins", "/versions", "/installs/python"};
    char path[PATH_MAX];
    int r = check_tree(spec, root, ret_fail);
    for (unsigned i = 0; r == 0 && i < sizeof parts / sizeof *parts; i++) {
        if (snprintf(path, sizeof path, "%s%s", root, parts[i]) < PATH_MAX) {
            r = check_entries(spec, path, ret_fail);
        }
    }
    return r;
}

/* Checks ROOT if the script is ROOT/shims/python3, which has ROOT in its text. */
static int check_tool_of_shim(const struct box_spec *spec, const char *script,
                              struct fail *ret_fail)
{
    char root[PATH_MAX];
    char plugins[PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", script);
    char *shims = path_cut_last(root) ? strrchr(root, '/') : NULL;
    if (!shims || strcmp(shims, "/shims") != 0) {
        return 0;
    }
    *shims = '\0';
    bool is_tool = snprintf(plugins, sizeof plugins, "%s/plugins", root) < PATH_MAX &&
                   access(plugins, F_OK) == 0;
    return is_tool ? check_tool(spec, root, ret_fail) : 0;
}

/* Checks the files below the home directory by which the known tools choose a version. They may be
 * symlinks to where a user keeps them in a repository. */
static int check_settings(const struct box_spec *spec, const char *home, struct fail *ret_fail)
{
    static const char *const files[] = {"", "/.tool-versions", "/.asdfrc"};
    static const char *const tools[] = {"/.asdf", "/.pyenv"};
    char path[PATH_MAX];
    int r = 0;
    for (unsigned i = 0; r == 0 && i < sizeof files / sizeof *files; i++) {
        if (snprintf(path, sizeof path, "%s%s", home, files[i]) < PATH_MAX) {
            r = trust_check(spec, "a setting of the python script,", path, remedy, ret_fail);
        }
    }
    for (unsigned i = 0; r == 0 && i < sizeof tools / sizeof *tools; i++) {
        if (snprintf(path, sizeof path, "%s%s", home, tools[i]) < PATH_MAX) {
            r = check_tool(spec, path, ret_fail);
        }
    }
    return r;
}

enum { VARIABLES = 6, VARIABLE_BYTES = PATH_MAX };

struct environment {
    char texts[VARIABLES][VARIABLE_BYTES];
    char *envp[VARIABLES + 1];
    unsigned count;
};

static void add_variable(struct environment *environment, const char *name, const char *value)
{
    char *text = environment->texts[environment->count];
    if (snprintf(text, VARIABLE_BYTES, "%s=%s", name, value) < VARIABLE_BYTES) {
        environment->envp[environment->count++] = text;
        environment->envp[environment->count] = NULL;
    }
}

/* Passes no variable that chooses a version: PYENV_VERSION or ASDF_PYTHON_VERSION may name a
 * path. */
static int fill_environment(const struct box_spec *spec, struct environment *environment,
                            struct fail *ret_fail)
{
    static const char *const directories[] = {"ASDF_DIR", "ASDF_DATA_DIR", "PYENV_ROOT"};
    char path[VARIABLE_BYTES - sizeof "PATH="];
    const char *home = getenv("HOME");
    trust_path(spec, path, sizeof path);
    add_variable(environment, "PATH", path);
    add_variable(environment, "LC_ALL", "C");
    if (home && home[0] == '/') {
        int r = check_settings(spec, home, ret_fail);
        if (r < 0) {
            return r;
        }
        add_variable(environment, "HOME", home);
    }
    for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++) {
        const char *value = getenv(directories[i]);
        if (value && value[0] == '/') {
            int r = check_tool(spec, value, ret_fail);
            if (r < 0) {
                return r;
            }
            add_variable(environment, directories[i], value);
        }
    }
    return 0;
}

/* Reads what the script prints until it exits, closes its output or takes too long. */
static void read_output(int fd, char *answer, size_t size)
{
    uint64_t deadline_ns = clock_now_ns() + SHIM_MS * CLOCK_NS_PER_MS;
    size_t have = 0;
    for (uint64_t now_ns = 0; have < size - 1 && (now_ns = clock_now_ns()) < deadline_ns;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int left_ms = (int)((deadline_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
        ssize_t n = poll(&ready, 1, left_ms) > 0 ? read(fd, answer + have, size - 1 - have) : 0;
        if (n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR))) {
            break;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    answer[have] = '\0';
}

int shim_ask(const struct box_spec *spec, char *path, struct fail *ret_fail)
{
    static char flag[] = "-c";
    static char question[] = "import sys; sys.stdout.write(sys.executable)";
    char *const argv[] = {path, flag, question, NULL};
    char answer[PATH_MAX];
    pid_t pid = 0;
    defer_close int fd = -1;
    int r = check_script(spec, path, ret_fail);
    r = r ? r : check_tool_of_shim(spec, path, ret_fail);
    if (r < 0) {
        return r;
    }
    defer_free struct environment *environment = calloc(1, sizeof *environment);
    if (!environment) {
        return fail_set(ret_fail, ENOMEM, "the interpreter");
    }
    r = fill_environment(spec, environment, ret_fail);
    if (r == 0 && helper_start(path, argv, environment->envp, STDOUT_FILENO, &pid, &fd) == 0) {
        read_output(fd, answer, sizeof answer);
        helper_end(pid);
    } else {
        answer[0] = '\0';
    }
    if (r < 0) {
        return r;
    }
    if (answer[0] != '/' || !helper_is_program(answer)) {
        return fail_set(ret_fail, ENOEXEC,
                        "%s is a script that finds no interpreter when started from / (Sandpiper "
                        "uses the user's settings, not a project's); %s",
                        path, remedy);
    }
    r = trust_check(spec, "the interpreter that the python script names,", answer, remedy,
                    ret_fail);
    if (r == 0) {
        memcpy(path, answer, strlen(answer) + 1);
    }
    return r;
}
