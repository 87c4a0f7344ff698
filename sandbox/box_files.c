#include "sandbox/box_files.h"

#include <errno.h>
#include <string.h>

#include "sandbox/box/box.h"

static int file_send(struct box *box, struct wire_request *request, const char *path,
                     init_client_fn fn, void *arg)
{
    if (strlen(path) >= sizeof request->path) {
        return -ENAMETOOLONG;
    }
    memcpy(request->path, path, strlen(path) + 1);
    return box_ask(box, request, fn, arg);
}

int box_file_open(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    box_refresh_workspace(box);
    return file_send(box, &(struct wire_request){.op = WIRE_OPEN_READ}, path, fn, arg);
}

int box_file_resolve(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    box_refresh_workspace(box);
    return file_send(box, &(struct wire_request){.op = WIRE_RESOLVE}, path, fn, arg);
}

int box_file_write(struct box *box, const char *path, enum wire_write_mode mode, init_client_fn fn,
                   void *arg)
{
    box_refresh_workspace(box);
    return file_send(
        box,
        &(struct wire_request){.op = WIRE_OPEN_WRITE,
                               .write_mode = mode,
                               .keeps_attributes = !box->spec->cow}, /* apply keeps it */
        path, fn, arg);
}

int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, init_client_fn fn,
                    void *arg)
{
    struct wire_request request = {.op = WIRE_COMMIT, .token = token};
    if (replaced && !box->spec->cow) { /* there the user's files are compared later */
        request.expected = apply_facts_of(replaced);
    }
    return file_send(box, &request, "", fn, arg);
}

int box_output_make(struct box *box, const char *name, init_client_fn fn, void *arg)
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
