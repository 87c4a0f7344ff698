
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "base/own.h"
#include "rpc/peer.h"
#include "tests/unit/unit.h"

/* A peer without descriptors: lines go in, and the test reads what it writes. Its only tool asks
 * the user. */
struct world {
    struct loop *loop;
    struct rpc_peer peer;
    struct rpc_call *call; /* while it waits */
    bool can_elicit;
    unsigned reported;
    unsigned cancelled;
    enum rpc_elicitation_outcome outcome;
    char content[64]; /* as JSON */
};

static void fake_elicited(void *arg, enum rpc_elicitation_outcome outcome, const json_t *content)
{
    struct world *world = arg;
    world->reported++;
    world->outcome = outcome;
    world->content[0] = '\0';
    if (content) {
        size_t size = json_dumpb(content, world->content, sizeof world->content - 1, JSON_COMPACT);
        world->content[size] = '\0';
    }
    if (outcome == RPC_ELICITATION_LATER) {
        world->call = NULL;
    }
}

static bool fake_start(void *ctx, struct rpc_call *call, const char *, json_t *)
{
    struct world *world = ctx;
    json_auto_t *schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
    struct rpc_elicitation elicitation = {"the key", "May I?", schema};
    world->call = call;
    world->can_elicit = rpc_call_can_elicit(call);
    rpc_call_elicit(call, &elicitation, fake_elicited, world);
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
    *world = (struct world){.outcome = RPC_ELICITATION_COUNT};
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
    dispatch_line(&world->peer, (struct span){line, strlen(line)});
}

/* Compares what was written since the last comparison. */
static void expect(struct world *world, const char *expected)
{
    assert_int_equal(buf_append(&world->peer.out, "", 1), 0);
    assert_string_equal(buf_bytes(&world->peer.out), expected);
    buf_clear(&world->peer.out, SIZE_MAX);
}

#define R "{\"jsonrpc\":\"2.0\","
#define CALL(id) R "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}"
#define ELICITATION                                                                                \
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

static void client_that_declared_forms_is_asked_by_a_request(void **)
{
    static const struct {
        const char *result;
        enum rpc_elicitation_outcome outcome;
        const char *content;
    } cases[] = {
        {"\"result\":{\"action\":\"accept\",\"content\":{\"a\":true}}", RPC_ELICITATION_ACCEPTED,
         "{\"a\":true}"},
        {"\"result\":{\"action\":\"accept\",\"content\":7}", RPC_ELICITATION_ACCEPTED, ""},
        {"\"result\":{\"action\":\"decline\",\"content\":{\"a\":true}}", RPC_ELICITATION_DECLINED,
         ""},
        {"\"result\":{\"action\":\"cancel\"}", RPC_ELICITATION_DISMISSED, ""},
        {"\"result\":{\"action\":\"agree\"}", RPC_ELICITATION_NONE, ""},
        {"\"result\":{\"action\":[]}", RPC_ELICITATION_NONE, ""},
        {"\"result\":null", RPC_ELICITATION_NONE, ""},
        {"\"result\":5", RPC_ELICITATION_NONE, ""},
        {"\"error\":{\"code\":-32601,\"message\":\"?\"}", RPC_ELICITATION_NONE, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        char line[200];
        world_init(&world);
        greet(&world, i % 2 ? "2025-06-18" : "2025-11-25", "{\"elicitation\":{}}");
        feed(&world, CALL("1"));
        assert_true(world.can_elicit);
        expect(&world, "{" ELICITATION ",\"id\":\"ask-1\",\"jsonrpc\":\"2.0\"}\n");
        feed(&world, R "\"id\":\"ask-2\",\"result\":{\"action\":\"accept\"}}");
        feed(&world, R "\"id\":1,\"result\":{\"action\":\"accept\"}}");
        assert_int_equal(world.reported, 0);
        (void)snprintf(line, sizeof line, R "\"id\":\"ask-1\",%s}", cases[i].result);
        feed(&world, line);
        feed(&world, line);
        assert_int_equal(world.reported, 1);
        assert_int_equal(world.outcome, cases[i].outcome);
        assert_string_equal(world.content, cases[i].content);
        expect(&world, "");
        world_done(&world);
    }
}

static void client_without_elicitation_is_not_asked(void **)
{
    static const char *const clients[][2] = {
        {"2025-11-25", "{}"},
        {"2025-11-25", "{\"elicitation\":{\"url\":{}}}"},
        {"2025-11-25", "{\"elicitation\":true}"},
        {"2025-11-25", "7"},
        {"2025-03-26", "{\"elicitation\":{}}"},
    };
    for (unsigned i = 0; i < sizeof clients / sizeof *clients; i++) {
        struct world world;
        world_init(&world);
        greet(&world, clients[i][0], clients[i][1]);
        feed(&world, CALL("1"));
        assert_false(world.can_elicit);
        assert_int_equal(world.reported, 1);
        assert_int_equal(world.outcome, RPC_ELICITATION_NONE);
        expect(&world, "");
        world_done(&world);
    }
}

static void last_initialize_decides_whether_the_client_is_asked(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{\"form\":{},\"url\":{}}}");
    greet(&world, "2025-11-25", "{}");
    feed(&world, CALL("1"));
    assert_false(world.can_elicit);
    world_done(&world);
}

#define FORGET(id) R "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static void withdraws_the_elicitation_of_a_cancelled_call(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    buf_clear(&world.peer.out, SIZE_MAX);
    feed(&world, FORGET("1"));
    expect(&world, FORGET("\"ask-1\"") "\n");
    assert_int_equal(world.outcome, RPC_ELICITATION_NONE);
    assert_true(rpc_call_cancelled(world.call));
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.reported, 1);
    assert_int_equal(world.cancelled, 0);
    world_done(&world);
}

