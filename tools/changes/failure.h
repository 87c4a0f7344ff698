#pragma once

struct rpc_call;

/* Ends a call about changes that an errno value has made impossible. */
void changes_fail(struct rpc_call *call, int error);
