#include "cli/commands.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "cli/terminal.h"
#include "sandbox/sandbox.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

enum { EXIT_NO_PYTHON = 1, NAME_BYTES = 128 };

/* A descriptor of the zip file that the interpreter inherits, or -errno. */
static int open_zip(const struct embedded *zip)
{
    defer_close int fd = memfd_create(zip->name, MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(zip->name, 0);
    }
    int r = fd < 0 ? -errno : fd_write_all(fd, zip->data, zip->size);
    return r < 0 ? r : take_fd(&fd);
}

/* Takes away what chooses code for the interpreter in spite of -E: CPython 3.11 takes
 * PYTHONEXECUTABLE and __PYVENV_LAUNCHER__ (Modules/getpath.py), OpenSSL the modules of
 * OPENSSL_CONF, openssl-env(7). And what may have a password: no such program connects. */
static void clean_environment(void)
{
    static const char *const prefixes[] = {"PYTHON",     "__PYVENV_LAUNCHER__", "OPENSSL_",
                                           "http_proxy", "https_proxy",         "all_proxy",
                                           "HTTP_PROXY", "HTTPS_PROXY",         "ALL_PROXY"};
    char name[NAME_BYTES];
    for (size_t i = 0; environ && environ[i];) {
        const char *end = strchr(environ[i], '=');
        size_t size = end ? (size_t)(end - environ[i]) : 0;
        bool goes = false;
        for (unsigned k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
            goes = goes || strncmp(environ[i], prefixes[k], strlen(prefixes[k])) == 0;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)size, environ[i]);
        i = goes && size > 0 && size < sizeof name && unsetenv(name) == 0 ? 0 : i + 1;
    }
}

/* Returns an errno value. */
static int start(const char *path, const struct outside_program *program)
{
    char zip[32];
    /* -I and -E: no variables and no current directory, -S: no packages, -B: no bytecode files. */
    const char *const first[] = {path, "-I", "-E", "-S", "-B", "-X", "utf8", zip};
    size_t count = sizeof first / sizeof *first;
    size_t words = 0;
    defer_close int fd = open_zip(program->zip);
    while (program->words[words]) {
        words++;
    }
    const char **argv = fd < 0 ? NULL : calloc(count + words + 1, sizeof *argv);
    if (!argv) {
        return fd < 0 ? -fd : ENOMEM;
    }
    (void)snprintf(zip, sizeof zip, "/proc/self/fd/%d", fd);
    clean_environment();
    memcpy(argv, first, sizeof first);
    memcpy(argv + count, program->words, words * sizeof *argv);
    (void)execv(path, (char *const *)(uintptr_t)argv);
    int error = errno;
    free(argv);
    return error;
}

int outside_python_run(const struct box_spec *spec, const struct outside_program *program)
{
    char path[PATH_MAX];
    struct fail fail = {};
    if (box_python_outside(spec, path, &fail) < 0) {
        terminal_say("%s needs a CPython 3.9 or newer (--python PATH): %s", program->name,
                     fail_text(&fail));
    } else {
        (void)fflush(stdout);
        terminal_say("%s: cannot start %s: %s", program->name, path,
                     strerror(start(path, program)));
    }
    return EXIT_NO_PYTHON;
}
