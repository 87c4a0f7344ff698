/* Where the files of sandboxes without a root of their own are:
 *
 *   PARENT/sandpiper-XXXXXXXX/   no other user can change what is in it
 *     .sandpiper-lock            held while the server lives; without a holder the rest is garbage
 *     run/, installer/           the guest's and the installer's program; sandboxes can only read
 *     work/, tmp/, home/         what code writes to, made anew for each sandbox
 *     output/                    overflow files: init writes there, and Landlock lets code read
 *     rubbish-N/                 previous contents, until the cleanup helper has removed them
 *
 * The cleanup helper (programs/cleanup) starts before the directory is made, and outlives the
 * server. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/python.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/scratch.h"
#include "sandbox/trust/trust.h"
#include "sandbox/unprivileged/unprivileged.h"

/* systemd's range for dynamic users, UIDS-GIDS.md of its documentation: no distribution assigns
 * them, and a container's map usually has them. */
enum {
    POOL_FIRST = 61184,
    POOL_LAST = 65519,
    POOL_STEP = 4, /* the guest's, its supervisor's, the egress proxy's */
    INSTALLER_SUPERVISOR = POOL_LAST - 1,
    INSTALLER = POOL_LAST,
    POOL_BLOCKS = (INSTALLER_SUPERVISOR - POOL_FIRST) / POOL_STEP,
};

static bool gives_ids(void)
{
    static const cap_value_t needed[] = {CAP_SETUID, CAP_SETGID,       CAP_CHOWN,
                                         CAP_KILL,   CAP_DAC_OVERRIDE, CAP_FOWNER};
    static int gives = -1;
    if (gives < 0) {
        gives = geteuid() == 0 && idmap_covers(POOL_FIRST) && idmap_covers(POOL_LAST) &&
                idmap_has_capabilities(needed, sizeof needed / sizeof *needed);
    }
    return gives;
}

/* Whether a process runs under one of a block's ids: of a server that was killed together with its
 * supervisor, or a service to which systemd assigned one. */
static bool is_in_use(uid_t first)
{
    defer_closedir DIR *proc = opendir("/proc");
    struct stat st;
    bool used = false;
    for (const char *name = NULL; !used && (name = fd_next_name(proc));) {
        used = name[0] >= '1' && name[0] <= '9' && fstatat(dirfd(proc), name, &st, 0) == 0 &&
               st.st_uid >= first && st.st_uid < first + POOL_STEP;
    }
    return used;
}

/* Holds a block as long as this process lives. An abstract socket (unix(7)) leaves nothing behind,
 * and processes that see one another's ids usually share a network namespace. Returns the block's
 * first uid, or 0. */
static uid_t take_block(void)
{
    static uid_t taken;
    for (unsigned i = 0; !taken && i < POOL_BLOCKS; i++) {
        uid_t first = POOL_FIRST + ((unsigned)getpid() + i) % POOL_BLOCKS * POOL_STEP;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int size = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "sandpiper-uid-%u", first);
        defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return 0;
        }
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
        if (bind(fd, (const struct sockaddr *)&name, length) == 0 && !is_in_use(first)) {
            taken = first;
            (void)take_fd(&fd); /* held until this process exits */
        }
    }
    return taken;
}

bool uid_pool_all_reach(const char *path)
{
    char directory[PATH_MAX];
    struct stat st;
    if (stat(path, &st) < 0 || !(st.st_mode & S_IROTH) || !(st.st_mode & S_IXOTH) ||
        !realpath(path, directory)) {
        return false;
    }
    while (path_cut_last(directory) && directory[0]) {
        if (stat(directory, &st) < 0 || !(st.st_mode & S_IXOTH)) {
            return false;
        }
    }
    return true;
}

/* workspace: NULL, or a directory of the user's: code runs as its owner. needed: NULL-terminated
 * paths of programs and directories that code must be able to reach, because it sees the host's own
 * paths. */
