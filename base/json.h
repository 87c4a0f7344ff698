#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The items of an array, or with json_next_member() the members of an object, one after the other:
 *
 *     for (struct json_each item = {list}; json_next(&item);) { use(item.value); }
 *
 * There are none of anything else. */
struct json_each {
    const json_t *of;
    json_t *value; /* borrowed */
    size_t index;  /* of an item */
    const char *key;
    size_t next;
    void *iterator;
};

static inline bool json_next(struct json_each *each)
{
    each->value = json_array_get(each->of, each->next);
    each->index = each->next++;
    return each->value != NULL;
}

static inline bool json_next_member(struct json_each *each)
{
    json_t *of = (json_t *)(uintptr_t)each->of; /* jansson's iterators take no const */
    each->iterator =
        each->iterator ? json_object_iter_next(of, each->iterator) : json_object_iter(of);
    each->key = json_object_iter_key(each->iterator);
    each->value = json_object_iter_value(each->iterator);
    return each->value != NULL;
}
