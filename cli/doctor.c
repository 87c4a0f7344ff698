/* sandpiper doctor: starts a sandbox and reports what protects it on this host. Exit code 0 when
 * all protections are on, 1 when one is degraded, 2 when tools would refuse. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"
#include "record/record.h"
#include "tools/keep/keep_files.h"

enum { WRAPPED_BYTES = 4096, WIDTH = 100, FIRST_COLUMN = 12, SECOND_COLUMN = 10 };

static const char *const state_names[] = {
    [BOX_PROTECTION_ON] = "on",
    [BOX_PROTECTION_DEGRADED] = "degraded",
    [BOX_PROTECTION_OFF] = "off",
    [BOX_PROTECTION_UNKNOWN] = "unknown",
};

static int print_plan(const struct box_spec *spec)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct fail fail = {};
    if (box_plan_print(spec, &text, &fail) < 0) {
        terminal_say("%s", fail_text(&fail));
        return 2;
    }
    (void)fwrite(buf_bytes(&text), 1, buf_size(&text), stdout);
    return 0;
}

/* Prints the words of text on lines no longer than WIDTH, unless a word is; the first line begins
 * at the cursor, in column at. */
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

static void print_table(const struct box_report *report, const struct box_fact *facts,
                        unsigned count)
{
    const char *last = "";
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        const struct box_protection_report *entry = &report->protections[i];
        print_row(box_protection_name((enum box_protection)i),
                  entry->state == BOX_PROTECTION_OFF ? "OFF" : state_names[entry->state],
                  entry->detail);
        if (entry->consequence[0]) {
            print_row("", "  so:", entry->consequence);
        }
        if (entry->remedy[0]) {
            print_row("", "  do:", strcmp(entry->remedy, last) == 0 ? "the same" : entry->remedy);
            last = entry->remedy;
        }
    }
    (void)putchar('\n');
    for (unsigned i = 0; i < count; i++) {
        print_row(facts[i].name, facts[i].warning ? "warning" : "", facts[i].text);
    }
}

static void print_not_promised(enum box_level level)
{
    const char *const *words = box_level_not_promised(level);
    if (*words) {
        (void)printf("\nNot promised at this isolation level:\n");
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

static json_t *protections_json(const struct box_report *report)
{
    json_t *protections = json_array();
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        const struct box_protection_report *entry = &report->protections[i];
        (void)json_array_append_new(
            protections,
            json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "protection",
                      box_protection_name((enum box_protection)i), "state",
                      state_names[entry->state], "required", entry->required, "detail",
                      entry->detail, "consequence", entry->consequence, "remedy", entry->remedy));
    }
    return protections;
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

static void print_json(const struct box_report *report, const struct box_fact *facts,
                       unsigned count, const struct utsname *kernel)
{
    json_auto_t *all = json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:b, s:s, s:o, s:o, s:s}",
                                 "version", SANDPIPER_VERSION, "kernel", kernel->release, "machine",
                                 kernel->machine, "isolation", box_level_name(report->level),
                                 "not_promised", words_json(box_level_not_promised(report->level)),
                                 "usable", report->usable, "proven", report->tested, "refusal",
                                 report->refusal, "protections", protections_json(report), "facts",
                                 facts_json(facts, count), "apparmor_lines", report->apparmor);
    (void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    (void)putchar('\n');
}

/* "DIR, 12 sessions, 34 of 256 MiB". Returns how many facts these are. */
static unsigned describe_records(const struct record_config *config, struct box_fact *ret_fact)
{
    struct fail fail = {};
    OWNED(record_names_done) struct record_names names = {};
    if (!config->directory) {
        return 0;
    }
    defer_close int fd = record_directory_open(config->directory, /* create= */ false, &fail);
    if (fd >= 0) {
        record_directory_list(fd, &names);
    }
    *ret_fact = (struct box_fact){.name = "record", .warning = fd < 0 && fail.code != ENOENT};
    (void)snprintf(ret_fact->text, sizeof ret_fact->text, "%.300s, %d session%s, %u of %u MiB",
                   config->directory, names.count, names.count == 1 ? "" : "s",
                   (unsigned)(names.bytes >> 20), (unsigned)(config->bytes >> 20));
    return 1;
}