static void uid_pool_choose(const char *workspace, const char *const *needed,
                            struct uid_pool *ret_ids)
{
    struct stat st = {};
    const uid_t self = geteuid();
    *ret_ids = (struct uid_pool){self, getegid(), self, self, self, self, .own = false};
    bool gives = gives_ids() && (!workspace || (stat(workspace, &st) == 0 && st.st_uid != 0));
    for (; gives && *needed; needed++) {
        gives = uid_pool_all_reach(*needed);
    }
    uid_t first = gives ? take_block() : 0;
    if (first) {
        *ret_ids = (struct uid_pool){.guest = workspace ? st.st_uid : first,
                                     .group = workspace && st.st_gid ? st.st_gid : first,
                                     .supervisor = first + 1,
                                     .proxy = first + 2,
                                     .installer = INSTALLER,
                                     .installer_supervisor = INSTALLER_SUPERVISOR,
                                     .own = !workspace};
    }
}

enum {
    OPEN_DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
    NAME_BYTES = sizeof SCRATCH_PREFIX + 8,
    PLAIN_SCRATCH_MODE = 0700,
    OTHERS_SCRATCH_MODE = 0711, /* the sandboxes' user may pass through it, but not list it */
};

/* --- the parent --- */

/* The scratch directory's path is used in lists with colons and in Python source. */
static bool is_plain(const char *path)
{
    return path[0] == '/' && strspn(path,
                                    "/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789+,-.=@_~") == strlen(path);
}

/* Whether others could put something in place of the scratch directory. If root belongs to another
 * user namespace, its name is the overflow id: so any owner's sticky directory will do. */
static bool is_safe(const struct stat *st)
{
    bool own = st->st_uid == geteuid() || st->st_uid == 0;
    return S_ISDIR(st->st_mode) &&
           (st->st_mode & S_ISVTX || (own && !(st->st_mode & (S_IWGRP | S_IWOTH))));
}

/* Opens directory if the scratch directory can be made there. Returns the descriptor or -1. */
static int open_parent(const char *directory, const struct box_spec *spec, char path[PATH_MAX])
{
    struct stat st;
    struct trust_place place = trust_meets(spec, directory ? directory : "");
    /* The shared memory of other programs is no place of code's once the scratch directory is in
     * it. */
    if (!directory || (place.path && !place.shared_memory) || !realpath(directory, path) ||
        !is_plain(path) || strlen(path) + 1 + NAME_BYTES >= SCRATCH_PATH_BYTES ||
        (geteuid() == 0 && !uid_pool_all_reach(path))) { /* sandboxes may have a separate user */
        return -1;
    }
    defer_close int fd = open(path, OPEN_DIRECTORY | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !is_safe(&st) || faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        return -1;
    }
    return take_fd(&fd);
}

/* --- the scratch directory --- */

static int make_directory(int parent_fd, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    if (mkdirat(parent_fd, name, 0700) < 0) {
        return -errno;
    }
    defer_close int fd = openat(parent_fd, name, OPEN_DIRECTORY | O_NOFOLLOW);
    bool same = uid == geteuid() && gid == getegid();
    if (fd < 0 || (!same && fchown(fd, uid, gid) < 0) || fchmod(fd, mode) < 0) {
        return -errno;
    }
    return 0;
}

/* bundle: one more file, or NULL. */
static int write_files(const struct box_scratch *scratch, const char *directory,
                       const struct embedded *files, const struct embedded *bundle)
{
    int r = make_directory(scratch->fd, directory, 0755, geteuid(), getegid());
    defer_close int fd = r ? -1 : openat(scratch->fd, directory, OPEN_DIRECTORY | O_NOFOLLOW);
    for (const struct embedded *file = files; r == 0 && file; file = file == bundle     ? NULL
                                                                     : (file + 1)->name ? file + 1
                                                                                        : bundle) {
        const char *slash = strchr(file->name, '/');
        char parent[64] = "";
        if (slash) {
            (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - file->name), file->name);
            r = make_directory(fd, parent, 0755, geteuid(), getegid());
            r = r == -EEXIST ? 0 : r; /* made for the file before */
        }
        defer_close int to =
            openat(fd, file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        r = r ? r : to < 0 ? -errno : fd_write_all(to, file->data, file->size);
        r = r == 0 && fchmod(to, embedded_mode(file)) < 0 ? -errno : r;
    }
    return r;
}

