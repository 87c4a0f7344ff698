#include "base/fail.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct fail) <= PIPE_BUF, "one write must be atomic, pipe(7)");

__attribute__((format(printf, 3, 0))) static void fill(struct fail *fail, int code, const char *fmt,
                                                       va_list args)
{
    if (fail) {
        fail->code = code;
        (void)vsnprintf(fail->text, sizeof fail->text, fmt, args);
    }
}

int fail_set(struct fail *fail, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(fail, code, fmt, args);
    va_end(args);
    return -code;
}

int fail_refuse(struct fail *fail, int error, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(fail, /* code= */ 0, fmt, args);
    va_end(args);
    return -error;
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
