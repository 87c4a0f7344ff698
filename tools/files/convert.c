#include "tools/files/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "guest/guest.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/run/run.h"
#include "tools/session/session.h"

enum { CONVERT_TIMEOUT_MS = 10000, REASON_BYTES = 200 };

struct convert {
    convert_fn fn;
    void *arg;
    const struct convert_document *document; /* NULL: it is an image */
    bool installs;
    struct buf made; /* all that it wrote to stdout */
    char reason[REASON_BYTES];
    size_t reason_size;
};

static void convert_end(struct convert *convert, enum convert_outcome outcome, const char *reason)
{
    bool made = outcome == CONVERT_MADE;
    convert->fn(convert->arg, outcome, made ? buf_bytes(&convert->made) : NULL,
                made ? buf_size(&convert->made) : 0, reason);
    buf_done(&convert->made);
    free(convert);
}

const struct convert_document *convert_document_of(const char *path)
{
    static const struct convert_document documents[] = {
        {".pdf", "pypdf", true},     {".docx", "python-docx", true},  {".xlsx", "openpyxl", true},
        {".xlsm", "openpyxl", true}, {".pptx", "python-pptx", false}, {".xls", "xlrd", false},
        {".odt", "odfpy", false},    {".parquet", "pyarrow", false},  {".h5", "h5py", false},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof documents / sizeof *documents; i++) {
        if (strcasecmp(dot, documents[i].suffix) == 0) {
            return &documents[i];
        }
    }
    return NULL;
}

/* What it writes is the guest's word: bounded here, and taken for an image by its bytes only. */
static void convert_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct convert *convert = arg;
    if (stream == BOX_STDOUT) {
        size_t most = convert->document ? LIMIT_DOCUMENT_BYTES : LIMIT_IMAGES_BYTES;
        if (buf_size(&convert->made) + size <= most) {
            (void)buf_append(&convert->made, bytes, size);
        }
        return;
    }
    size_t space = sizeof convert->reason - 1 - convert->reason_size;
    size = size < space ? size : space;
    memcpy(convert->reason + convert->reason_size, bytes, size);
    convert->reason_size += size;
}

/* A text may be empty. */
static bool is_made(const struct convert *convert)
{
    size_t size = buf_size(&convert->made);
    return convert->document ? size > 0 || convert->reason_size == 0
                             : content_image_fits(buf_bytes(&convert->made), size);
}

static void convert_done(void *arg, struct run *run)
{
    struct convert *convert = arg;
    char reason[REASON_BYTES + 64] = "";
    const char *library = convert->document ? convert->document->library : "Pillow";
    const char *work = convert->document ? "read it as text" : "scale it down";
    enum convert_outcome outcome = CONVERT_FAILED;
    if (run->end.outcome == RUN_EXIT && run->end.process.code == GUEST_EXIT_NO_LIBRARY) {
        outcome = CONVERT_NO_TOOL;
        (void)snprintf(reason, sizeof reason, "this Python has no %s to %s%s", library,
                       convert->document ? work : "convert it",
                       convert->installs ? ", install_package can add it" : "");
    } else if (run->end.outcome == RUN_OK && is_made(convert)) {
        outcome = CONVERT_MADE;
    } else if (run->end.outcome == RUN_TIMEOUT) {
        (void)snprintf(reason, sizeof reason, "it takes too long to %s", work);
    } else if (run->end.outcome == RUN_OOM) {
        (void)snprintf(reason, sizeof reason, "there is not enough memory to %s", work);
    } else if (convert->reason_size > 0) {
        (void)word_quote(convert->reason, convert->reason_size, reason, sizeof reason);
    } else {
        (void)snprintf(reason, sizeof reason, "it could not be %s",
                       convert->document ? "read as text" : "scaled down");
    }
    run_free(run);
    convert_end(convert, outcome, reason);
}

void convert_begin(struct tools *tools, const char *path, const struct convert_document *document,
                   convert_fn fn, void *arg)
{
    struct convert *convert = calloc(1, sizeof *convert);
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    /* The file comes with the driver's, see guest/. */
    int r =
        buf_appendf(&code, "exec(open('%s/convert.py').read())\n", tools->config.spec->paths.run);
    struct run *run = r < 0 ? NULL : run_new(buf_bytes(&code), buf_size(&code), path, strlen(path));
    if (!convert || !run) {
        free(convert);
        run_free(run);
        fn(arg, CONVERT_FAILED, NULL, 0, "the server is out of memory");
        return;
    }
    *convert =
        (struct convert){.fn = fn, .arg = arg, .document = document, .installs = tools->installs};
    run->request.fresh = true;
    run->request.timeout_ms = CONVERT_TIMEOUT_MS;
    run->on_output = convert_output;
    run->on_done = convert_done;
    run->arg = convert;
    r = sessions_run(tools->sessions, NULL, run);
    if (r < 0) {
        run_free(run);
        convert_end(convert, CONVERT_FAILED,
                    document ? "too many sessions are running to read it as text"
                             : "too many sessions are running to scale it down");
    }
}
