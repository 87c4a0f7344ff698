#include "rpc/ask.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "base/own.h"
#include "rpc/dispatch.h"
#include "rpc/peer.h"
#include "tests/unit/unit.h"

/* A peer without descriptors: lines go in, and what it writes is looked at. Its only tool asks. */
struct world {
    struct loop *loop;
    struct rpc_peer peer;
    struct rpc_call *call; /* while it waits */
    bool can_ask;
    unsigned told;
    unsigned cancelled;
    enum rpc_answer answer;
    char content[64]; /* as JSON */
};

static void fake_answered(void *arg, enum rpc_answer answer, const json_t *content)
{
    struct world *world = arg;
    world->told++;
    world->answer = answer;
    world->content[0] = '\0';
    if (content) {
        size_t size = json_dumpb(content, world->content, sizeof world->content - 1, JSON_COMPACT);
        world->content[size] = '\0';
    }
    if (answer == RPC_ANSWER_LATER) {
        world->call = NULL;
    }
}

static bool fake_start(void *ctx, struct rpc_call *call, const char *, json_t *)
{
    struct world *world = ctx;
    json_auto_t *schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
    struct rpc_question question = {"the key", "May I?", schema};
    world->call = call;
    world->can_ask = rpc_call_can_ask(call);
    rpc_call_ask(call, &question, fake_answered, world);
    return true;
}

static void fake_cancel(void *ctx, struct rpc_call *)
{
    ((struct world *)ctx)->cancelled++;
}

static json_t *fake_instructions(void *)
{
    return NULL;
}

static void fake_written(void *)
{
}

static void world_init(struct world *world)
{
    *world = (struct world){.answer = RPC_ANSWER_COUNT};
    assert_int_equal(loop_new(&world->loop), 0);
    world->peer = (struct rpc_peer){
        .config = {"fake", NULL, "1"},
        .tools = {.ctx = world,
                  .start = fake_start,
                  .cancel = fake_cancel,
                  .instructions = fake_instructions},
        .loop = world->loop,
        .written = fake_written,
    };
}

static void world_done(struct world *world)
{
    if (world->call) {
        rpc_call_fail(world->call, RPC_INTERNAL_ERROR, "end");
    }
    rpc_peer_done(&world->peer);
    loop_free(world->loop);
}

static void feed(struct world *world, const char *line)
{
    dispatch_line(&world->peer, (struct span){line, strlen(line)}, /* cut= */ NULL);
}

/* Compares what was written since the last look. */
static void expect(struct world *world, const char *expected)
{
    assert_int_equal(buf_append(&world->peer.out, "", 1), 0);
    assert_string_equal(buf_bytes(&world->peer.out), expected);
    buf_clear(&world->peer.out, SIZE_MAX);
}

#define R "{\"jsonrpc\":\"2.0\","
#define CALL(id) R "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}"
#define QUESTION                                                                                   \
    "\"method\":\"elicitation/create\",\"params\":{\"message\":\"May I?\",\"requestedSchema\":{"   \
    "\"type\":\"object\",\"properties\":{}}}"

static void greet(struct world *world, const char *version, const char *capabilities)
{
    char line[300];
    (void)snprintf(line, sizeof line,
                   R
                   "\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
                   "\"capabilities\":%s}}",
                   version, capabilities);
    feed(world, line);
    buf_clear(&world->peer.out, SIZE_MAX);
}

static void host_that_declared_forms_is_asked_by_a_request(void **)
{
    static const struct {
        const char *result;
        enum rpc_answer answer;
        const char *content;
    } cases[] = {
        {"\"result\":{\"action\":\"accept\",\"content\":{\"a\":true}}", RPC_ANSWER_ACCEPTED,
         "{\"a\":true}"},
        {"\"result\":{\"action\":\"accept\",\"content\":7}", RPC_ANSWER_ACCEPTED, ""},
        {"\"result\":{\"action\":\"decline\",\"content\":{\"a\":true}}", RPC_ANSWER_DECLINED, ""},
        {"\"result\":{\"action\":\"cancel\"}", RPC_ANSWER_DISMISSED, ""},
        {"\"result\":{\"action\":\"agree\"}", RPC_ANSWER_NONE, ""},
        {"\"result\":{\"action\":[]}", RPC_ANSWER_NONE, ""},
        {"\"result\":null", RPC_ANSWER_NONE, ""},
        {"\"result\":5", RPC_ANSWER_NONE, ""},
        {"\"error\":{\"code\":-32601,\"message\":\"?\"}", RPC_ANSWER_NONE, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        char line[200];
        world_init(&world);
        greet(&world, i % 2 ? "2025-06-18" : "2025-11-25", "{\"elicitation\":{}}");
        feed(&world, CALL("1"));
        assert_true(world.can_ask);
        expect(&world, "{" QUESTION ",\"id\":\"ask-1\",\"jsonrpc\":\"2.0\"}\n");
        feed(&world, R "\"id\":\"ask-2\",\"result\":{\"action\":\"accept\"}}");
        feed(&world, R "\"id\":1,\"result\":{\"action\":\"accept\"}}");
        assert_int_equal(world.told, 0);
        (void)snprintf(line, sizeof line, R "\"id\":\"ask-1\",%s}", cases[i].result);
        feed(&world, line);
        feed(&world, line);
        assert_int_equal(world.told, 1);
        assert_int_equal(world.answer, cases[i].answer);
        assert_string_equal(world.content, cases[i].content);
        expect(&world, "");
        world_done(&world);
    }
}

static void host_that_cannot_ask_is_not_asked(void **)
{
    static const char *const hosts[][2] = {
        {"2025-11-25", "{}"},
        {"2025-11-25", "{\"elicitation\":{\"url\":{}}}"},
        {"2025-11-25", "{\"elicitation\":true}"},
        {"2025-11-25", "7"},
        {"2025-03-26", "{\"elicitation\":{}}"},
    };
    for (unsigned i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct world world;
        world_init(&world);
        greet(&world, hosts[i][0], hosts[i][1]);
        feed(&world, CALL("1"));
        assert_false(world.can_ask);
        assert_int_equal(world.told, 1);
        assert_int_equal(world.answer, RPC_ANSWER_NONE);
        expect(&world, "");
        world_done(&world);
    }
}

static void last_initialize_says_whether_the_host_can_ask(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{\"form\":{},\"url\":{}}}");
    greet(&world, "2025-11-25", "{}");
    feed(&world, CALL("1"));
    assert_false(world.can_ask);
    world_done(&world);
}

#define FORGET(id) R "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static void question_of_a_cancelled_call_is_withdrawn(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    buf_clear(&world.peer.out, SIZE_MAX);
    feed(&world, FORGET("1"));
    expect(&world, FORGET("\"ask-1\"") "\n");
    assert_int_equal(world.answer, RPC_ANSWER_NONE);
    assert_true(rpc_call_cancelled(world.call));
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.told, 1);
    assert_int_equal(world.cancelled, 0);
    world_done(&world);
}

