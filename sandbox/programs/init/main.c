/* Init, pid 1 of a sandbox.
 *
 * The server's child has built the sandbox and executed this program from a memfd, so no memory of
 * the server is here. It has no capabilities, is not dumpable, and runs under a filter of its own.
 * It starts the interpreter, reaps, signals and kills at the server's request, and opens files for
 * the file tools by the sandbox's paths. It never parses messages of the guest; the guest controls
 * only the targets of file names, exit statuses and the number of processes.
 *
 * It exits when its socket ends: with the server, for whatever reason. The kernel then kills every
 * process of the pid namespace, pid_namespaces(7). */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/memory.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/types.h"

enum { STRINGS = 192 };

/* Returns what follows. */
static struct sock_filter *cut_filter(struct sock_filter *filters, uint32_t count,
                                      struct sock_fprog *ret_program)
{
    *ret_program = (struct sock_fprog){.len = (unsigned short)count, .filter = filters};
    return filters + count;
}

/* Returns the string at *text and moves *text behind it. */
static char *cut_string(char **text)
{
    char *string = *text;
    *text += strlen(string) + 1;
    return string;
}

/* Makes a list of the strings at *text and moves *text behind them. */
static char **cut_strings(char **text, uint32_t count, char **list)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = cut_string(text);
    }
    list[count] = NULL;
    return list;
}

static void cut_all(struct init *init, char *bytes)
{
    static char *strings[STRINGS + 3];
    const struct wire_config *config = init->config;
    uint64_t *rights = (uint64_t *)(void *)(bytes + sizeof *config);
    struct sock_filter *filters = (struct sock_filter *)(void *)(rights + config->rule_count);
    filters = cut_filter(filters, config->filter_notified_count, &init->filter_notified);
    filters = cut_filter(filters, config->filter_uncounted_count, &init->filter_uncounted);
    filters = cut_filter(filters, config->filter_arguments_count, &init->filter_arguments);
    filters = cut_filter(filters, config->filter_names_count, &init->filter_names);
    char *text = (char *)filters;
    init->argv = cut_strings(&text, config->argc, strings);
    init->envp = cut_strings(&text, config->envc, strings + config->argc + 1);
    init->data = cut_strings(&text, config->datac, strings + config->argc + config->envc + 2);
    for (init->rule_count = 0; init->rule_count < config->rule_count; init->rule_count++) {
        init->rules[init->rule_count] =
            (struct landlock_rule){cut_string(&text), rights[init->rule_count]};
    }
    init->paths.work = cut_string(&text);
    init->paths.tmp = cut_string(&text);
    init->paths.staging = cut_string(&text);
    init->paths.egress = cut_string(&text);
    init->paths.output = cut_string(&text);
    for (unsigned i = 0; i < INIT_SCRATCH_DIRECTORIES; i++) {
        init->paths.scratch[i] = cut_string(&text);
    }
}

/* Maps and parses what the server has written. The memfd is sealed, and only init has it. */
static bool settings_load(struct init *init)
{
    struct stat st;
    if (fstat(WIRE_CONFIG_FD, &st) < 0 || st.st_size < (off_t)sizeof(struct wire_config)) {
        return false;
    }
    char *bytes =
        mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, WIRE_CONFIG_FD, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    (void)close(WIRE_CONFIG_FD);
    const struct wire_config *config = (const struct wire_config *)(void *)bytes;
    if (config->magic != WIRE_CONFIG_MAGIC ||
        config->argc + config->envc + config->datac > STRINGS || config->rule_count > INIT_RULES) {
        return false;
    }
    init->config = config;
    cut_all(init, bytes);
    return true;
}

static struct init state;

/* Exits, and ends all other processes of the sandbox. */
__attribute__((noreturn)) static void init_end(int code)
{
    if (state.processes.root) {
        (void)process_tree_kill(state.processes.root);
    }
    _exit(code);
}

static void init_make_pair(void)
{
    defer_close_pair int ends[2] = {-1, -1};
    int r = fd_socketpair(SOCK_STREAM, ends);
    const struct wire_reply reply = {.event = WIRE_PAIR_MADE, .error = -r};
    reply_send_fds(&reply, ends, r < 0 ? 0 : 2);
}

/* The sandbox's only egress: the egress proxy, outside, accepts the connections to this socket. */
static void init_listen(uint32_t id)
{
    enum { WAITING = 128 };
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(EGRESS_PROXY_PORT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = id};
    defer_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ||
        listen(fd, WAITING) < 0) {
        reply.error = errno;
    }
    reply_send(&reply, reply.error ? -1 : fd);
}

static void init_dispatch(const struct wire_request *request)
{
    switch (request->op) {
    case WIRE_START_ZYGOTE:
        zygote_start(&state, request);
        break;
    case WIRE_START_KEEPER:
        keeper_start(&state, request);
        break;
    case WIRE_START_PROGRAM:
        program_start(&state, request);
        break;
    case WIRE_SELFTEST:
        selftest_spawn(&state, request);
        break;
    case WIRE_PAIR:
        init_make_pair();
        break;
    case WIRE_LISTEN:
        init_listen(request->id);
        break;
    default:
        if (!watch_serve(&state.processes, request) && !files_serve(&state, request)) {
            reply_result(request->id, ENOSYS);
        }
    }
}

/* Receives one packet. Exits when the server has closed its end. */
static void init_receive(void)
{
    static struct wire_request request;
    ssize_t size = packet_receive(WIRE_INIT_FD, &request, sizeof request, NULL, 0);
    if (size == -EINTR || size == -EAGAIN) {
        return;
    }
    if (size <= 0) {
        init_end(size < 0);
    }
    request.path[sizeof request.path - 1] = '\0';
    init_dispatch(&request);
}

