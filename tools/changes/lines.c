#include "tools/changes/lines.h"

#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/quote.h"

void text_append_path(struct buf *out, const char *path)
{
    bool odd = strpbrk(path, " ()[]|,:;") || strchr("+~-#", path[0]);
    quote_append(out, "", path, strlen(path), odd);
}

const char *text_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

const char *text_left(bool cached, bool ignored)
{
    return !ignored ? "in caches"
           : cached ? "in caches or ignored by .gitignore"
                    : "ignored by .gitignore";
}

bool lines_have_space(const struct lines *lines, size_t size)
{
    return lines->all ||
           (lines->left_out == 0 && buf_size(lines->out) - lines->begin + size <= LIMIT_TEXT_BYTES);
}

bool lines_leave_out(struct lines *lines)
{
    lines->left_out += lines->left_out > 0;
    return lines->left_out > 0;
}

void lines_append(struct lines *lines, const struct buf *line)
{
    if (!lines_have_space(lines, buf_size(line))) {
        lines->left_out++;
        return;
    }
    buf_append_buf(lines->out, line);
}

void lines_append_unchanged(struct lines *lines, const struct changes_paths *paths,
                            bool (*has)(const void *arg, const char *path), const void *arg,
                            size_t *ret_count)
{
    *ret_count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        OWNED(buf_done) struct buf line = BUF_EMPTY;
        if (has(arg, paths->at[i])) {
            continue;
        }
        ++*ret_count;
        buf_append_text(&line, "no changes: ");
        text_append_path(&line, paths->at[i][0] ? paths->at[i] : ".");
        buf_append(&line, "\n", 1);
        lines_append(lines, &line);
    }
}
