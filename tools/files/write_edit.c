#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/utf8.h"
#include "base/word.h"
#include "schema/schema.h"
#include "tools/content/content.h"
#include "tools/files/listing.h"
#include "tools/files/path.h"
#include "tools/files/write_internal.h"

bool write_edit_is_late(const struct write_op *op)
{
    struct stat st;
    return fstat(op->source_fd, &st) < 0 || st.st_size != op->source.st_size ||
           st.st_nlink != op->source.st_nlink ||
           memcmp(&st.st_ctim, &op->source.st_ctim, sizeof st.st_ctim) != 0;
}

/* The file is read: makes the new text and writes it. */
static void edit_source_read(struct write_op *op, const struct buf *text)
{
    const char *bytes = buf_bytes(text);
    size_t size = buf_size(text);
    if ((size > 0 && memchr(bytes, '\0', size)) || !utf8_is_whole(bytes, size)) {
        write_op_refuse(op, " is not UTF-8 text; change it with Python.");
        return;
    }
    int r = edit_apply(bytes, size, &op->edit, &op->edited, &op->edit_lines);
    if (r > 0) {
        write_op_refuse(op, buf_text(&op->edit_lines));
        return;
    }
    op->bytes = buf_bytes(&op->edited);
    op->size = buf_size(&op->edited);
    struct box *box = server_box_get(op->tools->server_box);
    r = r             ? -ENOMEM
        : box == NULL ? -ECONNRESET
                      : box_file_write(box, op->path, WIRE_WRITE_OVERWRITE, write_op_opened, op);
    if (r < 0) {
        write_op_fail(op, -r);
    }
}

/* The last name of the path, which begins at name, is not in the directory parent (taken). Takes
 * the one that is the same but for how its characters are composed, or refuses and suggests one
 * that is like it; then returns false, and has ended the op. */
static bool edit_respell(struct write_op *op, int parent, size_t name)
{
    char path[LIMIT_PATH_BYTES];
    char shown[WORD_BYTES + 1];
    char said[WORD_BYTES + 120];
    json_auto_t *names = listing_names(parent);
    const char *same = listing_same(names, op->path + name);
    const char *near = same ? same : near_key(names, op->path + name);
    if (!near ||
        snprintf(path, sizeof path, "%.*s%s", (int)name, op->path, near) >= (int)LIMIT_PATH_BYTES) {
        return true;
    }
    if (same) {
        memcpy(op->path, path, sizeof path);
        return true;
    }
    (void)snprintf(said, sizeof said,
                   " not found. Did you mean %s? To create it, send content, without old_text and "
                   "new_text.",
                   word_show(path, strlen(path), shown, sizeof shown));
    write_op_refuse(op, said);
    return false;
}

static void edit_parent_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct write_op *op = arg;
    char directory[LIMIT_PATH_BYTES];
    size_t name = path_split(op->path, strlen(op->path), directory);
    op->respelled = true;
    if (reply->error) {
        write_op_fail(op, ENOENT);
    } else if (edit_respell(op, take_fd(&fds[0]), name)) {
        write_op_resolve(op);
    }
}

static void edit_source_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct write_op *op = arg;
    char said[64];
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    op->source_fd = take_fd(&fds[0]);
    if (reply->error == ENOENT && !op->respelled) {
        char directory[LIMIT_PATH_BYTES];
        (void)path_split(op->path, strlen(op->path), directory);
        server_box_open_file(op->tools->server_box, directory, edit_parent_opened, op);
        return;
    }
    if (reply->error || S_ISDIR(reply->file.mode)) {
        write_op_fail(op, reply->error ? reply->error : EISDIR);
        return;
    }
    int r = fstat(op->source_fd, &op->source) < 0 ? -errno : 0;
    if (r == 0 && (uint64_t)op->source.st_size > LIMIT_EDIT_BYTES) {
        (void)snprintf(said, sizeof said, " is larger than %lu MiB; change it with Python.",
                       LIMIT_EDIT_BYTES >> 20);
        write_op_refuse(op, said);
        return;
    }
    r = r ? r : content_read(op->source_fd, 0, (size_t)op->source.st_size, &text);
    if (r < 0) {
        write_op_fail(op, -r);
        return;
    }
    edit_source_read(op, &text);
}

void write_edit_begin(struct write_op *op)
{
    server_box_open_file(op->tools->server_box, op->path, edit_source_opened, op);
}
