/* Any two texts, with any amount of work: the edits make one of the other, and a quoted name comes
 * back. The first three bytes choose the work and where the second text begins. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/word.h"
#include "sandbox/programs/keeper/patch.h"
#include "tests/fuzz/fuzz.h"

static void check_diff(struct diff_text old, struct diff_text new, uint64_t work)
{
    struct diff diff;
    struct buf out = BUF_EMPTY;
    size_t at = 0;
    if (diff_lines(old, new, &work, &diff) < 0) {
        abort();
    }
    for (size_t i = 0; i < diff.count; i++) {
        const struct diff_edit *edit = diff_edit(&diff, i);
        if (edit->old_at < at || edit->old_at + edit->old_size > old.size ||
            edit->new_at + edit->new_size > new.size ||
            buf_append(&out, old.bytes + at, edit->old_at - at) < 0 ||
            buf_append(&out, new.bytes + edit->new_at, edit->new_size) < 0) {
            abort();
        }
        at = edit->old_at + edit->old_size;
    }
    if (buf_append(&out, old.bytes + at, old.size - at) < 0 || buf_size(&out) != new.size ||
        (new.size > 0 && memcmp(buf_bytes(&out), new.bytes, new.size) != 0)) {
        abort();
    }
    buf_done(&out);
    diff_done(&diff);
}

static void check_patch(struct diff_text old, struct diff_text new, uint64_t work)
{
    struct patch_counts counts;
    struct buf out = BUF_EMPTY;
    const struct patch_file old_file = {S_IFREG | 0644, old.size, old.bytes};
    const struct patch_file new_file = {S_IFREG | 0755, new.size, new.bytes};
    if (patch_write("a", &old_file, &new_file, &work, &out, &counts) < 0 || buf_size(&out) == 0 ||
        buf_bytes(&out)[buf_size(&out) - 1] != '\n') {
        abort();
    }
    buf_done(&out);
}

static void check_quote(const char *name, size_t size)
{
    struct buf quoted = BUF_EMPTY;
    struct buf back = BUF_EMPTY;
    (void)quote_parse(name, size, &back); /* of any text */
    buf_clear(&back, 0);
    if (quote_append(&quoted, "", name, size, /* force= */ true) < 0) {
        abort();
    }
    int r = quote_parse(buf_bytes(&quoted), buf_size(&quoted), &back);
    bool has_nul = size > 0 && memchr(name, '\0', size);
    if ((r < 0) != has_nul ||
        (r == 0 &&
         (buf_size(&back) != size || (size > 0 && memcmp(buf_bytes(&back), name, size) != 0)))) {
        abort();
    }
    buf_done(&quoted);
    buf_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    const char *bytes = (const char *)data + 3;
    size_t space = size - 3;
    size_t middle = (size_t)(data[0] | data[1] << 8) % (space + 1);
    uint64_t work = data[2] < 128 ? data[2] : DIFF_WORK;
    struct diff_text old = {bytes, middle};
    struct diff_text new = {bytes + middle, space - middle};
    check_diff(old, new, work);
    check_patch(old, new, work);
    check_quote(bytes, space);
    return 0;
}
