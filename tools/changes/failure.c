#include "tools/changes/failure.h"

#include <errno.h>
#include <string.h>

#include "rpc/call.h"
#include "rpc/code.h"
#include "tools/content/content.h"

void changes_fail(struct rpc_call *call, int error)
{
    switch (error) {
    case ENOMEM:
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        break;
    case ECONNRESET:
        content_refuse(call, "The sandbox exited meanwhile; see list_changes for what is left.");
        break;
    case ECANCELED:
        content_refuse(call, "The call was cancelled; see list_changes for what is left.");
        break;
    case E2BIG:
        content_refuse(call,
                       "There are too many changes to list or apply them: remove what is not "
                       "needed in /work.");
        break;
    case ELOOP:
    case ENOENT:
    case ENOTDIR:
        content_refuse(call,
                       "The user's directory is no longer where it was when the server "
                       "started; nothing was applied.");
        break;
    default:
        content_refuse(call, "The changes are not accessible: %s.", strerror(error));
        break;
    }
}
