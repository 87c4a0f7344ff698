#pragma once
#include <linux/filter.h>
#include <stdint.h>

/* Between the server (apply_process.h) and the applying process (programs/apply). What is to be
 * done stands in the journal: apply_journal.h. */

/* The one message to the process, with the descriptors of DIR, the changes and the journal. */
enum { APPLY_FILTER_STEPS = 256 };
struct apply_request {
    uint32_t filter_count;
    uint32_t reserved;
    struct sock_filter filter[APPLY_FILTER_STEPS];
};

/* The process's one message, before it exits. */
struct apply_reply {
    int32_t error; /* > 0: why it has not begun */
};
