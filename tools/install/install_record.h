#pragma once

struct install_op;
struct record;

/* Records an install that is over: what was requested, and what is there now. */
void install_record(struct record *record, const struct install_op *op);
