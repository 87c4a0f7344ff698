#include "tools/consent.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/peer.h"
#include "tests/unit/unit.h"

/* A host that can ask, and a tool that wants to. */
struct world {
    struct loop *loop;
    struct rpc_peer peer;
    struct consents consents;
    const char *subject;
    const char *always;
    bool each;
    struct rpc_call *call;
    unsigned reported;
    enum consent_outcome outcome;
    char why[256];
};

static void fake_consent(void *arg, enum consent_outcome outcome, const char *why, const json_t *)
{
    struct world *world = arg;
    world->reported++;
    world->outcome = outcome;
    assert_int_equal(why != NULL, outcome == CONSENT_REFUSED);
    (void)snprintf(world->why, sizeof world->why, "%s", why ? why : "");
    if (outcome != CONSENT_LATER) {
        rpc_call_fail(world->call, RPC_INTERNAL_ERROR, "end");
    }
}

static bool fake_start(void *ctx, struct rpc_call *call, const char *, json_t *)
{
    struct world *world = ctx;
    world->call = call;
    consents_ask(&world->consents, call,
                 &(struct consent){.kind = "install",
                                   .subject = world->subject,
                                   .message = "May I?",
                                   .always = world->always,
                                   .flag = "--install on",
                                   .each = world->each},
                 fake_consent, world);
    return true;
}

static void fake_cancel(void *, struct rpc_call *)
{
    fail_msg("a call that waits for consent receives its end there");
}

static json_t *fake_instructions(void *)
{
    return NULL;
}

static void fake_written(void *)
{
}

#define R "{\"jsonrpc\":\"2.0\","
#define CALL R "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}"

static void feed(struct world *world, const char *line)
{
    buf_clear(&world->peer.out, SIZE_MAX);
    dispatch_line(&world->peer, (struct span){line, strlen(line)});
    assert_int_equal(buf_append(&world->peer.out, "", 1), 0);
}

static void world_init(struct world *world, const char *capabilities)
{
    char line[200];
    *world = (struct world){.subject = "numpy", .always = "Always"};
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
    (void)snprintf(line, sizeof line,
                   R
                   "\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                   "\"2025-11-25\",\"capabilities\":%s}}",
                   capabilities);
    feed(world, line);
}

static void world_done(struct world *world)
{
    consents_done(&world->consents);
    rpc_peer_done(&world->peer);
    loop_free(world->loop);
}

static void answer(struct world *world, unsigned number, const char *result)
{
    char line[200];
    (void)snprintf(line, sizeof line, R "\"id\":\"ask-%u\",\"result\":%s}", number, result);
    feed(world, line);
}

static bool is_asked(struct world *world)
{
    feed(world, CALL);
    return strstr(buf_bytes(&world->peer.out), "elicitation/create") != NULL;
}

static void an_allowed_choice_is_not_asked_again(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    assert_true(is_asked(&world));
    assert_non_null(strstr(buf_bytes(&world.peer.out), "\"title\":\"Always\""));
    answer(&world, 1, "{\"action\":\"accept\",\"content\":{\"always\":false}}");
    assert_int_equal(world.outcome, CONSENT_GIVEN);
    assert_false(is_asked(&world));
    assert_int_equal(world.outcome, CONSENT_GIVEN);
    assert_int_equal(world.reported, 2);
    world.subject = "numpy pandas";
    assert_true(is_asked(&world));
    answer(&world, 2, "{\"action\":\"accept\",\"content\":{\"always\":true}}");
    world.subject = "scipy";
    assert_false(is_asked(&world));
    assert_int_equal(world.outcome, CONSENT_GIVEN);
    world_done(&world);
}

static void choice_that_was_not_offered_has_no_effect(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    world.always = NULL;
    assert_true(is_asked(&world));
    assert_non_null(strstr(buf_bytes(&world.peer.out), "\"properties\":{}"));
    answer(&world, 1, "{\"action\":\"accept\",\"content\":{\"always\":true}}");
    assert_int_equal(world.outcome, CONSENT_GIVEN);
    world.subject = "pandas";
    assert_true(is_asked(&world));
    world_done(&world);
}

