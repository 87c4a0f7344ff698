/* A path argument: tools/files/listing.c checks the bytes, init's files.c opens the path. The
 * target runs in a root of its own, built like a sandbox's, with symlinks, pipes and devices
 * planted in the workspace, and with /proc, whose magic links lead out. Any path opens only a file
 * or a directory of that root, and creates nothing outside.
 *
 * Input: one byte (the mode, and whether a write is completed), then the path. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/protocol/apply_journal.h"
#include "tests/fuzz/fuzz.h"
#include "tools/files/listing.h"

enum { MODE_READ = 3, MODE_BITS = 3, COMPLETE_BIT = 4 };
enum { OUTSIDE = 99 }; /* canary for /proc/self/fd/99: an open directory that no path may reach */

#define PLACE "/sys" /* in our own mount namespace */

static int real_root = -1; /* libFuzzer reads and writes its corpus in the real root */
static int box_root = -1;
static dev_t box_devices[2]; /* of the root and of /work */
static struct wire_reply reply;

static void need(bool ok, const char *what)
{
    if (!ok) {
        printf("path: %s: %s\n", what, strerror(errno));
        exit(77); /* a skip: mount namespaces are refused here */
    }
}

/* Replaces the function of common/processes.c and keeps the reply. */
void reply_send(const struct wire_reply *answer, int fd)
{
    struct stat st;
    reply = *answer;
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
        (st.st_dev != box_devices[0] && st.st_dev != box_devices[1])) {
        abort();
    }
}

void reply_result(uint32_t id, int error)
{
    reply_send(&(struct wire_reply){.event = WIRE_RESPONSE, .id = id, .error = error}, -1);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    (void)close(fd);
}

static void enter_namespaces(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWNS) < 0) {
        need(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
        (void)prctl(PR_SET_DUMPABLE, 1); /* LeakSanitizer attaches to the process at exit */
        write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof map, "0 %u 1", uid);
        write_text("/proc/self/uid_map", map);
        (void)snprintf(map, sizeof map, "0 %u 1", gid);
        write_text("/proc/self/gid_map", map);
    }
    need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
}

static void go_into(int root)
{
    if (fchdir(root) < 0 || chroot(".") < 0) {
        abort();
    }
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *at)
{
    return at->level > 0 ? remove(path) : 0;
}

static void plant(void)
{
    static const char *const links[][2] = {{"/work/file", "inside"},
                                           {"../../../../../../work", "up"},
                                           {"loop", "loop"},
                                           {"/work/nowhere/at/all", "dangling"},
                                           {"/proc/self/root", "root"},
                                           {"/etc", "readonly"}};
    (void)nftw("/work", remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    write_text("/work/file", "text");
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/work/%s", links[i][1]);
        need(symlink(links[i][0], path) == 0, path);
    }
    need(mkfifo("/work/fifo", 0644) == 0 && mkdir("/work/directory", 0755) == 0, "/work");
}

/* Mounts a fresh tmpfs at PLACE, which this program does not need, and enters it. */
static int mount_root(const char *options)
{
    need(mount("tmpfs", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0, PLACE);
    int fd = open(PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(fd >= 0 && fchdir(fd) == 0, PLACE);
    return fd;
}

static void build_root(void)
{
    const struct timespec long_ago[2] = {};
    struct stat st;
    enter_namespaces();
    real_root = open("/", O_PATH | O_CLOEXEC);
    int cwd = open(".", O_PATH | O_CLOEXEC);
    int canary = mount_root("size=64k");
    write_text("secret", "secret");
    need(dup3(canary, OUTSIDE, O_CLOEXEC) == OUTSIDE && close(canary) == 0, "canary");
    need(umount2(PLACE, MNT_DETACH) == 0 && futimens(OUTSIDE, long_ago) == 0, "canary");
    box_root = mount_root("size=1m,nr_inodes=64");
    need(mkdir("work", 0755) == 0 && mkdir("proc", 0755) == 0 && mkdir("etc", 0755) == 0, PLACE);
    write_text("etc/passwd", "user");
    need(mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) == 0, "/proc");
    need(mount("tmpfs", "work", "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,nr_inodes=4096") == 0,
         "/work");
    need(fstat(box_root, &st) == 0, PLACE);
    box_devices[0] = st.st_dev;
    need(stat("work", &st) == 0, "/work");
    box_devices[1] = st.st_dev;
    need(mount(NULL, PLACE, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) ==
             0,
         "read-only root");
    need(fchdir(cwd) == 0 && close(cwd) == 0, "working directory");
}

/* Enters the namespaces before libFuzzer starts its threads. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *, char ***)
{
    build_root();
    return 0;
}

static void check_outside(void)
{
    struct stat now;
    if (fstat(OUTSIDE, &now) < 0 || now.st_mtim.tv_sec != 0) {
        abort();
    }
}

static void ask(struct wire_request *request, enum wire_op op)
{
    static const struct init init = {.paths = {.work = "/work"}};
    request->op = op;
    if (!files_serve(&init, request)) {
        abort();
    }
}

static void run(struct wire_request *request, unsigned mode, bool complete)
{
    if (mode == MODE_READ) {
        ask(request, WIRE_OPEN_READ);
        return;
    }
    ask(request, WIRE_RESOLVE);
    if (!reply.error) {
        const char *path = reply.path + (reply.path[0] == '/');
        if (*path && strcmp(path, ".") != 0 && !apply_path_is_valid(path)) {
            abort();
        }
        memcpy(request->path, reply.path, sizeof request->path);
    }
    request->write_mode = mode;
    ask(request, WIRE_OPEN_WRITE);
    if (reply.token) {
        request->token = reply.token;
        ask(request, complete ? WIRE_COMMIT : WIRE_ABORT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire_request request;
    static struct box_spec spec;
    box_spec_init(&spec);
    spec.workspace = "/srv/work";
    static bool changed = true;
    if (box_root < 0) {
        build_root();
    }
    if (size == 0) {
        return 0;
    }
    json_t *argument = json_stringn_nocheck((const char *)data + 1, size - 1);
    request = (struct wire_request){.id = 1};
    if (argument && !path_take(&spec, argument, request.path)) {
        int cwd = open(".", O_PATH | O_CLOEXEC);
        go_into(box_root);
        (void)chdir("/work");
        if (changed) {
            plant();
        }
        changed = (data[0] & MODE_BITS) != MODE_READ;
        run(&request, data[0] & MODE_BITS, data[0] & COMPLETE_BIT);
        check_outside();
        go_into(real_root);
        (void)fchdir(cwd);
        (void)close(cwd);
    }
    json_decref(argument);
    return 0;
}