static int make_scratch(struct box_scratch *scratch, const struct box_spec *spec)
{
    *scratch->cleanup = (struct cleanup){.kind = CLEANUP_SCRATCH,
                                         .name = scratch->name,
                                         .parents = &scratch->parent_fd,
                                         .parent_count = 1};
    int r = cleanup_add(scratch->cleanup);
    r = r ? r
          : make_directory(scratch->parent_fd, scratch->name, PLAIN_SCRATCH_MODE, geteuid(),
                           getegid());
    if (r < 0) {
        return r;
    }
    scratch->fd = openat(scratch->parent_fd, scratch->name, OPEN_DIRECTORY | O_NOFOLLOW);
    if (scratch->fd < 0) {
        return -errno;
    }
    scratch->lock_fd = cleanup_lock(scratch->fd, SCRATCH_LOCK);
    return scratch->lock_fd < 0 ? scratch->lock_fd
                                : write_files(scratch, "run", spec->guest, spec->bundle);
}

struct made {
    struct box_scratch scratch; /* first, so that both have the same address */
    struct cleanup cleanup;
};

/* Makes it in the first usual place that will do. */
static int find_place(struct box_scratch *scratch, const struct box_spec *spec,
                      struct fail *ret_fail)
{
    const char *const directories[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    char path[PATH_MAX] = "";
    uint32_t random = 0;
    for (unsigned i = 0; scratch->parent_fd < 0 && i < sizeof directories / sizeof *directories;
         i++) {
        scratch->parent_fd = open_parent(directories[i], spec, path);
    }
    if (scratch->parent_fd < 0) {
        return fail_refuse(
            ret_fail, ENOENT,
            "no directory for temporary files: none of $TMPDIR, /tmp and /dev/shm is "
            "writable and outside the workspace and the writable --mount directories");
    }
    (void)getrandom(&random, sizeof random, 0);
    (void)snprintf(scratch->path, sizeof scratch->path, "%s/" SCRATCH_PREFIX "%08x",
                   path[1] ? path : "", random);
    scratch->name = strrchr(scratch->path, '/') + 1;
    return 0;
}

static void point_to(struct box_scratch *scratch, struct box_spec *spec)
{
    spec->scratch = scratch;
    spec->paths = (struct box_paths){
        .work = spec->workspace ? scratch->workspace : scratch->work,
        .tmp = scratch->tmp,
        .home = scratch->home,
        .output = scratch->output,
        .run = scratch->run,
    };
}

/* A separate uid is useful only where it can reach the interpreter. */
static void choose_ids(struct box_scratch *scratch, const struct box_spec *spec)
{
    defer_free struct python *python = calloc(1, sizeof *python);
    struct fail fail = {};
    char parent[SCRATCH_PATH_BYTES];
    const char *needed[PYTHON_DIRECTORIES + 3] = {parent, ""}; /* not found: no id reaches it */
    unsigned count = 1;
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(scratch->name - scratch->path),
                   scratch->path);
    if (python && python_expect(spec, python, &fail) == 0) {
        needed[count++] = python->path;
        for (unsigned i = 0; i < python->directory_count; i++) {
            needed[count++] = python->directories[i];
        }
        needed[count] = NULL;
    }
    uid_pool_choose(spec->workspace, needed, &scratch->ids);
    if (scratch->ids.guest != geteuid()) {
        (void)fchmod(scratch->fd, OTHERS_SCRATCH_MODE);
    }
}

