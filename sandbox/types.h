#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/embed.h"
#include "base/fail.h"

struct box;
struct box_report;
struct box_scratch;
struct box_store;

/* Types that the directories of sandbox/ share: what the user requests of a sandbox, and who
 * receives its events. The functions are in the directories' own headers; sandbox.h includes those
 * for other modules. */

/* The sandbox's hostname, where it can have one. */
#define BOX_HOSTNAME "sandbox"

/* Which isolation levels the user accepts. */
enum box_isolation {
    BOX_ISOLATION_AUTO, /* namespaces, with or without the sandbox's own /proc; else no code runs */
    BOX_ISOLATION_FULL, /* namespaces with /proc; else no code runs */
    BOX_ISOLATION_CONTAINER, /* without namespaces, for use inside a container */
    BOX_ISOLATION_BEST,      /* as AUTO; without namespaces as CONTAINER */
};

/* Isolation levels. */
enum box_level {
    BOX_FULL,
    BOX_FULL_WITHOUT_PROC, /* /proc is empty: a filter or the kernel refuses a new one */
    BOX_CONTAINER,         /* no namespaces: Landlock, filters and a supervisor */
};

enum box_protection {
    BOX_PROTECTION_NAMESPACES,
    BOX_PROTECTION_MOUNTS,
    BOX_PROTECTION_PRIVILEGES,
    BOX_PROTECTION_SECCOMP,
    BOX_PROTECTION_LANDLOCK,
    BOX_PROTECTION_MEMORY,
    BOX_PROTECTION_PIDS,
    BOX_PROTECTION_CPU,
    BOX_PROTECTION_DISK,
    BOX_PROTECTION_PYTHON,
    BOX_PROTECTION_COUNT,
};

enum { BOX_MOUNTS = 32, BOX_ALIASES = 32 };

struct box_mount {
    const char *name; /* below /data; "HOME/DIRECTORY" for a directory of the home directory */
    const char *path; /* on the host, absolute and without symlinks */
    uid_t uid;        /* owner */
    gid_t gid;
    bool writable;
};

/* Other paths at which the same files are mounted. Owns the strings. */
struct box_aliases {
    const char *at[BOX_ALIASES];
    unsigned count;
};

/* Where code finds its files. A sandbox with its own root has the same paths everywhere
 * (box_paths_full); one without has the host's paths. */
struct box_paths {
    const char *work; /* the workspace, which is the current directory */
    const char *tmp;
    const char *home;
    /* Overflow files: code reads them and only init writes them. NULL for installers. */
    const char *output;
    const char *run;  /* the guest program */
    const char *data; /* directory of the mounts; NULL: each has the host's path */
    /* directory of the layers 1 … N; NULL: box_packages has it */
    const char *packages;
    /* For installers, like all that follow. NULL: box_packages has it. */
    const char *staging;
    const char *cache;
    const char *find_links;
    const char *constraint;
    const char *certificate;
};

/* What a sandbox may reach, and which requests were refused. A sandbox has no network but its own
 * loopback. With a policy, one socket listens there; the egress proxy (programs/proxy), a confined
 * program outside the sandbox, accepts its connections and connects only to what the policy
 * names. */

enum {
    EGRESS_ROWS = 64,
    EGRESS_HOST_BYTES = 254, /* the longest name, RFC 1035, and a NUL */
    EGRESS_PORTS = 2,
    EGRESS_TEXT_BYTES = 400,
    /* On 127.0.0.1 of the sandbox's network, where nothing else listens. */
    EGRESS_PROXY_PORT = 3128,
};
#define EGRESS_PROXY_URL "http://127.0.0.1:3128"

/* As IPv6; IPv4 as ::ffff:a.b.c.d, so that each address has one form. */
struct egress_address {
    uint8_t bytes[16];
};

