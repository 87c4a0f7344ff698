#include "tools/run/variables.h"

#include <stdio.h>
#include <string.h>

#include "base/word.h"

enum { NAMES_SHOWN = 8, NAME_BYTES = 64 };

/* The place of name in the list, or NULL. ret_index: how many names are before it. */
static const char *names_find(const struct names *names, const char *name, size_t size,
                              unsigned *ret_index)
{
    *ret_index = 0;
    for (const char *at = names->text; *at; ++*ret_index) {
        size_t length = strcspn(at, " ");
        if (length == size && memcmp(at, name, size) == 0) {
            return at;
        }
        at += length;
        at += strspn(at, " ");
    }
    return NULL;
}

static void names_remove(struct names *names, const char *name, size_t size)
{
    unsigned index = 0;
    const char *found = names_find(names, name, size, &index);
    if (found) {
        memmove(names->cells + index, names->cells + index + 1,
                sizeof names->cells - (index + 1) * sizeof *names->cells);
        char *at = names->text + (found - names->text);
        size_t cut = size + strspn(at + size, " ");
        memmove(at, at + cut, strlen(at + cut) + 1);
    } else if (names->more > 0) {
        names->more--;
    }
}

/* What stands in the status line without quotes, and has no blank in it. */
static bool is_name(const char *name, size_t size)
{
    return word_is_plain(name, size) && !memchr(name, ' ', size);
}

void names_change(struct names *names, const char *change, size_t size, unsigned cell)
{
    unsigned index = 0;
    if (size < 2 || size - 1 > NAME_BYTES) {
        return;
    }
    size_t length = size - 1;
    const char *name = change + 1;
    if (change[0] == '-') {
        names_remove(names, name, length);
        return;
    }
    if (names_find(names, name, length, &index)) {
        names->cells[index] = cell;
        return;
    }
    size_t used = strlen(names->text);
    if (used + length + 2 > sizeof names->text || !is_name(name, length)) {
        names->more += change[0] == '+';
        return;
    }
    (void)snprintf(names->text + used, sizeof names->text - used, "%s%.*s", used ? " " : "",
                   (int)length, name);
    names->cells[index] = cell;
}

/* Lists the names of from that rest lacks or, if older, that it has from an earlier cell. more: how
 * many others there are. */
static const char *names_list(const struct names *from, const struct names *rest, bool older,
                              unsigned more, char *out, size_t size)
{
    unsigned shown = 0;
    unsigned index = 0;
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = from->text; *at; index++) {
        size_t length = strcspn(at, " ");
        unsigned other = 0;
        bool common = rest && names_find(rest, at, length, &other);
        bool listed = older ? common && rest->cells[other] != from->cells[index] : !common;
        if (listed && (shown == NAMES_SHOWN || used + length + 32 > size)) {
            more++;
        } else if (listed) {
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", shown ? ", " : "",
                                     (int)length, at);
            shown++;
        }
        at += length;
        at += strspn(at, " ");
    }
    if (shown > 0 && more > 0) {
        (void)snprintf(out + used, size - used, " and %u more", more);
    }
    return out;
}

const char *names_lost(const struct names *from, const struct names *rest, char *out, size_t size)
{
    unsigned more = from->more - (rest && rest->more < from->more ? rest->more : 0);
    return names_list(from, rest, /* older= */ false, more, out, size);
}

const char *names_older(const struct names *from, const struct names *rest, char *out, size_t size)
{
    return names_list(from, rest, /* older= */ true, 0, out, size);
}
