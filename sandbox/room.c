/* Where the files of boxes without a root of their own lie:
 *
 *   PARENT/sandpiper-XXXXXXXX/   nobody else can change what is in it
 *     .sandpiper-room            held as long as the server lives: without a holder the room is rubbish
 *     run/, errand/              the guest's and the installer's program, which no box can write to
 *     work/, tmp/, home/         what code writes to, made anew for each box
 *     output/                    whole outputs: init writes there, and code's Landlock rules let it read
 *     rubbish-N/                 what was in them, until the sweeper has removed it
 *
 * The sweeper (init/sweeper.c) is there before the room is, and outlives the server. */
#include "sandbox/room.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/grade/rehearsal.h"
#include "sandbox/grade/surrounding.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/python/python.h"
#include "sandbox/room_inside.h"
#include "sandbox/trust/trust.h"

#define ROOM_PREFIX "sandpiper-"

enum {
    OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
    NAME_BYTES = sizeof ROOM_PREFIX + 8,
    PLAIN_ROOM_MODE = 0700,
    OTHERS_ROOM_MODE = 0711, /* the boxes' user goes through it, and sees nothing */
};

/* --- the parent --- */

/* The room's path stands in lists with colons and in Python source. */
static bool is_plain(const char *path)
{
    return path[0] == '/' && strspn(path,
                                    "/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789+,-.=@_~") == strlen(path);
}

/* Whether others could put something in place of the room. Where root is of another user namespace its
 * name is the overflow id: so a sticky folder will do, whosoever it is. */
static bool is_safe(const struct stat *st)
{
    bool own = st->st_uid == geteuid() || st->st_uid == 0;
    return S_ISDIR(st->st_mode) &&
           (st->st_mode & S_ISVTX || (own && !(st->st_mode & (S_IWGRP | S_IWOTH))));
}

/* Opens folder, if the room can be there. Returns the descriptor or -1. */
static int open_parent(const char *folder, const struct box_spec *spec, char path[PATH_MAX])
{
    struct stat st;
    if (!folder || trust_meets(spec, folder).path || !realpath(folder, path) || !is_plain(path) ||
        strlen(path) + 1 + NAME_BYTES >= ROOM_PATH_BYTES ||
        (geteuid() == 0 && !ids_all_reach(path))) { /* boxes may have a user of their own */
        return -1;
    }
    defer_close int fd = open(path, OPEN_FOLDER | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !is_safe(&st) || faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        return -1;
    }
    return take_fd(&fd);
}

/* --- the room --- */

static int make_folder(int parent_fd, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    if (mkdirat(parent_fd, name, 0700) < 0) {
        return -errno;
    }
    defer_close int fd = openat(parent_fd, name, OPEN_FOLDER | O_NOFOLLOW);
    bool same = uid == geteuid() && gid == getegid();
    if (fd < 0 || (!same && fchown(fd, uid, gid) < 0) || fchmod(fd, mode) < 0) {
        return -errno;
    }
    return 0;
}