struct egress_row {
    /* Lower case without a final dot, or an address in its printed form. */
    char host[EGRESS_HOST_BYTES];
    uint16_t ports[EGRESS_PORTS]; /* 0: none */
    bool literal;                 /* the user gave an address, not a name */
    bool asked;                   /* the user allowed it while code ran */
    struct egress_address address;
};

struct egress_policy {
    struct egress_row rows[EGRESS_ROWS];
    unsigned count;
    bool ask;         /* the server may ask the user for more */
    bool any_address; /* names may lead into the user's network, but to no metadata service */
    const char *flag; /* "--allow-host": the option that a refusal names; borrowed */
};

/* A proxy of the user's network, through which the egress proxy connects. */
struct egress_upstream {
    char host[EGRESS_HOST_BYTES]; /* as in a row; "": the URL was unusable */
    uint16_t port;
    bool literal;
    struct egress_address address;
    char source[16];    /* the setting that names it: "--proxy", "HTTPS_PROXY" */
    char unusable[200]; /* why nothing can go through it, a clause; "": it is usable */
    char user[256];     /* decoded; has_login: it and the password are sent */
    char password[512]; /* decoded */
    bool has_login;
};

/* How connections leave this machine. A kind without an upstream proxy goes directly. */
enum egress_kind { EGRESS_HTTPS /* and all tunnels */, EGRESS_HTTP, EGRESS_KINDS };
enum { EGRESS_DIRECT_BYTES = 8192 };
struct egress_ways {
    struct egress_upstream upstreams[EGRESS_KINDS]; /* those with a source are set */
    char direct[EGRESS_DIRECT_BYTES]; /* hosts that are reached directly, as in NO_PROXY */
    bool direct_cut;                  /* the last ones did not fit, and count for nothing */
};

enum egress_event_kind {
    EGRESS_REFUSED_HOST,    /* not in the policy */
    EGRESS_REFUSED_ADDRESS, /* an address that is not public, or a name of one */
    EGRESS_REFUSED_REQUEST, /* malformed or not supported */
    EGRESS_REFUSED_LIMIT,   /* of bytes or time */
    EGRESS_UNREACHABLE,     /* allowed, but the name does not resolve or nothing accepts */
    EGRESS_UPSTREAM,        /* allowed, but the upstream proxy refuses it or does not work */
    EGRESS_ALLOWED,         /* a connection was made */
    EGRESS_EVENT_COUNT,
};

struct egress_event {
    enum egress_event_kind kind;
    uint16_t port;
    uint32_t missed;              /* events that the proxy could not report before this one */
    char host[EGRESS_HOST_BYTES]; /* "" where the request named none */
    char text[EGRESS_TEXT_BYTES]; /* one sentence of printable ASCII */
};

typedef void (*egress_event_fn)(void *arg, const struct egress_event *event);

/* --- what the user requests --- */

/* Numbers of processors, as bits. Those above have none of their own here: programs that use
 * sched_getaffinity(2) with glibc's cpu_set_t do not see them either. */
enum { BOX_PROCESSORS = 1024 };
struct box_processors {
    uint64_t bits[BOX_PROCESSORS / 64];
};

static inline bool box_processors_has(const struct box_processors *processors, unsigned number)
{
    return number < BOX_PROCESSORS && (processors->bits[number / 64] >> number % 64 & 1);
}

struct box_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint32_t pids;
    uint32_t cpu_milli; /* thousandths of a processor; 0: no bound */
};

/* Certificates beside the guest's files, where there are more than the machine's. */
#define BOX_BUNDLE "ca-bundle.pem"