static bool grows; /* what watch_memory() has returned */

/* The time until the next check is due. */
static int init_check_ms(void)
{
    if (state.config->disk_bytes) {
        return INIT_SUPERVISOR_MS;
    }
    if (state.config->watch_memory_bytes && !state.blind) {
        return grows ? MEMORY_CLOSE_MS : MEMORY_WATCH_MS;
    }
    if (state.config->uncounted_bytes && !state.blind && !state.config->staging_bytes) {
        return objects_looking() ? MEMORY_WATCH_MS : MEMORY_UNCOUNTED_MS;
    }
    return state.config->staging_bytes ? INIT_DISK_MS : -1;
}

static int init_watch_ms(void)
{
    if (!state.guest_runs) {
        return -1;
    }
    int check_ms = init_check_ms();
    int machine_ms = machine_refresh(&state);
    return check_ms < 0 || (machine_ms >= 0 && machine_ms < check_ms) ? machine_ms : check_ms;
}

/* Counts memory when that is due. Code's notifications wake this program at any rate, and a scan of
 * all processes must not run for each of them. After a scan it pauses as long as the scan took:
 * otherwise a slow machine with many processes would only count. */
static void init_look(void)
{
    static uint64_t next_ns;
    uint64_t began_ns = clock_now_ns();
    bool counts = state.config->watch_memory_bytes != 0;
    if ((!counts && !state.config->uncounted_bytes) || state.blind || !state.guest_runs ||
        began_ns < next_ns) {
        return;
    }
    if (counts) {
        struct memory_watch watch = {.processes = &state.processes,
                                     .limit_bytes = state.config->watch_memory_bytes,
                                     .tmp = state.config->guards ? NULL : state.paths.tmp,
                                     .scratch = state.config->disk_bytes != 0};
        watch.scratch_bytes = watch.scratch ? watch_scratch_memory(&state) : 0;
        grows = watch_memory(&watch);
    } else {
        watch_uncounted(&state.processes, state.config->uncounted_bytes, state.config->inet_bytes);
    }
    uint64_t ended_ns = clock_now_ns();
    uint64_t took_ns = ended_ns - began_ns;
    uint64_t least_ms = grows                         ? MEMORY_CLOSE_MS / 2
                        : counts || objects_looking() ? MEMORY_WATCH_MS / 2
                                                      : MEMORY_UNCOUNTED_MS;
    uint64_t least_ns = least_ms * CLOCK_NS_PER_MS;
    next_ns = ended_ns + (took_ns > least_ns ? took_ns : least_ns);
}

/* No program that this one starts gets them. */
static void keep_descriptors(void)
{
    for (int fd = WIRE_INIT_FD; fd < WIRE_FD_COUNT; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* fails where it is closed */
    }
    files_keep_outputs(state.config->guards
                           ? open(state.paths.output, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                           : WIRE_OUTPUT_FD);
}

/* Before something else can get their numbers. */
static void find_descriptors(void)
{
    state.overlay_fd = fcntl(WIRE_OVERLAY_FD, F_GETFD) < 0 ? -1 : WIRE_OVERLAY_FD;
    machine_open();
    state.processes.files_fd = fcntl(WIRE_FILES_FD, F_GETFD) < 0 ? -1 : WIRE_FILES_FD;
}

static void drain_signals(void)
{
    struct signalfd_siginfo info;
    while (read(state.signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
    }
}

int init_main(void)
{
    sigset_t mask;
    state.notify.fd = -1; /* not in the program's image, which each server has in memory */
    find_descriptors();
    (void)sigfillset(&mask);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    /* An ignored SIGCHLD is inherited, and would discard exit statuses, sigaction(2). */
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    /* Set already, except where that would have cost the supervisor an id (child.c). */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !settings_load(&state)) {
        return 1;
    }
    assert(state.config);
    state.processes.guards = state.config->guards;
    state.processes.on_other = files_reaped;
    state.processes.epoll_item_bytes = state.config->epoll_item_bytes;
    enum wire_step failed = state.config->guards ? supervisor_begin(&state) : WIRE_STEP_NONE;
    if (failed) {
        return (int)failed; /* the server's number of the step */
    }
    if (!state.config->guards && state.filter_notified.len &&
        notify_open(&state.notify, &(struct notify_settings){}) < 0) {
        state.filter_notified.len = 0; /* older than Linux 5.0 */
    }
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    state.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (state.signal_fd < 0) {
        return 1;
    }
    keep_descriptors();
    if (state.notify.fd >= 0 && (notify_also(&state.notify, WIRE_INIT_FD) < 0 ||
                                 notify_also(&state.notify, state.signal_fd) < 0)) {
        return 1;
    }
    state.blind = access("/proc/self", F_OK) < 0;
    bool sweeps = false;
    for (;;) {
        struct pollfd fds[] = {{.fd = WIRE_INIT_FD, .events = POLLIN},
                               {.fd = state.signal_fd, .events = POLLIN}};
        int timeout_ms = sweeps ? PROCESSES_SWEEP_MS : init_watch_ms();
        if (state.notify.fd >= 0) {
            notify_serve(&state.notify, timeout_ms);
            timeout_ms = 0;
        }
        (void)poll(fds, sizeof fds / sizeof *fds, timeout_ms);
        if (fds[1].revents) {
            drain_signals();
        }
        watch_reap(&state.processes);
        init_look();
        if (state.config->staging_bytes) {
            watch_disk(&state);
        }
        if (state.config->disk_bytes) {
            watch_scratch(&state);
        }
        if (fds[0].revents) {
            init_receive();
        }
        sweeps = watch_sweep(&state.processes);
    }
}
