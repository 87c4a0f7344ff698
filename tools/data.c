#include "tools/data.h"

#include <linux/limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"

/* Whether it is told with the one before: folders of the home folder are told as one, where they lie
 * in one for code. */
static bool is_told_before(const struct box_spec *spec, unsigned at)
{
    const char *name = spec->mounts[at].name;
    size_t size = strcspn(name, "/");
    return spec->view.data && at > 0 && name[size] == '/' &&
           strncmp(spec->mounts[at - 1].name, name, size + 1) == 0;
}

/* Where code finds it. whole: not only the home folder that it is told with. Returns the length. */
static size_t put_place(const struct box_spec *spec, const struct box_mount *mount, bool whole,
                        char *out, size_t size)
{
    const char *data = spec->view.data;
    int length = data ? (int)(whole ? strlen(mount->name) : strcspn(mount->name, "/")) : 0;
    return (size_t)(data ? snprintf(out, size, "%s/%.*s", data, length, mount->name)
                         : snprintf(out, size, "%s", mount->path));
}

/* Appends what there is of one kind; returns the length that all would have. */
static size_t append_kind(const struct box_spec *spec, bool writable, char *out, size_t size,
                          size_t used)
{
    const char *before = writable ? "writable: " : "read-only: ";
    for (unsigned i = 0; i < spec->mount_count && used < size; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        if (mount->writable == writable && !is_told_before(spec, i)) {
            used += (size_t)snprintf(out + used, size - used, "%s", before);
            used += used < size ? put_place(spec, mount, false, out + used, size - used) : 0;
            before = ", ";
        }
    }
    return used;
}

void data_describe(const struct box_spec *spec, char *out, size_t size)
{
    out[0] = '\0';
    if (spec->mount_count == 0) {
        return;
    }
    size_t begin = (size_t)snprintf(out, size, " The user's folders, ");
    size_t used = append_kind(spec, /* writable= */ false, out, size, begin);
    if (used > begin && used + 2 < size) {
        size_t middle = used + (size_t)snprintf(out + used, size - used, "; ");
        size_t end = append_kind(spec, /* writable= */ true, out, size, middle);
        used = end > middle ? end : used;
    } else {
        used = append_kind(spec, /* writable= */ true, out, size, used);
    }
    if (used + 2 > size) {
        (void)snprintf(out, size, " The user's folders are %s%s; the instructions list them.",
                       spec->view.data ? "below " : "there",
                       spec->view.data ? spec->view.data : "");
    } else {
        (void)snprintf(out + used, size - used, ".");
    }
}

int data_list(const struct box_spec *spec, struct buf *out)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        char place[PATH_MAX];
        (void)put_place(spec, mount, /* whole= */ true, place, sizeof place);
        r = buf_appendf(out, "Data: %s is the user's folder%s%s%s.\n", place,
                        spec->view.data ? " " : "", spec->view.data ? mount->path : "",
                        mount->writable ? ", which code may write to" : ", read-only");
    }
    return r;
}

/* What is left of path behind folder, or NULL. */
static const char *behind(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    bool below = strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
    return below ? path + size : NULL;
}

bool data_guess(const struct box_spec *spec, const char *path, char *out, size_t size)
{
    const char *inside = behind(path, spec->view.work);
    const char *relative = inside && *inside ? inside + 1 : path;
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        const char *rest = spec->view.data ? behind(path, mount->path) : NULL;
        rest = rest ? rest : behind(relative, mount->name);
        size_t used = rest ? put_place(spec, mount, /* whole= */ true, out, size) : size;
        if (used < size) {
            return (size_t)snprintf(out + used, size - used, "%s", rest) < size - used;
        }
    }
    return false;
}
