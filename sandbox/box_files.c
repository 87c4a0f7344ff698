#include "sandbox/box_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "sandbox/box/box.h"

struct file_request {
    box_file_fn fn;
    void *arg;
};

static void file_answered(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct file_request *request = arg;
    struct box_file file = {.mode = reply->file.mode,
                            .existed = reply->file.existed != 0,
                            .size_bytes = reply->file.size_bytes,
                            .token = reply->token,
                            .path = reply->path};
    box_file_fn fn = request->fn;
    void *fn_arg = request->arg;
    free(request);
    fn(fn_arg, reply->error, take_fd(&fds[0]), &file);
}

static int file_send(struct box *box, struct wire_request *request, const char *path,
                     box_file_fn fn, void *arg)
{
    if (strlen(path) >= sizeof request->path) {
        return -ENAMETOOLONG;
    }
    memcpy(request->path, path, strlen(path) + 1);
    struct file_request *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        return -ENOMEM;
    }
    *waiting = (struct file_request){.fn = fn, .arg = arg};
    int r = box_ask(box, request, file_answered, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

int box_file_open(struct box *box, const char *path, box_file_fn fn, void *arg)
{
    box_refresh_workspace(box);
    return file_send(box, &(struct wire_request){.op = WIRE_OPEN_READ}, path, fn, arg);
}

int box_file_resolve(struct box *box, const char *path, box_file_fn fn, void *arg)
{
    box_refresh_workspace(box);
    return file_send(box, &(struct wire_request){.op = WIRE_RESOLVE}, path, fn, arg);
}

int box_file_write(struct box *box, const char *path, enum box_write_mode mode, box_file_fn fn,
                   void *arg)
{
    static const enum wire_write_mode modes[] = {
        [BOX_WRITE_OVERWRITE] = WIRE_WRITE_OVERWRITE,
        [BOX_WRITE_CREATE] = WIRE_WRITE_CREATE,
        [BOX_WRITE_APPEND] = WIRE_WRITE_APPEND,
    };
    box_refresh_workspace(box);
    return file_send(
        box,
        &(struct wire_request){.op = WIRE_OPEN_WRITE,
                               .write_mode = modes[mode],
                               .keeps_attributes = !box->spec->cow}, /* apply keeps it */
        path, fn, arg);
}

int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, box_file_fn fn,
                    void *arg)
{
    struct wire_request request = {.op = WIRE_COMMIT, .token = token};
    if (replaced && !box->spec->cow) { /* there the user's files are compared later */
        request.expected = apply_facts_of(replaced);
    }
    return file_send(box, &request, "", fn, arg);
}

int box_output_make(struct box *box, const char *name, box_file_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_MAKE_OUTPUT}, name, fn, arg);
}

void box_output_remove(struct box *box, const char *name)
{
    struct wire_request request = {.op = WIRE_REMOVE_OUTPUT};
    (void)strncat(request.path, name, sizeof request.path - 1);
    (void)box_ask(box, &request, NULL, NULL);
}

void box_file_abort(struct box *box, uint32_t token)
{
    (void)box_ask(box, &(struct wire_request){.op = WIRE_ABORT, .token = token}, NULL, NULL);
}
