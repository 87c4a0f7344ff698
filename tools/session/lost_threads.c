#include "base/clock.h"
#include "base/parse.h"
#include "tools/session/session_internal.h"

static unsigned number_of(const struct box_message *message, const char *name)
{
    uint64_t number = box_message_number(message, name, 0);
    return number < UINT32_MAX ? (unsigned)number : 0;
}

void lost_threads_take(struct lost_threads *lost, const struct box_message *message, bool is_back)
{
    struct box_field native = {};
    lost->native[0] = '\0';
    if (box_message_get(message, "native", &native) && native.size > 0) {
        (void)word_show(native.data, native.size, lost->native, sizeof lost->native);
    }
    lost->python = number_of(message, "python");
    lost->news += number_of(message, "threads");
    lost->is_news = lost->native[0] && (is_back || lost->is_news);
}

/* Whether it has used the processor for a good part of its time. That of a killed one is not known.
 */
static bool has_computed(const struct run *run)
{
    enum { PART = 10 };
    uint64_t cpu_ms = 0;
    return parse_u64(run_fact(run, RUN_CPU_MS), &cpu_ms) == 0 &&
           cpu_ms * PART > run->end.duration_ns / CLOCK_NS_PER_MS;
}

void lost_threads_report(struct lost_threads *lost, struct run *run)
{
    bool is_timeout = run->end.outcome == RUN_TIMEOUT;
    bool waited = is_timeout && !has_computed(run);
    run_add_number(run, RUN_THREADS, waited ? lost->python : lost->news);
    if (is_timeout || lost->is_news) { /* libraries also spin while they wait */
        run_addf(run, RUN_NATIVE_LOST, "%s", lost->native);
    }
    lost->news = 0;
    lost->is_news = false;
}