int box_scratch_open(struct box_spec *spec, struct box_scratch **ret_scratch, struct fail *ret_fail)
{
    spec->scratch = NULL;
    namespace_check_resolve(spec);
    if (level_expected(spec->isolation) != BOX_CONTAINER) {
        *ret_scratch = NULL;
        return 0;
    }
    struct made *made = calloc(1, sizeof *made);
    if (!made) {
        return fail_set(ret_fail, ENOMEM, "the scratch directory");
    }
    struct box_scratch *scratch = &made->scratch;
    scratch->cleanup = &made->cleanup;
    scratch->parent_fd = -1;
    scratch->fd = -1;
    scratch->lock_fd = -1;
    if (spec->workspace && !realpath(spec->workspace, scratch->workspace)) {
        /* The plan reports errors. */
        (void)snprintf(scratch->workspace, sizeof scratch->workspace, "%s", spec->workspace);
    }
    int r = find_place(scratch, spec, ret_fail);
    if (r == 0) {
        (void)snprintf(scratch->work, sizeof scratch->work, "%s/work", scratch->path);
        (void)snprintf(scratch->tmp, sizeof scratch->tmp, "%s/tmp", scratch->path);
        (void)snprintf(scratch->home, sizeof scratch->home, "%s/home", scratch->path);
        (void)snprintf(scratch->output, sizeof scratch->output, "%s/output", scratch->path);
        (void)snprintf(scratch->run, sizeof scratch->run, "%s/run", scratch->path);
        (void)snprintf(scratch->installer, sizeof scratch->installer, "%s/installer",
                       scratch->path);
        r = make_scratch(scratch, spec);
        r = r < 0 ? fail_set(ret_fail, -r, "cannot create the directory %s", scratch->path) : 0;
    }
    if (r < 0) {
        box_scratch_close(scratch);
        return r;
    }
    choose_ids(scratch, spec);
    point_to(scratch, spec);
    *ret_scratch = scratch;
    return 0;
}

void box_scratch_close(struct box_scratch *scratch)
{
    if (!scratch) {
        return;
    }
    cleanup_remove(scratch->cleanup, /* wait= */ true);
    drop_fd(&scratch->lock_fd);
    drop_fd(&scratch->fd);
    drop_fd(&scratch->parent_fd);
    free(scratch);
}

/* --- what sandboxes write to --- */

int scratch_prepare(struct box_scratch *scratch, uid_t uid, gid_t gid, struct fail *ret_fail)
{
    static const char *const names[] = {"work", "tmp", "home", "output"};
    int r = fchmod(scratch->fd, uid == geteuid() ? PLAIN_SCRATCH_MODE : OTHERS_SCRATCH_MODE) < 0
                ? -errno
                : 0;
    for (unsigned i = 0; r == 0 && i < sizeof names / sizeof *names; i++) {
        r = cleanup_discard(scratch->fd, names[i]);
        r = r && r != -ENOENT ? r
                              : make_directory(scratch->fd, names[i], PLAIN_SCRATCH_MODE, uid, gid);
    }
    return r < 0 ? fail_set(ret_fail, -r, "cannot create directories in %s", scratch->path) : 0;
}

int scratch_add_installer(struct box_scratch *scratch, const struct embedded *files,
                          const struct embedded *bundle, struct box_paths *paths,
                          struct fail *ret_fail)
{
    int r = scratch->has_installer ? 0 : write_files(scratch, "installer", files, bundle);
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot create the directory %s", scratch->installer);
    }
    scratch->has_installer = true;
    paths->run = scratch->installer;
    return 0;
}

