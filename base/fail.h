#pragma once
#include <stdint.h>

#define FAIL_TEXT 952

/* One failure as plain bytes, so that a child process can report it in one write (asserted to be
 * under PIPE_BUF). text says what was tried and on what; it is never longer than FAIL_TEXT. */
struct fail {
    int32_t code;  /* errno value, > 0; 0 = none */
    uint32_t step; /* number of the plan's step that failed, or 0 */
    char text[FAIL_TEXT];
};

/* Fills fail (which may be NULL) and returns -code, so that callers write `return
 * fail_set(ret_fail, errno, "mount %s", dst);`. Does not use the heap, so it may be called between
 * clone and execve. */
__attribute__((format(printf, 3, 4))) int fail_set(struct fail *fail, int code, const char *fmt,
                                                   ...);

/* The same for a sentence to which errno would add nothing: it is not described with the text.
 * Returns -error. */
__attribute__((format(printf, 3, 4))) int fail_refuse(struct fail *fail, int error, const char *fmt,
                                                      ...);

/* Writes "text: No such file or directory" to the caller's buffer. Returns out. */
const char *fail_describe(const struct fail *fail, char *out, unsigned long size);

/* The same in a buffer of its own, which lives as long as the enclosing block. */
#define fail_text(fail) fail_describe((fail), (char[FAIL_TEXT + 128]){}, FAIL_TEXT + 128)
