/* --ca-cert: the certificates that programs in the sandbox and installers trust. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/pem.h"
#include "cli/flags.h"

enum { FILE_BYTES = 4 << 20, VARIABLES = 6, FILES = INSTALL_WORDS + VARIABLES + 2 };

/* Where distributions keep the certificates that the machine trusts. */
static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};

/* With which users tell their own programs. */
static const char *variable(unsigned i)
{
    const char *const values[] = {getenv("SSL_CERT_FILE"),  getenv("REQUESTS_CA_BUNDLE"),
                                  getenv("CURL_CA_BUNDLE"), getenv("NODE_EXTRA_CA_CERTS"),
                                  getenv("PIP_CERT"),       getenv("GIT_SSL_CAINFO")};
    return values[i];
}

/* The certificates so far, and the files that they are from. */
struct trusted {
    struct buf text;
    struct stat seen[FILES];
    unsigned count;
};

static bool is_seen(struct trusted *trusted, const struct stat *status)
{
    for (unsigned i = 0; i < trusted->count; i++) {
        if (trusted->seen[i].st_dev == status->st_dev &&
            trusted->seen[i].st_ino == status->st_ino) {
            return true;
        }
    }
    trusted->seen[trusted->count++] = *status;
    return false;
}

/* Appends the certificates of a file, unless they are there. Returns NULL, or a clause that says
 * why it cannot be taken. */
static const char *take_file(struct trusted *trusted, const char *path)
{
    struct stat status;
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0) {
        return strerror(errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
    }
    if (status.st_size > FILE_BYTES) {
        return "it has more than 4 MiB";
    }
    if (trusted->count == FILES || is_seen(trusted, &status)) {
        return NULL;
    }
    defer_free char *bytes = malloc((size_t)status.st_size + 1);
    ssize_t size = bytes ? fd_pread_all(fd, bytes, (size_t)status.st_size, 0) : -ENOMEM;
    const char *why = size < 0 ? strerror((int)-size)
                               : pem_take_certificates(bytes, (size_t)size, &trusted->text);
    return why || !buf_error(&trusted->text) ? why : strerror(ENOMEM);
}

/* The first bundle of the system, without symlinks, so that it can be mounted over. */
static const char *find_bundle(void)
{
    static char path[PATH_MAX];
    for (unsigned i = 0; i < sizeof bundles / sizeof *bundles; i++) {
        if (access(bundles[i], R_OK) == 0 && realpath(bundles[i], path)) {
            return path;
        }
    }
    return NULL;
}

void ca_take(struct options *options, const struct flag *flag, const char *value)
{
    struct trusted trusted = {.text = BUF_EMPTY};
    const char *why = take_file(&trusted, value);
    buf_done(&trusted.text);
    if (why) {
        options_error(options, "--%s %.200s: %s", flag->name, value, why);
    } else {
        install_take_words(options, flag, value);
    }
}

void ca_resolve(struct options *options)
{
    static struct trusted trusted = {.text = BUF_EMPTY};
    static struct embedded row = {.name = BOX_BUNDLE};
    const char *system = find_bundle();
    struct stat status;
    buf_clear(&trusted.text, 0);
    trusted.count = 0;
    if (system && stat(system, &status) == 0) {
        (void)is_seen(&trusted, &status); /* it is read only if there are others */
    }
    for (unsigned i = 0; i < options->ca.count; i++) {
        (void)take_file(&trusted, options->ca.at[i]); /* ca_take() has checked it */
    }
    for (unsigned i = 0; i < VARIABLES; i++) {
        const char *path = variable(i);
        const char *why = path && *path ? take_file(&trusted, path) : NULL;
        if (why && options->command == COMMAND_SERVE) {
            log_warn("cli", "the certificates of %.200s are not trusted: %s", path, why);
        }
    }
    options->spec.certificates = system;
    if (buf_size(&trusted.text) > 0) {
        trusted.count = 0;
        (void)(system && take_file(&trusted, system));
    }
    if (buf_size(&trusted.text) > 0 && buf_append(&trusted.text, "", 1) == 0) {
        row.data = (const unsigned char *)buf_bytes(&trusted.text);
        row.size = buf_size(&trusted.text) - 1;
        options->spec.bundle = &row;
    }
    if (options->ca.count > 0 && !system && options->command == COMMAND_SERVE) {
        log_warn("cli",
                 "this machine has no bundle of certificates: only those of --ca-cert are trusted; "
                 "a further --ca-cert can name certifi's cacert.pem");
    }
}
