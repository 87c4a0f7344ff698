#pragma once
#include "sandbox/box.h"
#include "sandbox/checkpoint_policy.h"
#include "sandbox/egress/box_egress.h"
#include "sandbox/egress/policy.h"
#include "sandbox/egress/upstream.h"
#include "sandbox/helpers.h"
#include "sandbox/host/mounts.h"
#include "sandbox/host/python.h"
#include "sandbox/installer/installer.h"
#include "sandbox/interpreter/session.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/packages/packages.h"
#include "sandbox/plan/plan.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/report/isolation.h"
#include "sandbox/scratch.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/store.h"

/* Everything that other modules use of sandbox/. A sandbox holds the interpreter's zygote. A
 * session is one interpreter, a fork of the zygote, that runs the model's code. Functions do not
 * block unless their comment says so; callbacks come from the event loop. */
