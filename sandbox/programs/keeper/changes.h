#pragma once
/* With --cow. */

struct keeper;
struct record;
struct wire_request;

/* How many changes have a line in a list. Notices changes of the user's only where code has changed
 * something too. */
unsigned changes_count(struct keeper *keeper);
void changes_list(struct keeper *keeper, const struct wire_request *request);
void changes_discard(struct keeper *keeper, const struct wire_request *request);
void changes_collect(struct keeper *keeper, const struct wire_request *request);
void changes_applied(struct keeper *keeper, const struct wire_request *request);

/* --- the base: facts of the user's files that outlive the server, in a file of the store --- */

/* Makes records of what is kept, without a version; base_loaded() drops what no scan has found. */
void base_load(struct keeper *keeper);
void base_loaded(struct keeper *keeper);
void base_note(const struct keeper *keeper, const struct record *record);
