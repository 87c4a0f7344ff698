/* Any client configuration file: after an edit it contains the server and can be parsed again, and
 * the entry that was added can be removed. The first byte chooses the kind of file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bridge/clients.h"
#include "tests/fuzz/fuzz.h"

static int edit(const struct bridge_client *client, const json_t *entry, const char *text,
                size_t size, struct buf *out)
{
    struct bridge_server server = {"sp", entry};
    struct fail fail = {};
    int r = bridge_client_edit(client, &server, text, size, out, &fail);
    if (r < 0 && (!fail.text[0] || buf_size(out) > 0)) {
        abort(); /* a refusal without a reason, or with a partial file */
    }
    return r;
}

/* Bytes other than blanks. Blanks may go, between braces or where there is nothing else. */
static size_t text_bytes(const char *text, size_t size)
{
    size_t found = 0;
    for (size_t i = 0; i < size; i++) {
        found += text[i] == '\0' || !strchr(" \t\r\n", text[i]);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const struct bridge_client *client = bridge_client_find(data[0] % 2 ? "codex" : "zed");
    json_t *entry = json_pack("{s:s, s:[s]}", "command", "/p", "args", "-x");
    struct buf once = BUF_EMPTY;
    struct buf twice = BUF_EMPTY;
    int r = edit(client, entry, (const char *)data + 1, size - 1, &once);
    if (r == BRIDGE_EDIT_ADDED || r == BRIDGE_EDIT_REPLACED) {
        if (r == BRIDGE_EDIT_ADDED && text_bytes(buf_bytes(&once), buf_size(&once)) <
                                          text_bytes((const char *)data + 1, size - 1)) {
            abort(); /* something is lost */
        }
        if (edit(client, entry, buf_bytes(&once), buf_size(&once), &twice) != BRIDGE_EDIT_SAME) {
            abort();
        }
        int removed = edit(client, NULL, buf_bytes(&once), buf_size(&once), &twice);
        /* A table within a replaced one may have a header of its own. */
        if (removed != BRIDGE_EDIT_REMOVED && !(r == BRIDGE_EDIT_REPLACED && removed == -EEXIST)) {
            abort();
        }
        buf_clear(&once, 0);
        if (removed == BRIDGE_EDIT_REMOVED &&
            edit(client, NULL, buf_bytes(&twice), buf_size(&twice), &once) != BRIDGE_EDIT_SAME) {
            abort();
        }
    }
    buf_done(&once);
    buf_done(&twice);
    json_decref(entry);
    return 0;
}