static void question_of_an_ended_call_is_withdrawn(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    buf_clear(&world.peer.out, SIZE_MAX);
    rpc_call_result(take_ptr(world.call), json_array(), NULL, false);
    expect(&world, FORGET("\"ask-1\"") "\n" R "\"id\":1,\"result\":{\"content\":[]}}\n");
    world_done(&world);
}

static void questions_of_two_calls_are_told_apart(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    struct rpc_call *first = world.call;
    feed(&world, CALL("2"));
    feed(&world, R "\"id\":\"ask-2\",\"result\":{\"action\":\"decline\"}}");
    assert_int_equal(world.answer, RPC_ANSWER_DECLINED);
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.answer, RPC_ANSWER_ACCEPTED);
    rpc_call_fail(first, RPC_INTERNAL_ERROR, "end");
    world_done(&world);
}

static void silent_user_is_waited_for_only_so_long(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    buf_clear(&world.peer.out, SIZE_MAX);
    struct loop_timer *timer = &world.call->ask.timer;
    loop_timer_arm(world.loop, timer, 1, timer->fn, timer->arg);
    assert_int_equal(loop_step(world.loop, 0), 0);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.answer, RPC_ANSWER_NONE);
    expect(&world, FORGET("\"ask-1\"") "\n");
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.told, 1);
    world_done(&world);
}

#define META(capabilities)                                                                         \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":" capabilities "}"
#define MODERN(id, capabilities, more)                                                             \
    R "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"x\"," META(capabilities)     \
        more "}}"
#define FORMS "{\"elicitation\":{\"form\":{}}}"
#define ASKED                                                                                      \
    "\"result\":{\"resultType\":\"input_required\",\"inputRequests\":{\"the key\":{" QUESTION      \
    "}},\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"fake\",\"version\":\"1\"}}}" \
    "}\n"

static void stateless_host_is_asked_by_a_result_and_calls_again(void **)
{
    struct world world;
    world_init(&world);
    feed(&world, MODERN("1", FORMS, ""));
    expect(&world, R "\"id\":1," ASKED);
    assert_int_equal(world.answer, RPC_ANSWER_LATER);
    assert_int_equal(world.peer.call_count, 0);
    feed(&world, MODERN("2", FORMS, ",\"inputResponses\":{\"the ke\":{\"action\":\"accept\"}}"));
    expect(&world, R "\"id\":2," ASKED);
    feed(&world, MODERN("3", FORMS,
                        ",\"inputResponses\":{\"the key\":{\"action\":\"accept\","
                        "\"content\":{\"b\":1}}},\"requestState\":\"any\""));
    assert_int_equal(world.answer, RPC_ANSWER_ACCEPTED);
    assert_string_equal(world.content, "{\"b\":1}");
    expect(&world, "");
    rpc_call_result(take_ptr(world.call), json_array(), NULL, false);
    buf_clear(&world.peer.out, SIZE_MAX);
    feed(&world, MODERN("4", FORMS, ",\"inputResponses\":{\"the key\":5}"));
    assert_int_equal(world.answer, RPC_ANSWER_NONE);
    assert_int_equal(world.told, 4);
    world_done(&world);
}

static void stateless_host_is_asked_only_as_each_request_declares(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, MODERN("1", "{}", ""));
    assert_false(world.can_ask);
    assert_int_equal(world.answer, RPC_ANSWER_NONE);
    rpc_call_fail(take_ptr(world.call), RPC_INTERNAL_ERROR, "x");
    buf_clear(&world.peer.out, SIZE_MAX);
    feed(&world, MODERN("2", FORMS, ",\"inputResponses\":[]"));
    expect(&world, R
           "\"id\":2,\"error\":{\"code\":-32602,\"message\":\"Invalid params: "
           "inputResponses must be an object\"}}\n");
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_that_declared_forms_is_asked_by_a_request),
        cmocka_unit_test(host_that_cannot_ask_is_not_asked),
        cmocka_unit_test(last_initialize_says_whether_the_host_can_ask),
        cmocka_unit_test(question_of_a_cancelled_call_is_withdrawn),
        cmocka_unit_test(question_of_an_ended_call_is_withdrawn),
        cmocka_unit_test(questions_of_two_calls_are_told_apart),
        cmocka_unit_test(silent_user_is_waited_for_only_so_long),
        cmocka_unit_test(stateless_host_is_asked_by_a_result_and_calls_again),
        cmocka_unit_test(stateless_host_is_asked_only_as_each_request_declares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