static void count_kept(void *arg, const char *name, const struct keep_header *header)
{
    struct keep_header *sum = arg;
    sum->cell += !keep_is_earlier(name);
    sum->bytes += header->bytes;
    sum->time_s = header->time_s > sum->time_s ? header->time_s : sum->time_s;
}

/* "DIR: 2 sessions, 14 MiB, newest of 28 Nov 14:02". The same. */
static unsigned describe_kept(const struct keep_config *config, struct box_fact *ret_fact)
{
    struct fail fail = {};
    struct keep_header sum = {};
    char at[32];
    if (!config->directory) {
        return 0;
    }
    defer_close int fd = keep_directory_open(config->directory, /* create= */ false, &fail);
    if (fd >= 0) {
        keep_list(fd, count_kept, &sum);
    }
    *ret_fact = (struct box_fact){.name = "keep", .warning = fd < 0 && fail.code != ENOENT};
    if (ret_fact->warning) {
        (void)snprintf(ret_fact->text, sizeof ret_fact->text, "%s", fail_text(&fail));
        return 1;
    }
    (void)snprintf(ret_fact->text, sizeof ret_fact->text, "%.300s: %u session%s, %u MiB%s%s",
                   config->directory, (unsigned)sum.cell, sum.cell == 1 ? "" : "s",
                   (unsigned)((sum.bytes + (1U << 20) - 1) >> 20),
                   sum.cell > 0 ? ", newest of " : "",
                   sum.cell > 0 ? keep_time(sum.time_s, at) : "");
    return 1;
}

int command_doctor(const struct options *options)
{
    static struct box_report report;
    struct box_fact facts[BOX_FACTS + TOOL_SERVERS + 3 + PROXY_FACTS];
    struct box_spec spec = options->spec;
    struct utsname kernel = {};
    spec.guest = guest_catalog;
    if (options->doctor.effective) {
        return print_effective(options);
    }
    struct box_scratch *scratch = NULL;
    struct box_store *store = NULL;
    struct fail fail = {};
    if (box_scratch_open(&spec, &scratch, &fail) < 0 ||
        (!options->doctor.plan && box_store_open(&spec, &store, &fail) < 0)) {
        terminal_say("%s", fail_text(&fail));
        box_scratch_close(scratch);
        return 2;
    }
    if (options->doctor.plan) {
        int code = print_plan(&spec);
        box_scratch_close(scratch);
        return code;
    }
    (void)uname(&kernel);
    proxy_warn(options);
    box_probe(&spec, &report);
    unsigned count = box_facts(&spec, &report, facts);
    count += proxy_facts(options, &spec, &facts[count]);
    count += describe_records(&options->record, &facts[count]);
    count += describe_kept(&options->keep, &facts[count]);
    if (options->server.tools_file) {
        count += tools_file_facts(&spec, options->server.tools_file, facts + count);
    }
    box_store_close(store);
    box_scratch_close(scratch);
    if (options->doctor.json) {
        print_json(&report, facts, count, &kernel);
    } else {
        (void)printf("sandpiper %s on %s %s %s\n\n", SANDPIPER_VERSION, kernel.sysname,
                     kernel.release, kernel.machine);
        print_table(&report, facts, count);
        (void)putchar('\n');
        if (report.usable) {
            (void)printf(
                "Tools run code in the sandbox. Isolation level: %s. All enabled protections "
                "passed the self-test.\n",
                box_level_name(report.level));
            print_not_promised(report.level);
        } else {
            (void)printf("Tools refuse to run code.\n");
            print_wrapped(report.refusal, 0);
            if (report.apparmor[0]) {
                (void)printf(
                    "\nTo let AppArmor allow it (sysctls "
                    "kernel.apparmor_restrict_unprivileged_userns, _unconfined):\n\n%s",
                    report.apparmor);
            }
        }
    }
    if (!report.usable) {
        return 2;
    }
    return box_report_degraded(&report) ? 1 : 0;
}
