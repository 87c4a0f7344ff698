/* sandpiper doctor: what holds on this host, found out by starting a sandbox. Exit code 0 when all
 * layers are on, 1 when something is degraded, 2 when tools would refuse. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"

enum { WRAPPED_BYTES = 4096, WIDTH = 100, FIRST_COLUMN = 12, SECOND_COLUMN = 10 };

static const char *const state_names[] = {
    [BOX_LAYER_ON] = "on",
    [BOX_LAYER_DEGRADED] = "degraded",
    [BOX_LAYER_OFF] = "off",
    [BOX_LAYER_UNKNOWN] = "unknown",
};

static int print_plan(const struct box_spec *spec)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct fail fail = {};
    if (box_plan_print(spec, &text, &fail) < 0) {
        char sentence[FAIL_TEXT + 128];
        terminal_say("%s", fail_describe(&fail, sentence, sizeof sentence));
        return 2;
    }
    return fwrite(buf_bytes(&text), 1, buf_size(&text), stdout) == buf_size(&text) ? 0 : 2;
}

/* Words of text, broken so that no line is longer than WIDTH where a word allows it; the first line
 * begins where the cursor is, at column at. */
static void print_wrapped(const char *words, unsigned at)
{
    char shown[WRAPPED_BYTES];
    const char *text = word_line(words, shown, sizeof shown);
    unsigned column = at;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > at && column + 1 + word > WIDTH) {
            (void)printf("\n%*s", (int)at, "");
            column = at;
        }
        column += (unsigned)printf("%s%.*s", column > at ? " " : "", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    (void)putchar('\n');
}

static void print_row(const char *name, const char *state, const char *text)
{
    (void)printf("%-*s%-*s", FIRST_COLUMN, name, SECOND_COLUMN, state);
    print_wrapped(text, FIRST_COLUMN + SECOND_COLUMN);
}

static void print_table(const struct box_grade *grade, const struct box_fact *facts, unsigned count)
{
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        const struct box_layer_report *report = &grade->layers[i];
        print_row(box_layer_name((enum box_layer)i),
                  report->state == BOX_LAYER_OFF ? "OFF" : state_names[report->state],
                  report->detail);
        if (report->consequence[0]) {
            print_row("", "  so:", report->consequence);
        }
        if (report->remedy[0]) {
            print_row("", "  do:", report->remedy);
        }
    }
    (void)putchar('\n');
    for (unsigned i = 0; i < count; i++) {
        print_row(facts[i].name, facts[i].warning ? "warning" : "", facts[i].text);
    }
}

static void print_not_promised(enum box_profile profile)
{
    const char *const *words = box_profile_not_promised(profile);
    if (*words) {
        (void)printf("\nNot promised in this grade:\n");
    }
    for (; *words; words++) {
        (void)printf("  - ");
        print_wrapped(*words, 4);
    }
}

static json_t *words_json(const char *const *words)
{
    json_t *list = json_array();
    for (; *words; words++) {
        (void)json_array_append_new(list, json_string(*words));
    }
    return list;
}

static json_t *layers_json(const struct box_grade *grade)
{
    json_t *layers = json_array();
    for (unsigned i = 0; i < BOX_LAYER_COUNT; i++) {
        const struct box_layer_report *report = &grade->layers[i];
        (void)json_array_append_new(layers, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "layer",
                                                      box_layer_name((enum box_layer)i), "state",
                                                      state_names[report->state], "required",
                                                      report->required, "detail", report->detail,
                                                      "consequence", report->consequence, "remedy",
                                                      report->remedy));
    }
    return layers;
}

static json_t *facts_json(const struct box_fact *facts, unsigned count)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++) {
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:b, s:s}", "fact", facts[i].name, "warning",
                                              facts[i].warning, "text", facts[i].text));
    }
    return list;
}

static void print_json(const struct box_grade *grade, const struct box_fact *facts, unsigned count,
                       const struct utsname *kernel)
{
    json_auto_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:b, s:s, s:o, s:o, s:s}", "version",
                  SANDPIPER_VERSION, "kernel", kernel->release, "machine", kernel->machine,
                  "isolation", box_profile_name(grade->profile), "not_promised",
                  words_json(box_profile_not_promised(grade->profile)), "usable", grade->usable,
                  "proven", grade->proven, "refusal", grade->refusal, "layers", layers_json(grade),
                  "facts", facts_json(facts, count), "apparmor_lines", grade->apparmor);
    (void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    (void)putchar('\n');
}

int command_doctor(const struct options *options)
{
    static struct box_grade grade;
    struct box_fact facts[BOX_FACTS];
    struct box_spec spec = options->spec;
    struct utsname kernel = {};
    spec.guest = guest_catalog;
    if (options->effective) {
        return print_effective(options);
    }
    struct box_room *room = NULL;
    struct fail fail = {};
    if (box_room_open(&spec, &room, &fail) < 0) {
        terminal_say("%s", fail.text);
        return 2;
    }
    if (options->plan) {
        int code = print_plan(&spec);
        box_room_close(room);
        return code;
    }
    (void)uname(&kernel);
    box_probe(&spec, &grade);
    unsigned count = box_facts(&spec, &grade, facts);
    box_room_close(room);
    if (options->json) {
        print_json(&grade, facts, count, &kernel);
    } else {
        (void)printf("sandpiper %s on %s %s %s\n\n", SANDPIPER_VERSION, kernel.sysname,
                     kernel.release, kernel.machine);
        print_table(&grade, facts, count);
        (void)putchar('\n');
        if (grade.usable) {
            (void)printf(
                "Tools run code in the sandbox. Grade: %s. Each layer that is on was seen at "
                "work.\n",
                box_profile_name(grade.profile));
            print_not_promised(grade.profile);
        } else {
            (void)printf("Tools refuse to run code.\n");
            print_wrapped(grade.refusal, 0);
            if (grade.apparmor[0]) {
                (void)printf("\nTo let AppArmor allow it:\n\n%s", grade.apparmor);
            }
        }
    }
    if (!grade.usable) {
        return 2;
    }
    return box_grade_gaps(&grade) ? 1 : 0;
}
