/* sandpiper doctor: what holds on this host, found out by starting a sandbox. Exit code 0 when all
 * required layers are on, 1 when something is degraded, 2 when tools would refuse. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "guest/guest.h"

static const char *const state_names[] = {
    [BOX_LAYER_ON] = "on", [BOX_LAYER_DEGRADED] = "degraded", [BOX_LAYER_OFF] = "OFF"};

static int print_plan(const struct box_spec *spec)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct fail fail = {};
    if (box_plan_print(spec, &text, &fail) < 0) {
        char sentence[FAIL_TEXT + 128];
        (void)fprintf(stderr, "sandpiper: %s\n", fail_describe(&fail, sentence, sizeof sentence));
        return 2;
    }
    return fwrite(buf_bytes(&text), 1, buf_size(&text), stdout) == buf_size(&text) ? 0 : 2;
}

static void print_table(const struct box_layer_report *reports, const struct utsname *kernel)
{
    (void)printf("sandpiper %s on %s %s %s\n\n", SANDPIPER_VERSION, kernel->sysname,
                 kernel->release, kernel->machine);
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        (void)printf("%-11s %-9s %s\n", reports[i].name, state_names[reports[i].state],
                     reports[i].detail);
        if (reports[i].consequence[0]) {
            (void)printf("%-21s so: %s\n", "", reports[i].consequence);
        }
        if (reports[i].remedy[0]) {
            (void)printf("%-21s do: %s\n", "", reports[i].remedy);
        }
    }
}

static void print_json(const struct box_layer_report *reports, const struct utsname *kernel,
                       bool usable)
{
    json_t *layers = json_array();
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        const struct box_layer_report *report = &reports[i];
        (void)json_array_append_new(
            layers, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "layer", report->name, "state",
                              report->state == BOX_LAYER_OFF ? "off" : state_names[report->state],
                              "required", report->required, "detail", report->detail, "consequence",
                              report->consequence, "remedy", report->remedy));
    }
    json_auto_t *all =
        json_pack("{s:s, s:s, s:s, s:b, s:o}", "version", SANDPIPER_VERSION, "kernel",
                  kernel->release, "machine", kernel->machine, "usable", usable, "layers", layers);
    (void)json_dumpf(all, stdout, JSON_INDENT(2));
    (void)putchar('\n');
}

int command_doctor(const struct options *options)
{
    static struct box_layer_report reports[BOX_LAYER_COUNT];
    struct box_spec spec = options->spec;
    struct utsname kernel = {};
    spec.guest = guest_catalog;
    if (options->plan) {
        return print_plan(&spec);
    }
    (void)uname(&kernel);
    bool usable = box_probe(&spec, reports);
    if (options->json) {
        print_json(reports, &kernel, usable);
    } else {
        print_table(reports, &kernel);
        (void)printf("\n%s\n", usable ? "Tools run code in the sandbox."
                                      : "Tools refuse to run code, see the layer that is OFF.");
    }
    int code = usable ? 0 : 2;
    for (unsigned i = 0; code == 0 && i < BOX_LAYER_COUNT; i++) {
        code = reports[i].state == BOX_LAYER_ON ? 0 : 1;
    }
    return code;
}
