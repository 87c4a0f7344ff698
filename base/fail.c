#include "base/fail.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct fail) <= PIPE_BUF, "one write must be atomic, pipe(7)");

int fail_set(struct fail *fail, int code, const char *fmt, ...)
{
    if (fail) {
        va_list args;
        fail->code = code;
        va_start(args, fmt);
        (void)vsnprintf(fail->text, sizeof fail->text, fmt, args);
        va_end(args);
    }
    return -code;
}

const char *fail_describe(const struct fail *fail, char *out, unsigned long size)
{
    if (fail->code == 0) {
        (void)snprintf(out, size, "%s", fail->text);
    } else {
        (void)snprintf(out, size, "%s: %s", fail->text, strerror(fail->code));
    }
    return out;
}