/* Taken before anything is in the room. */
static int take_lock(struct box_room *room)
{
    struct stat st;
    room->lock_fd =
        openat(room->fd, ROOM_LOCK, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (room->lock_fd < 0 || flock(room->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
        fstat(room->lock_fd, &st) < 0) {
        return -errno;
    }
    return st.st_nlink > 0 ? 0 : -ENOENT; /* swept away: this machine slept on the way here */
}

static int write_files(const struct box_room *room, const char *folder,
                       const struct embedded *files)
{
    int r = make_folder(room->fd, folder, 0755, geteuid(), getegid());
    defer_close int fd = r ? -1 : openat(room->fd, folder, OPEN_FOLDER | O_NOFOLLOW);
    for (const struct embedded *file = files; r == 0 && file && file->name; file++) {
        const char *slash = strchr(file->name, '/');
        char directory[64] = "";
        if (slash) {
            (void)snprintf(directory, sizeof directory, "%.*s", (int)(slash - file->name),
                           file->name);
            r = make_folder(fd, directory, 0755, geteuid(), getegid());
        }
        defer_close int to =
            openat(fd, file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        r = r ? r : to < 0 ? -errno : fd_write_all(to, file->data, file->size);
        r = r == 0 && fchmod(to, 0444) < 0 ? -errno : r;
    }
    return r;
}

static int make_room(struct box_room *room, const struct box_spec *spec)
{
    int r = sweeper_start(&room->sweeper, room->parent_fd, room->name, ROOM_PREFIX);
    r = r ? r : make_folder(room->parent_fd, room->name, PLAIN_ROOM_MODE, geteuid(), getegid());
    if (r < 0) {
        return r;
    }
    room->fd = openat(room->parent_fd, room->name, OPEN_FOLDER | O_NOFOLLOW);
    r = room->fd < 0 ? -errno : take_lock(room);
    return r ? r : write_files(room, "run", spec->guest);
}

/* Below the first of the usual places that will do. */
static int find_place(struct box_room *room, const struct box_spec *spec, struct fail *ret_fail)
{
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    char path[PATH_MAX] = "";
    uint32_t random = 0;
    for (unsigned i = 0; room->parent_fd < 0 && i < sizeof folders / sizeof *folders; i++) {
        room->parent_fd = open_parent(folders[i], spec, path);
    }
    if (room->parent_fd < 0) {
        (void)fail_set(ret_fail, 0,
                       "there is no folder for temporary files: neither $TMPDIR nor /tmp nor "
                       "/dev/shm can be written to, outside of the workspace and what is "
                       "mounted to be written");
        return -ENOENT;
    }
    (void)getrandom(&random, sizeof random, 0);
    (void)snprintf(room->path, sizeof room->path, "%s/" ROOM_PREFIX "%08x", path[1] ? path : "",
                   random);
    room->name = strrchr(room->path, '/') + 1;
    return 0;
}

static void point_to(struct box_room *room, struct box_spec *spec)
{
    spec->room = room;
    spec->view = (struct box_view){
        .work = spec->workspace ? room->workspace : room->work,
        .tmp = room->tmp,
        .home = room->home,
        .output = room->output,
        .run = room->run,
    };
}

/* Other ids are of use only where the interpreter can be reached with them. */
static void choose_ids(struct box_room *room, const struct box_spec *spec)
{
    struct python *python = calloc(1, sizeof *python);
    struct fail fail = {};
    char parent[ROOM_PATH_BYTES];
    const char *needed[PYTHON_FOLDERS + 3] = {parent, ""}; /* not found: nobody reaches it */
    unsigned count = 1;
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(room->name - room->path), room->path);
    if (python && python_expect(spec, python, &fail) == 0) {
        needed[count++] = python->path;
        for (unsigned i = 0; i < python->folder_count; i++) {
            needed[count++] = python->folders[i];
        }
        needed[count] = NULL;
    }
    ids_choose(spec->workspace, needed, &room->ids);
    if (room->ids.guest != geteuid()) {
        (void)fchmod(room->fd, OTHERS_ROOM_MODE);
    }
    free(python);
}

int box_room_open(struct box_spec *spec, struct box_room **ret_room, struct fail *ret_fail)
{
    spec->room = NULL;
    rehearsal_settle(spec);
    cgroup_fit_memory(spec);
    if (surrounding_expect(spec->isolation) != BOX_CONTAINER) {
        *ret_room = NULL;
        return 0;
    }
    struct box_room *room = calloc(1, sizeof *room);
    if (!room) {
        return fail_set(ret_fail, ENOMEM, "the room");
    }
    room->parent_fd = -1;
    room->fd = -1;
    room->lock_fd = -1;
    room->sweeper = SWEEPER_NONE;
    if (spec->workspace && !realpath(spec->workspace, room->workspace)) {
        /* The plan tells. */
        (void)snprintf(room->workspace, sizeof room->workspace, "%s", spec->workspace);
    }
    int r = find_place(room, spec, ret_fail);
    if (r == 0) {
        (void)snprintf(room->work, sizeof room->work, "%s/work", room->path);
        (void)snprintf(room->tmp, sizeof room->tmp, "%s/tmp", room->path);
        (void)snprintf(room->home, sizeof room->home, "%s/home", room->path);
        (void)snprintf(room->output, sizeof room->output, "%s/output", room->path);
        (void)snprintf(room->run, sizeof room->run, "%s/run", room->path);
        (void)snprintf(room->errand, sizeof room->errand, "%s/errand", room->path);
        r = make_room(room, spec);
        r = r < 0 ? fail_set(ret_fail, -r, "make the folder %s", room->path) : 0;
    }
    if (r < 0) {
        box_room_close(room);
        return r;
    }
    choose_ids(room, spec);
    point_to(room, spec);
    *ret_room = room;
    return 0;
}

void box_room_close(struct box_room *room)
{
    if (!room) {
        return;
    }
    struct sweeper *sweeper = &room->sweeper;
    if (sweeper->pid > 0 && !sweeper_finish(sweeper) &&
        sweeper_start(sweeper, room->parent_fd, room->name, ROOM_PREFIX) == 0) {
        (void)sweeper_finish(sweeper);
    }
    drop_fd(&sweeper->fd);
    drop_fd(&room->lock_fd);
    drop_fd(&room->fd);
    drop_fd(&room->parent_fd);
    free(room);
}

/* --- what boxes write to --- */

/* By its name, and not by its content: that may be anything, and much. */
static int put_away(struct box_room *room, const char *name)
{
    char rubbish[32];
    (void)snprintf(rubbish, sizeof rubbish, "rubbish-%u", room->rubbish + 1);
    if (renameat(room->fd, name, room->fd, rubbish) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    room->rubbish++;
    sweeper_poke(&room->sweeper);
    return 0;
}

int room_prepare(struct box_room *room, uid_t uid, gid_t gid, struct fail *ret_fail)
{
    static const char *const names[] = {"work", "tmp", "home", "output"};
    int r =
        fchmod(room->fd, uid == geteuid() ? PLAIN_ROOM_MODE : OTHERS_ROOM_MODE) < 0 ? -errno : 0;
    for (unsigned i = 0; r == 0 && i < sizeof names / sizeof *names; i++) {
        r = put_away(room, names[i]);
        r = r ? r : make_folder(room->fd, names[i], PLAIN_ROOM_MODE, uid, gid);
    }
    return r < 0 ? fail_set(ret_fail, -r, "make folders in %s", room->path) : 0;
}

int room_add_errand(struct box_room *room, const struct embedded *files, struct box_view *view,
                    struct fail *ret_fail)
{
    int r = room->has_errand ? 0 : write_files(room, "errand", files);
    if (r < 0) {
        return fail_set(ret_fail, -r, "make the folder %s", room->errand);
    }
    room->has_errand = true;
    view->run = room->errand;
    return 0;
}

static int copy_bytes(int from_fd, int to_fd)
{
    char bytes[16384];
    ssize_t size = 0;
    int r = 0;
    while (r == 0 && (size = read(from_fd, bytes, sizeof bytes)) > 0) {
        r = fd_write_all(to_fd, bytes, (size_t)size);
    }
    return r == 0 && size < 0 ? -errno : r;
}

int room_copy_file(struct box_room *room, enum room_copy copy, const char *from,
                   const char **ret_path, struct fail *ret_fail)
{
    static const char *const names[ROOM_COPIES] = {"errand/constraint", "errand/certificate"};
    static const char fresh[] = "errand/copy";
    struct stat st;
    defer_close int from_fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (from_fd < 0 || fstat(from_fd, &st) < 0) {
        return fail_set(ret_fail, errno, "%s", from);
    }
    if (!S_ISREG(st.st_mode)) {
        return fail_set(ret_fail, EINVAL, "%s is no file", from);
    }
    (void)unlinkat(room->fd, fresh, 0);
    defer_close int to_fd =
        openat(room->fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    int r = to_fd < 0 ? -errno : copy_bytes(from_fd, to_fd);
    /* An errand that is ending may have the last one open. */
    if (r == 0 &&
        (fchmod(to_fd, 0444) < 0 || renameat(room->fd, fresh, room->fd, names[copy]) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "copy %s into %s", from, room->errand);
    }
    char path[sizeof room->copies[copy]];
    (void)snprintf(path, sizeof path, "%s/%s", room->path, names[copy]);
    memcpy(room->copies[copy], path, sizeof path);
    *ret_path = room->copies[copy];
    return 0;
}