static void what_is_asked_each_time_is_not_remembered(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    world.each = true;
    for (unsigned i = 1; i < 4; i++) {
        assert_true(is_asked(&world));
        answer(&world, i, "{\"action\":\"accept\",\"content\":{\"always\":true}}");
        assert_int_equal(world.outcome, CONSENT_GIVEN);
    }
    world_done(&world);
}

static void withdrawn_elicitation_is_closed_and_its_call_goes_on(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    assert_true(is_asked(&world));
    buf_clear(&world.peer.out, SIZE_MAX); /* feed() has ended it with a NUL */
    consents_withdraw(&world.consents, &world);
    assert_int_equal(buf_append(&world.peer.out, "", 1), 0);
    assert_non_null(strstr(buf_bytes(&world.peer.out), "notifications/cancelled"));
    answer(&world, 1, "{\"action\":\"accept\"}");
    assert_int_equal(world.reported, 0);
    rpc_call_fail(world.call, RPC_INTERNAL_ERROR, "end");
    world_done(&world);
    assert_int_equal(world.reported, 0);
}

static void a_declined_choice_is_asked_again(void **)
{
    static const char *const cases[][2] = {
        {"{\"action\":\"decline\",\"content\":{\"always\":true}}", "declined"},
        {"{\"action\":\"cancel\"}", "without deciding"},
        {"{}", "did not respond. To allow it without approval, the user can add --install on"},
    };
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(is_asked(&world));
        answer(&world, i + 1, cases[i][0]);
        assert_int_equal(world.outcome, CONSENT_REFUSED);
        assert_non_null(strstr(world.why, cases[i][1]));
    }
    world_done(&world);
}

static void client_without_elicitation_gets_the_flag(void **)
{
    struct world world;
    world_init(&world, "{}");
    assert_false(is_asked(&world));
    assert_int_equal(world.outcome, CONSENT_REFUSED);
    assert_non_null(
        strstr(world.why,
               "cannot ask for it. To allow it without approval, the user can add --install on"));
    world_done(&world);
}

static void cancelled_call_is_reported(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    assert_true(is_asked(&world));
    feed(&world, R "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
    assert_int_equal(world.reported, 1);
    assert_int_equal(world.outcome, CONSENT_GONE);
    world_done(&world);
    assert_int_equal(world.reported, 1);
}

static void shutdown_is_reported_to_open_elicitations(void **)
{
    struct world world;
    world_init(&world, "{\"elicitation\":{}}");
    assert_true(is_asked(&world));
    world_done(&world);
    assert_int_equal(world.reported, 1);
    assert_int_equal(world.outcome, CONSENT_GONE);
}

static void stateless_client_makes_the_call_again(void **)
{
    struct world world;
    world_init(&world, "{}");
#define MODERN(more)                                                                               \
    R "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"_meta\":{"                  \
      "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                \
      "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{}}}}" more "}}"
    feed(&world, MODERN(""));
    assert_non_null(strstr(buf_bytes(&world.peer.out), "{\"install numpy\":{\"method\""));
    assert_int_equal(world.outcome, CONSENT_LATER);
    feed(&world, MODERN(",\"inputResponses\":{\"install numpy\":{\"action\":\"accept\"}}"));
    assert_int_equal(world.outcome, CONSENT_GIVEN);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allowed_choice_is_not_asked_again),
        cmocka_unit_test(choice_that_was_not_offered_has_no_effect),
        cmocka_unit_test(what_is_asked_each_time_is_not_remembered),
        cmocka_unit_test(withdrawn_elicitation_is_closed_and_its_call_goes_on),
        cmocka_unit_test(a_declined_choice_is_asked_again),
        cmocka_unit_test(client_without_elicitation_gets_the_flag),
        cmocka_unit_test(cancelled_call_is_reported),
        cmocka_unit_test(shutdown_is_reported_to_open_elicitations),
        cmocka_unit_test(stateless_client_makes_the_call_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
