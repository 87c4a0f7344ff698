#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/plan/mount.h"
#include "sandbox/workspace/protected.h"

/* The layers of the sandbox and what was found of each: the one value that doctor, instructions and
 * refusals read. Part of sandbox.h. */

struct box_spec;
struct buf;

/* How far the user lets the sandbox step down. */
enum box_isolation {
    BOX_ISOLATION_AUTO,      /* namespaces, with or without a /proc of the box's own; else none */
    BOX_ISOLATION_FULL,      /* with /proc, else none */
    BOX_ISOLATION_CONTAINER, /* the one without namespaces, for inside a container */
    BOX_ISOLATION_BEST,      /* as AUTO; where namespaces cannot be had, as CONTAINER */
};

/* The grades of a sandbox. */
enum box_profile {
    BOX_FULL,
    BOX_FULL_WITHOUT_PROC, /* the kernel or a filter refuses a new /proc: it is an empty folder */
    BOX_CONTAINER,         /* no namespaces: Landlock, filters and a guardian */
};

enum box_layer {
    BOX_LAYER_NAMESPACES,
    BOX_LAYER_MOUNTS,
    BOX_LAYER_PRIVILEGES,
    BOX_LAYER_SECCOMP,
    BOX_LAYER_LANDLOCK,
    BOX_LAYER_MEMORY,
    BOX_LAYER_PIDS,
    BOX_LAYER_CPU,
    BOX_LAYER_DISK,
    BOX_LAYER_PYTHON,
    BOX_LAYER_COUNT,
};

enum box_layer_state {
    BOX_LAYER_ON,
    BOX_LAYER_DEGRADED, /* less than what is meant, and bounded all the same */
    BOX_LAYER_OFF,
    BOX_LAYER_UNKNOWN, /* no box has come so far */
};

struct box_layer_report {
    enum box_layer_state state;
    bool required;
    char detail[256];      /* how it is done here, or what does not work */
    char consequence[200]; /* what that means; empty when on */
    char remedy[512];      /* what to do about it; empty when on */
};

struct box_grade {
    struct box_layer_report layers[BOX_LAYER_COUNT];
    enum box_profile profile;             /* not proven: the one that is expected */
    bool proven;                          /* seen by its effect in a box, not only expected */
    bool usable;                          /* tools run code, as far as is known */
    struct box_protected protected_names; /* in the workspace; none before a box has started */
    char refusal[1024];  /* not usable: layer, finding and remedy in a sentence or two */
    char apparmor[1400]; /* shell lines that let AppArmor allow it, or empty */
};

/* "full", "full without /proc", "container" */
const char *box_profile_name(enum box_profile profile);

/* What code may see or do in this grade though others forbid it; closed by NULL. */
const char *const *box_profile_not_promised(enum box_profile profile);

/* "memory", as flags take it and doctor prints it. */
const char *box_layer_name(enum box_layer layer);
/* BOX_LAYER_COUNT: there is none of that name. */
enum box_layer box_layer_find(const char *name, size_t size);
/* Whether no code runs without it, whatever the flags say. */
bool box_layer_is_mandatory(enum box_layer layer);

/* Bits 1 << layer of what is degraded or off. */
unsigned box_grade_gaps(const struct box_grade *grade);

/* What can be said without a box, in some tenths of a millisecond: for the first answer to a host.
 * Layers that a box must prove are BOX_LAYER_UNKNOWN. */
void box_grade_expect(const struct box_spec *spec, struct box_grade *grade);

/* Appends a few sentences for a model and its user: what holds, and by name what is weaker. */
int box_grade_describe(const struct box_grade *grade, const struct box_spec *spec, struct buf *out);

/* A fact about the host beside the layers, for doctor. */
struct box_fact {
    const char *name; /* static */
    bool warning;
    char text[400];
};
enum { BOX_FACTS = 10 + BOX_MOUNTS };
