#pragma once
#include <stdbool.h>

/* Lists of structs that have a member next, each in one list only. head: the address of the pointer
 * to the first. */

/* Adds item at the end. */
#define list_append(head, item)                                                                    \
    ({                                                                                             \
        __typeof__(head) at_ = (head);                                                             \
        while (*at_) {                                                                             \
            at_ = &(*at_)->next;                                                                   \
        }                                                                                          \
        (item)->next = NULL;                                                                       \
        *at_ = (item);                                                                             \
    })

/* Takes item off; false: it is not in the list. */
#define list_remove(head, item)                                                                    \
    ({                                                                                             \
        __typeof__(head) at_ = (head);                                                             \
        while (*at_ && *at_ != (item)) {                                                           \
            at_ = &(*at_)->next;                                                                   \
        }                                                                                          \
        bool found_ = *at_ != NULL;                                                                \
        if (found_) {                                                                              \
            *at_ = (item)->next;                                                                   \
        }                                                                                          \
        found_;                                                                                    \
    })

/* The first item, as at, for which the condition holds; NULL: there is none. */
#define list_find(first, at, condition)                                                            \
    ({                                                                                             \
        __typeof__ (&*(first))(at) = (first);                                                      \
        while ((at) && !(condition)) {                                                             \
            (at) = (at)->next;                                                                     \
        }                                                                                          \
        (at);                                                                                      \
    })
