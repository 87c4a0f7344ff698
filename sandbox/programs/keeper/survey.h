#pragma once
#include "sandbox/programs/keeper/keeper.h"

/* All records, sorted, compared with the user's directory as it is now: heap. NULL: none;
 * *ret_error: why. */
struct record **changes_survey(struct keeper *keeper, size_t *ret_count, int *ret_error);
/* Whether the change has a line of its own. A directory has one only where no file in it tells of
 * it, as git has it. list: sorted, from the record on. */
bool change_has_line(struct record *const *list, size_t count);
/* Of a directory that could not be read. */
bool change_is_unread(const struct record *record);
/* Whether what is to be changed in the user's directory is no longer what code has seen there. */
bool change_is_conflict(const struct record *record);