int scratch_copy_file(struct box_scratch *scratch, enum scratch_copy copy, const char *from,
                      const char **ret_path, struct fail *ret_fail)
{
    static const char *const names[SCRATCH_COPIES] = {"installer/constraint",
                                                      "installer/certificate"};
    static const char fresh[] = "installer/copy";
    struct stat st;
    defer_close int from_fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (from_fd < 0 || fstat(from_fd, &st) < 0) {
        return fail_set(ret_fail, errno, "%s", from);
    }
    if (!S_ISREG(st.st_mode)) {
        return fail_set(ret_fail, EINVAL, "%s is not a file", from);
    }
    (void)unlinkat(scratch->fd, fresh, 0);
    defer_close int to_fd =
        openat(scratch->fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    int r = to_fd < 0 ? -errno : fd_copy_all(from_fd, to_fd);
    /* An exiting installer may still have the previous file open. */
    if (r == 0 &&
        (fchmod(to_fd, 0444) < 0 || renameat(scratch->fd, fresh, scratch->fd, names[copy]) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot copy %s into %s", from, scratch->installer);
    }
    char path[sizeof scratch->copies[copy]];
    (void)snprintf(path, sizeof path, "%s/%s", scratch->path, names[copy]);
    memcpy(scratch->copies[copy], path, sizeof path);
    *ret_path = scratch->copies[copy];
    return 0;
}

/* The end of a sandbox without a pid namespace. Its supervisor
 * (programs/init/supervisor/supervisor.c) kills everything when its socket ends. If the supervisor
 * itself was killed, its orphans become children of the server, which is a subreaper too. Without a
 * supervisor no orphan can fork any more, because it handles fork notifications. */

enum {
    SUPERVISOR_MS =
        300, /* for it to kill all processes; if it is stopped itself, the server does that */
    SWEEPS = 200,
    SWEEP_NS = 1000000,
};

void supervisor_prepare(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_leave_memory_out_of_cores();
    /* Keeps the user's other processes from reading the server's memory and descriptors, see
     * proc(5). */
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* Whether a child of the server was a guest: only guests have these limits, which can be lowered
 * and never raised (rlimits.c). The server's own children have its limits. */
static bool was_guest(pid_t pid)
{
    static const struct {
        const char *name;
        uint64_t most;
    } limits[] = {{"Max core file size", 1},
                  {"Max pending signals", RLIMITS_SIGPENDING},
                  {"Max msgqueue size", WIRE_TAG_ZYGOTE}};
    char path[48];
    char text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof text) < 0 ||
        parse_field(text, "PPid:", 0) != (uint64_t)getpid()) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    bool limited = fd_read_text_at(AT_FDCWD, path, text, sizeof text) > 0;
    for (unsigned i = 0; limited && i < sizeof limits / sizeof *limits; i++) {
        limited = parse_field(text, limits[i].name, UINT64_MAX) <= limits[i].most;
    }
    return limited;
}

/* Kills the guests that are the server's children. Returns their number. */
static unsigned sweep(void)
{
    defer_closedir DIR *dir = opendir("/proc");
    unsigned count = 0;
    for (pid_t pid = 0; (pid = fd_next_number(dir)) > 0;) {
        if (pid > 1 && was_guest(pid)) {
            count++;
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, WNOHANG | __WALL);
        }
    }
    return count;
}

/* Removes what code has left in the one directory that it shares with others, if its ownership is
 * certain. */
static void clear_shared_memory(const struct plan *plan)
{
    struct stat st;
    defer_closedir DIR *dir = plan->own_uid ? opendir("/dev/shm") : NULL;
    for (const char *name = NULL; dir && (name = fd_next_name(dir));) {
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_uid == plan->outside_uid) {
            (void)unlinkat(dirfd(dir), name, 0);
        }
    }
}

static bool reap_all(struct box *box)
{
    int status = 0;
    struct pollfd ended = {.fd = box->child.pidfd, .events = POLLIN};
    /* If the child still waits for its group, this ends the wait. */
    drop_fd(&box->child.go_fd);
    (void)shutdown(box->init.fd, SHUT_RDWR);
    if (box->child.pidfd < 0 || poll(&ended, 1, SUPERVISOR_MS) != 1) {
        log_debug("sandbox", "the supervisor did not exit and is being killed");
        (void)kill(box->child.pid, SIGKILL);
    }
    while (waitpid(box->child.pid, &status, __WALL) < 0 && errno == EINTR) {
    }
    box->child.pid = 0;
    if (WIFEXITED(status)) {
        return true; /* it has killed all processes and checked that */
    }
    unsigned left = sweep();
    for (unsigned i = 0; left > 0 && i < SWEEPS; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = SWEEP_NS}, NULL);
        left = sweep();
    }
    return left == 0;
}

bool supervisor_reap(struct box *box)
{
    bool gone = reap_all(box);
    clear_shared_memory(&box->plan);
    return gone;
}
