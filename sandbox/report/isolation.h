#pragma once
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

struct buf;

/* The isolation report: the sandbox's protections and the findings about each. Doctor, instructions
 * and refusals read only this value. */

enum box_protection_state {
    BOX_PROTECTION_ON,
    BOX_PROTECTION_DEGRADED, /* weaker than intended, but still effective */
    BOX_PROTECTION_OFF,
    BOX_PROTECTION_UNKNOWN, /* no sandbox has started yet */
};

struct box_protection_report {
    enum box_protection_state state;
    bool required;
    char detail[256];      /* how it works here, or what fails */
    char consequence[200]; /* what follows from that; empty when on */
    char remedy[512];      /* the fix; empty when on */
};

struct box_report {
    struct box_protection_report protections[BOX_PROTECTION_COUNT];
    enum box_level level;                 /* the expected one until tested */
    bool tested;                          /* confirmed by effects in a sandbox */
    bool usable;                          /* tools run code, as far as is known */
    struct box_protected protected_names; /* in the workspace; empty before a sandbox has started */
    char refusal[1024];                   /* not usable: protection, finding and fix */
    char apparmor[1600];                  /* shell commands that make AppArmor allow it, or empty */
};

/* "full", "full without /proc", "container" */
const char *box_level_name(enum box_level level);

/* What code may see or do at this isolation level although other levels forbid it; NULL ends the
 * list. */
const char *const *box_level_not_promised(enum box_level level);

/* "memory": the name for flags and doctor. */
const char *box_protection_name(enum box_protection protection);
/* BOX_PROTECTION_COUNT: unknown name. */
enum box_protection box_protection_find(const char *name, size_t size);
/* Whether no code runs without it, whatever the flags say. */
bool box_protection_is_mandatory(enum box_protection protection);

/* Bits 1 << protection of those that are degraded or off. */
unsigned box_report_degraded(const struct box_report *report);

/* Reports what is known without a sandbox, in some tenths of a millisecond: for the first response
 * to a client. Protections that need a self-test are BOX_PROTECTION_UNKNOWN. */
void box_report_expect(const struct box_spec *spec, struct box_report *report);

/* Appends a few sentences for the model and its user: the protections, and the names of the
 * degraded ones. */
int box_report_describe(const struct box_report *report, const struct box_spec *spec,
                        struct buf *out);

/* Another fact about the host, for doctor. */
struct box_fact {
    const char *name; /* static */
    bool warning;
    char text[400];
};
enum { BOX_FACTS = 14 + BOX_MOUNTS };

/* Examines the host, the workspace and the interpreter. report: from box_probe(). Returns the
 * number of facts. */
unsigned box_facts(const struct box_spec *spec, const struct box_report *report,
                   struct box_fact facts[BOX_FACTS]);
