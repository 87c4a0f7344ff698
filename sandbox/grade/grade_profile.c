/* What the grades of a sandbox are made of, as data. */
#include "sandbox/grade/grade.h"

#define WALLS                                                                                      \
    [BOX_LAYER_PRIVILEGES] = {true, BOX_LAYER_ON,                                                  \
                              "no capabilities, no new privileges, ids of nobody else", ""},       \
    [BOX_LAYER_SECCOMP] = {true, BOX_LAYER_ON,                                                     \
                           "calls by name and by argument, native architecture only", ""},         \
    [BOX_LAYER_LANDLOCK] = {false, BOX_LAYER_ON, "the file view again",                            \
                            "the mounts alone keep files out of reach, and code of one session "   \
                            "can read and change the memory of others"},                           \
    [BOX_LAYER_PYTHON] = {true, BOX_LAYER_ON, "", ""}

static const struct grade_row rows[][BOX_LAYER_COUNT] = {
    [BOX_FULL] =
        {
            [BOX_LAYER_NAMESPACES] = {true, BOX_LAYER_ON, "user, mount, pid, net, ipc, uts, cgroup",
                                      ""},
            [BOX_LAYER_MOUNTS] = {true, BOX_LAYER_ON,
                                  "fresh root, read-only but for /work, /tmp and /dev/shm", ""},
            WALLS,
        },
    [BOX_FULL_WITHOUT_PROC] =
        {
            [BOX_LAYER_NAMESPACES] = {true, BOX_LAYER_ON,
                                      "user, mount, pid, net, ipc, uts, cgroup; further ones are "
                                      "refused by the filters alone",
                                      ""},
            [BOX_LAYER_MOUNTS] = {true, BOX_LAYER_DEGRADED,
                                  "fresh root, read-only but for /work, /tmp and /dev/shm; /proc "
                                  "is an empty folder: the kernel refuses one of its own",
                                  "programs that read /proc, /dev/fd or /dev/stdin do not work: "
                                  "ps, psutil"},
            WALLS,
        },
    [BOX_CONTAINER] =
        {
            [BOX_LAYER_NAMESPACES] = {false, BOX_LAYER_OFF, "none in this grade",
                                      "other processes can be noticed; hostname, kernel and users "
                                      "are visible; no private loopback; System V objects are "
                                      "refused by the filters alone"},
            [BOX_LAYER_MOUNTS] = {false, BOX_LAYER_OFF, "none in this grade",
                                  "file names, sizes and times outside are visible; no private "
                                  "/tmp or /proc"},
            [BOX_LAYER_PRIVILEGES] =
                {true, BOX_LAYER_ON,
                 "no capabilities, no new privileges; a guardian ends all that "
                 "was started",
                 ""},
            [BOX_LAYER_SECCOMP] =
                {true, BOX_LAYER_ON,
                 "calls by name and by argument, some carried out by the guardian, "
                 "native architecture only",
                 ""},
            [BOX_LAYER_LANDLOCK] = {true, BOX_LAYER_ON,
                                    "files outside of the view and the workspace are neither read "
                                    "nor written",
                                    ""},
            [BOX_LAYER_PYTHON] = {true, BOX_LAYER_ON, "", ""},
        },
};

const struct grade_row *grade_row(enum box_profile profile, enum box_layer layer)
{
    return &rows[profile][layer];
}

const char *box_profile_name(enum box_profile profile)
{
    static const char *const names[] = {
        [BOX_FULL] = "full",
        [BOX_FULL_WITHOUT_PROC] = "full without /proc",
        [BOX_CONTAINER] = "container",
    };
    return names[profile];
}

const char *const *box_profile_not_promised(enum box_profile profile)
{
    static const char *const nothing[] = {NULL};
    static const char *const container[] = {
        "file names, sizes and times outside are visible",
        "other processes can be noticed",
        "hostname, kernel and users are visible",
        ("memory is checked every 25 ms where no control group does it, disk and inodes at least "
         "every half second: not enforced"),
        "no private /tmp, /proc, loopback",
        "device nodes in a folder of --mount can be opened",
        "shares the container's uid, where no other can be had",
        "if server and guardian are killed together, code may outlive them",
        ("a kernel without Landlock ABI 6 relies on seccomp for signals, without ABI 3 for "
         "truncation"),
        NULL,
    };
    return profile == BOX_CONTAINER ? container : nothing;
}