/* All strings are borrowed and must outlive the sandbox. */
struct box_spec {
    struct box_limits limits;
    enum box_isolation isolation;
    struct box_paths paths; /* of what is named below */
    /* Why the scratch directory or the store is missing: then no sandbox starts. */
    const char *start_error;
    /* Holds the sandboxes' files. NULL: the sandboxes have their own root. */
    struct box_scratch *scratch;
    /* Limit of the container or service that encloses the server; 0: none. */
    uint64_t memory_enclosing;
    uint32_t require;        /* bits 1 << protection: code runs only when these are on */
    uint32_t allow_degraded; /* code runs even without these */
    const char *workspace;   /* host directory for /work; NULL: on the sandbox's own tmpfs */
    /* Copy-on-write: /work shows the workspace with the sandbox's changes on top, and the directory
     * itself stays as it is. */
    bool cow;
    const char *cow_store;           /* directory in which changes outlive the server, or NULL */
    const struct box_store *store;   /* its part for the workspace, see store.h, or NULL */
    uint64_t undo_files_bytes;       /* what may be kept of earlier states of files; 0: none */
    const char *workspace_elsewhere; /* of the sessions beside this installer; not shown in it */
    uint64_t allow_write; /* protected names that code may write to: workspace/protected.h */
    struct box_mount mounts[BOX_MOUNTS];
    unsigned mount_count;
    struct box_aliases aliases; /* other paths of what code writes to */
    const char *python;  /* --python, or NULL: the active virtual environment, else python3 */
    const char *preload; /* modules, comma-separated, or NULL */
    const char *seed;    /* a number: of the random numbers of each interpreter; NULL: none */
    const struct embedded *guest; /* files for /run/sandpiper; a row without a name ends them */
    /* One pipe for each stream: exact streams without a common order. Otherwise one pipe keeps the
     * order, and what children and C code write to stderr counts as stdout. */
    bool separate_streams;
    const struct egress_policy *egress; /* what can be reached; NULL: no network */
    const struct egress_ways *ways;     /* NULL: everything is reached directly */
    const char *certificates;           /* file of those that the machine trusts, or NULL */
    const struct embedded *bundle;      /* BOX_BUNDLE: these and the user's own; NULL: no others */
    bool keep;     /* sessions are kept: the interpreter loads what does that */
    bool calls;    /* code can call tools of other servers: each session has a socket for that */
    bool packages; /* can be installed: their directory exists and is shown */
    const char *cache;       /* the user's package directory; NULL: in their cache directory */
    uint64_t packages_bytes; /* limit of all installed packages together, and of one installation */
};

enum box_state {
    BOX_STARTING,
    BOX_READY, /* the interpreter has reported it */
    BOX_DEAD,  /* nothing of it is left; call box_free() */
};

struct path_list {
    const char *const *at;
    size_t count;
};

/* Called once with BOX_READY and once with BOX_DEAD. why: set when the sandbox failed to start or
 * died by itself; NULL after box_kill(). */
typedef void (*box_state_fn)(void *arg, enum box_state state, const struct fail *why);

/* Who receives a sandbox's events. report: borrowed while the sandbox exists; filled before
 * on_state receives BOX_READY, and before a failure is reported. */
struct box_owner {
    struct loop *loop;
    box_state_fn on_state;
    void *arg;
    struct box_report *report;
    egress_event_fn on_egress; /* what the egress proxy refused; may be NULL */
};

/* --- the defaults of a request, and what follows from it (spec/spec.c) --- */

/* Where code finds its files in a sandbox with its own root. */
extern const struct box_paths box_paths_full;

void box_spec_init(struct box_spec *spec);

/* Whether /work is the user's directory itself, in which they may work at the same moment. */
bool box_spec_is_written_through(const struct box_spec *spec);

/* Whether the files of /work are there after the sandbox, in the user's directory or in a store. */
bool box_spec_files_stay(const struct box_spec *spec);

/* Size of the tmpfs with the workspace and /tmp: may be less than requested, as a part of the
 * memory. */
uint64_t box_spec_disk_bytes(const struct box_spec *spec);

/* What copies of files for `undo` may take: less than requested, as a part of the memory. */
uint64_t box_spec_undo_files_bytes(const struct box_spec *spec);