static void withdraws_the_elicitation_of_an_ended_call(void **)
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

static void elicitations_of_two_calls_have_different_ids(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    struct rpc_call *first = world.call;
    feed(&world, CALL("2"));
    feed(&world, R "\"id\":\"ask-2\",\"result\":{\"action\":\"decline\"}}");
    assert_int_equal(world.outcome, RPC_ELICITATION_DECLINED);
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.outcome, RPC_ELICITATION_ACCEPTED);
    rpc_call_fail(first, RPC_INTERNAL_ERROR, "end");
    world_done(&world);
}

static void silent_user_times_out(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, CALL("1"));
    buf_clear(&world.peer.out, SIZE_MAX);
    struct loop_timer *timer = &world.call->elicitation.timer;
    loop_timer_arm(world.loop, timer, 1, timer->fn, timer->arg);
    assert_int_equal(loop_step(world.loop, 0), 0);
    assert_int_equal(world.reported, 1);
    assert_int_equal(world.outcome, RPC_ELICITATION_NONE);
    expect(&world, FORGET("\"ask-1\"") "\n");
    feed(&world, R "\"id\":\"ask-1\",\"result\":{\"action\":\"accept\"}}");
    assert_int_equal(world.reported, 1);
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
    "\"result\":{\"resultType\":\"input_required\",\"inputRequests\":{\"the key\":{" ELICITATION   \
    "}},\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"fake\",\"version\":\"1\"}}}" \
    "}\n"

static void stateless_client_is_asked_by_a_result_and_calls_again(void **)
{
    struct world world;
    world_init(&world);
    feed(&world, MODERN("1", FORMS, ""));
    expect(&world, R "\"id\":1," ASKED);
    assert_int_equal(world.outcome, RPC_ELICITATION_LATER);
    assert_int_equal(world.peer.call_count, 0);
    feed(&world, MODERN("2", FORMS, ",\"inputResponses\":{\"the ke\":{\"action\":\"accept\"}}"));
    expect(&world, R "\"id\":2," ASKED);
    feed(&world, MODERN("3", FORMS,
                        ",\"inputResponses\":{\"the key\":{\"action\":\"accept\","
                        "\"content\":{\"b\":1}}},\"requestState\":\"any\""));
    assert_int_equal(world.outcome, RPC_ELICITATION_ACCEPTED);
    assert_string_equal(world.content, "{\"b\":1}");
    expect(&world, "");
    rpc_call_result(take_ptr(world.call), json_array(), NULL, false);
    buf_clear(&world.peer.out, SIZE_MAX);
    feed(&world, MODERN("4", FORMS, ",\"inputResponses\":{\"the key\":5}"));
    assert_int_equal(world.outcome, RPC_ELICITATION_NONE);
    assert_int_equal(world.reported, 4);
    world_done(&world);
}

static void stateless_client_is_asked_only_as_each_request_declares(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25", "{\"elicitation\":{}}");
    feed(&world, MODERN("1", "{}", ""));
    assert_false(world.can_elicit);
    assert_int_equal(world.outcome, RPC_ELICITATION_NONE);
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
        cmocka_unit_test(client_that_declared_forms_is_asked_by_a_request),
        cmocka_unit_test(client_without_elicitation_is_not_asked),
        cmocka_unit_test(last_initialize_decides_whether_the_client_is_asked),
        cmocka_unit_test(withdraws_the_elicitation_of_a_cancelled_call),
        cmocka_unit_test(withdraws_the_elicitation_of_an_ended_call),
        cmocka_unit_test(elicitations_of_two_calls_have_different_ids),
        cmocka_unit_test(silent_user_times_out),
        cmocka_unit_test(stateless_client_is_asked_by_a_result_and_calls_again),
        cmocka_unit_test(stateless_client_is_asked_only_as_each_request_declares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
