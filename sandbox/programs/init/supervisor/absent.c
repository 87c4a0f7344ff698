/* For a build without the isolation level `container` (-Dunprivileged=false): nothing calls
 * these. */
#include "sandbox/programs/init/init.h"
#include "sandbox/programs/init/supervisor/notify.h"

const struct notify_handler notify_handlers_of_files[] = {{}};

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
