#include <jansson.h>
#include <stdio.h>

#include "base/loop.h"
#include "bridge/format.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "tools/tools.h"

/* The list that a client gets, limits filled in, in the form of --format. */
int command_schema(const struct options *options)
{
    struct loop *loop = NULL;
    struct tools *tools = NULL;
    struct options own = *options;
    struct tools_config config = options_tools_config(&own);
    config.ui = TOOLS_UI_OFF; /* no page is shown */
    int code = 1;
    if (loop_new(&loop) == 0 && tools_new(loop, &config, &tools) == 0) {
        struct rpc_tools for_rpc = tools_for_rpc(tools);
        json_auto_t *list = for_rpc.list(for_rpc.ctx);
        json_auto_t *declared =
            list ? bridge_declare(options->format, options->strict, list) : NULL;
        if (declared &&
            json_dumpf(declared, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) == 0) {
            (void)putchar('\n');
            code = 0;
        }
    }
    tools_free(tools);
    loop_free(loop);
    return code;
}
