/* For a build without the isolation level `container` (-Dunprivileged=false): nothing calls
 * these. */
#include <errno.h>

#include "sandbox/programs/init/init.h"
#include "sandbox/programs/init/supervisor/notify.h"

#define REFUSED(name)                                                                              \
    long name(const struct notify_call *)                                                          \
    {                                                                                              \
        return -ENOSYS;                                                                            \
    }

REFUSED(handle_chmod)
REFUSED(handle_utime)
REFUSED(handle_utimes)
REFUSED(handle_futimesat)
REFUSED(handle_utimensat)
REFUSED(handle_truncate)
REFUSED(handle_socket)
REFUSED(handle_bind)
REFUSED(handle_connect)

void sockets_retry(struct notify *)
{
}

void sockets_forget(struct notify *, int)
{
}

enum wire_step supervisor_begin(struct init *)
{
    return WIRE_STEP_EXECUTE;
}
