#include <stdlib.h>
#include <string.h>

#include "bridge/format.h"
#include "tests/unit/unit.h"

static const char text_only[] =
    "{\"content\":[{\"type\":\"text\",\"text\":\"3\\n\"}],"
    "\"resultType\":\"complete\",\"_meta\":{\"k\":1}}";
static const char failed[] =
    "{\"content\":[{\"type\":\"text\",\"text\":\"no\"}],\"isError\":true,"
    "\"structuredContent\":{\"a\":1}}";
static const char with_image[] =
    "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
    "{\"type\":\"image\",\"data\":\"QUI=\",\"mimeType\":\"image/png\"},"
    "{\"type\":\"text\",\"text\":\"b\"}]}";
static const char image_only[] =
    "{\"content\":[{\"type\":\"image\",\"data\":\"QUI=\",\"mimeType\":\"image/png\"}]}";

static void expect(const char *format, const char *id, const char *result, const char *wanted)
{
    json_t *given = json_loads(result, 0, NULL);
    json_t *made = bridge_result(bridge_format_find(format), "run", id, given);
    char *text = json_dumps(made, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
    json_decref(made);
    json_decref(given);
}

static void mcp_keeps_content_and_drops_what_belongs_to_the_message(void **)
{
    expect("mcp", NULL, text_only,
           "[{\"content\":[{\"type\":\"text\",\"text\":\"3\\n\"}],\"isError\":false}]");
    expect("mcp", NULL, failed,
           "[{\"content\":[{\"type\":\"text\",\"text\":\"no\"}],\"structuredContent\":{\"a\":1},"
           "\"isError\":true}]");
}

static void images_of_a_chat_follow_as_a_message_of_the_user(void **)
{
    expect("openai-chat", "c", text_only,
           "[{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"3\\n\"}]");
    expect("openai-chat", NULL, failed, "[{\"role\":\"tool\",\"content\":\"no\"}]");
    expect("openai-chat", "c", with_image,
           "[{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"a\\nb\"},"
           "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
           "\"The images that run returned:\"},{\"type\":\"image_url\",\"image_url\":"
           "{\"url\":\"data:image/png;base64,QUI=\"}}]}]");
}

static void output_of_a_response_is_text_or_a_list(void **)
{
    expect("openai-responses", "c", text_only,
           "[{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"3\\n\"}]");
    expect("openai-responses", "c", with_image,
           "[{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":["
           "{\"type\":\"input_text\",\"text\":\"a\\nb\"},{\"type\":\"input_image\","
           "\"detail\":\"auto\",\"image_url\":\"data:image/png;base64,QUI=\"}]}]");
}

static void anthropic_says_whether_it_failed_and_has_no_empty_text(void **)
{
    expect("anthropic", "c", failed,
           "[{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":["
           "{\"type\":\"text\",\"text\":\"no\"}],\"is_error\":true}]");
    expect("anthropic", NULL, image_only,
           "[{\"type\":\"tool_result\",\"content\":[{\"type\":\"image\",\"source\":"
           "{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"QUI=\"}}],"
           "\"is_error\":false}]");
}

static void gemini_has_output_or_error_and_images_as_parts(void **)
{
    expect("gemini", NULL, failed,
           "[{\"functionResponse\":{\"name\":\"run\",\"response\":{\"error\":\"no\"}}}]");
    expect("gemini", "c", with_image,
           "[{\"functionResponse\":{\"id\":\"c\",\"name\":\"run\",\"response\":"
           "{\"output\":\"a\\nb\"},\"parts\":[{\"inlineData\":{\"mimeType\":\"image/png\","
           "\"data\":\"QUI=\"}}]}}]");
    expect("gemini", NULL, image_only,
           "[{\"functionResponse\":{\"name\":\"run\",\"response\":{\"output\":\"\"},\"parts\":"
           "[{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"QUI=\"}}]}}]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mcp_keeps_content_and_drops_what_belongs_to_the_message),
        cmocka_unit_test(images_of_a_chat_follow_as_a_message_of_the_user),
        cmocka_unit_test(output_of_a_response_is_text_or_a_list),
        cmocka_unit_test(anthropic_says_whether_it_failed_and_has_no_empty_text),
        cmocka_unit_test(gemini_has_output_or_error_and_images_as_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
