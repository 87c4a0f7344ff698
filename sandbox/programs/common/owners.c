#include "sandbox/programs/common/owners.h"

#include <stdbool.h>
#include <stddef.h>

enum { PART = 8 }; /* who has grown by this part of the greatest growth has grown, too */

static struct owner *find(const struct owners *owners, uint32_t tag)
{
    for (unsigned i = 0; i < owners->count; i++) {
        if (owners->list[i].tag == tag) {
            return (struct owner *)(uintptr_t)&owners->list[i];
        }
    }
    return NULL;
}

void owners_add(struct owners *owners, uint32_t tag, pid_t pid, uint64_t bytes)
{
    struct owner *owner = find(owners, tag);
    if (!owner && owners->count < OWNERS) {
        owner = &owners->list[owners->count++];
        *owner = (struct owner){.tag = tag};
    }
    owner = owner ? owner : &owners->list[OWNERS - 1];
    owner->bytes += bytes;
    if (bytes >= owner->largest) {
        owner->largest = bytes;
        owner->largest_pid = pid;
    }
}

void owners_grow(struct owners *owners, const struct owners *before, uint64_t matters)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < owners->count; i++) {
        struct owner *owner = &owners->list[i];
        const struct owner *old = find(before, owner->tag);
        uint64_t base = old ? old->base : before->count > 0 ? 0 : owner->bytes;
        owner->base = owner->bytes < base ? owner->bytes : base;
        most = owner->bytes - owner->base > most ? owner->bytes - owner->base : most;
    }
    for (unsigned i = 0; i < owners->count; i++) {
        struct owner *owner = &owners->list[i];
        const struct owner *old = find(before, owner->tag);
        owner->growth = old ? old->growth : 0;
        if (most > matters) {
            bool idles = old && owner->bytes == old->base;
            owner->growth = idles ? 0 : owner->growth / 2 + owner->bytes - owner->base;
            owner->base = owner->bytes;
        }
    }
}

const struct owner *owners_culprit(const struct owners *owners, const struct owners *grown)
{
    const struct owner *culprit = NULL;
    uint64_t most = 0;
    for (unsigned i = 0; i < grown->count; i++) {
        most = grown->list[i].growth > most ? grown->list[i].growth : most;
    }
    for (unsigned i = 0; i < owners->count; i++) {
        const struct owner *owner = &owners->list[i];
        const struct owner *known = find(grown, owner->tag);
        if ((known ? known->growth : 0) >= most / PART &&
            (!culprit || owner->bytes > culprit->bytes)) {
            culprit = owner;
        }
    }
    return culprit;
}
