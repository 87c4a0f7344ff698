#include "sandbox/plan/view.h"

const struct box_view box_view_full = {
    .work = "/work",
    .tmp = "/tmp",
    .home = "/tmp/home",
    .output = "/tmp/output",
    .run = "/run/sandpiper",
    .data = "/data",
    .packages = "/packages",
    .stage = "/stage",
    .cache = "/cache",
    .find_links = "/find-links",
    .constraint = "/constraint",
    .certificate = "/index-cert",
};
