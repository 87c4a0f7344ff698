#pragma once
#include <stddef.h>

#include "tools/files/edit.h"

struct buf;

/* For an edit whose old_text is not in the text: appends which lines are like it and where they
 * differ, if there are such, as "; lines 4-6 are like it, but line 5 is \"x = 1\"". */
void edit_say_near(const char *text, size_t size, const struct edit *edit, struct buf *said);
