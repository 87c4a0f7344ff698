#include "bridge/clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "tests/unit/unit.h"

/* Puts {"command": "/p"} as "sp" into the text for this client. */
static int edit(const char *client, const char *text, struct buf *out, struct fail *fail)
{
    json_auto_t *entry = json_pack("{s:s}", "command", "/p");
    struct bridge_server server = {"sp", entry};
    return bridge_client_edit(bridge_client_find(client), &server, text, strlen(text), out, fail);
}

static void expect(const char *client, const char *text, int wanted, const char *wanted_text)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    struct fail fail = {};
    int r = edit(client, text, &out, &fail);
    if (r != wanted) {
        fail_msg("%d, not %d, of %s: %s", r, wanted, text, fail.text);
    }
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out), wanted_text);
}

static void expect_refusal(const char *client, const char *text, int wanted, const char *why)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    struct fail fail = {};
    assert_int_equal(edit(client, text, &out, &fail), wanted);
    assert_int_equal(buf_size(&out), 0);
    if (!strstr(fail.text, why)) {
        fail_msg("\"%s\" is not in: %s", why, fail.text);
    }
}

#define ADDED BRIDGE_EDIT_ADDED

static void a_new_json_file_is_whole(void **)
{
    const char *whole =
        "{\n  \"mcpServers\": {\n    \"sp\": {\n      \"command\": \"/p\"\n    }\n  "
        "}\n}\n";
    expect("cursor", "", ADDED, whole);
    expect("cursor", " \n", ADDED, whole);
    expect("cursor", whole, BRIDGE_EDIT_SAME, "");
}

static void other_content_of_a_json_file_stays(void **)
{
    expect("cursor", "{}", ADDED,
           "{\n  \"mcpServers\": {\n    \"sp\": {\n      \"command\": \"/p\"\n    }\n  }\n}");
    expect("cursor", "{\"a\":1.50,\"b\":\"\\u00e4\"}\n", ADDED,
           "{\"a\":1.50,\"b\":\"\\u00e4\",\n  \"mcpServers\": {\n    \"sp\": {\n      "
           "\"command\": \"/p\"\n    }\n  }\n}\n");
    expect("cursor", "{\n\t\"mcpServers\": {\n\t\t\"x\": {\"k\": [1, {}]}\n\t},\n\t\"z\": 0\n}\n",
           ADDED,
           "{\n\t\"mcpServers\": {\n\t\t\"x\": {\"k\": [1, {}]},\n\t\t\"sp\": {\n\t\t\t"
           "\"command\": \"/p\"\n\t\t}\n\t},\n\t\"z\": 0\n}\n");
    expect("cursor", "{\r\n    \"mcpServers\": {}\r\n}\r\n", ADDED,
           "{\r\n    \"mcpServers\": {\r\n        \"sp\": {\r\n            \"command\": \"/p\"\r\n"
           "        }\r\n    }\r\n}\r\n");
}

static void comments_and_last_commas_stay(void **)
{
    expect("zed",
           "// mine: {\n{\n  \"a\": \"//\", // one\n  /* \"context_servers\": {}, */\n"
           "  \"context_servers\": {\n    // none yet\n  }, // two\n}\n",
           ADDED,
           "// mine: {\n{\n  \"a\": \"//\", // one\n  /* \"context_servers\": {}, */\n"
           "  \"context_servers\": {\n    // none yet\n    \"sp\": {\n      \"command\": \"/p\"\n"
           "    }\n  }, // two\n}\n");
    expect("zed", "{\n  \"a\": [1, 2,], // last\n}", ADDED,
           "{\n  \"a\": [1, 2,], // last\n  \"context_servers\": {\n    \"sp\": {\n      "
           "\"command\": \"/p\"\n    }\n  }\n}");
    expect("zed", "{\n  \"a\": \"\\\"}\" // last, one\n}", ADDED,
           "{\n  \"a\": \"\\\"}\", // last, one\n  \"context_servers\": {\n    \"sp\": {\n      "
           "\"command\": \"/p\"\n    }\n  }\n}");
    expect(
        "zed", "\xef\xbb\xbf{}", ADDED,
        "\xef\xbb\xbf{\n  \"context_servers\": {\n    \"sp\": {\n      \"command\": \"/p\"\n    }"
        "\n  }\n}");
}

static void another_entry_of_the_name_is_replaced(void **)
{
    expect("cursor",
           "{\"mcpServers\": {\"a\": 1, \"s\\u0070\": {\"command\": \"/old\"}, \"b\": 2}}",
           BRIDGE_EDIT_REPLACED,
           "{\"mcpServers\": {\"a\": 1, \"s\\u0070\": {\n      \"command\": \"/p\"\n    }, \"b\": "
           "2}}");
}

static void invalid_json_is_refused(void **)
{
    expect_refusal("cursor", "{\n\"a\": }", -EINVAL, "line 2");
    expect_refusal("cursor", "{\"a\": 1 /* no end }", -EINVAL, "line 1");
    expect_refusal("cursor", "{\"a\": 1, \"a\": 2}", -EINVAL, "duplicate");
    expect_refusal("cursor", "[]", -EINVAL, "not a JSON object");
    expect_refusal("cursor", "{\"mcpServers\": []}", -EINVAL, "\"mcpServers\" is not an object");
    expect_refusal("cursor", "{,}", -EINVAL, "line 1");
}

#define TABLE "[mcp_servers.sp]\ncommand = \"/p\"\n"

static void a_table_is_added_to_toml(void **)
{
    expect("codex", "", ADDED, TABLE);
    expect("codex", "a = 1", ADDED, "a = 1\n\n" TABLE);
    expect("codex",
           "# [mcp_servers.sp]\nmodel = \"x\"\n\n[mcp_servers]\n[mcp_servers.other]\n"
           "args = [\"[mcp_servers.sp]\", # ]\n  '''\n[mcp_servers.sp]\n''']\n"
           "[projects.\"/a\\\\b\"]\ntrust = { level = \"]\", n = [1] }\n[[list]]\nd = 1979-05-27\n",
           ADDED,
           "# [mcp_servers.sp]\nmodel = \"x\"\n\n[mcp_servers]\n[mcp_servers.other]\n"
           "args = [\"[mcp_servers.sp]\", # ]\n  '''\n[mcp_servers.sp]\n''']\n"
           "[projects.\"/a\\\\b\"]\ntrust = { level = \"]\", n = [1] }\n[[list]]\nd = 1979-05-27\n"
           "\n" TABLE);
    expect("codex", "a = \"\"\"x\"\"\"\"\"\n", ADDED, "a = \"\"\"x\"\"\"\"\"\n\n" TABLE);
    expect("codex", "a = \"\"\"say \"\"\n[mcp_servers.sp]\n\\\"\"\"\"\n", ADDED,
           "a = \"\"\"say \"\"\n[mcp_servers.sp]\n\\\"\"\"\"\n\n" TABLE);
    expect("codex", "x = 1\r\n" TABLE "more = 1\n[z]\n", BRIDGE_EDIT_SAME, "");
    expect("codex", "\xef\xbb\xbf" TABLE, BRIDGE_EDIT_SAME, "");
}

static void a_table_of_the_name_is_replaced(void **)
{
    expect("codex", "[mcp_servers.sp]\ncommand = \"/q\"", BRIDGE_EDIT_REPLACED, TABLE);
    expect("codex",
           "a = 1\n [ mcp_servers . \"sp\" ] # mine\n# old\ncommand = [\n]\n\n# next\n"
           "[mcp_servers.sp.env]\nA = \"1\"\n",
           BRIDGE_EDIT_REPLACED, "a = 1\n" TABLE "\n# next\n[mcp_servers.sp.env]\nA = \"1\"\n");
}

static void a_name_that_toml_defines_in_another_form_is_refused(void **)
{
    expect_refusal("codex", "[mcp_servers.sp]\n[mcp_servers.sp]\n", -EEXIST, "another");
    expect_refusal("codex", "[[mcp_servers.sp]]\n", -EEXIST, "another");
    expect_refusal("codex", "[mcp_servers.sp]\n[mcp_servers]\nsp.a = 1\n", -EEXIST, "another");
    expect_refusal("codex", "[mcp_servers.sp.env]\nA = \"1\"\n", -EEXIST, "another");
    expect_refusal("codex", "[mcp_servers]\nsp = {}\n", -EEXIST, "another");
    expect_refusal("codex", "mcp_servers.'sp'.command = \"q\"\n", -EEXIST, "another");
    expect_refusal("codex", "[mcp_servers]\n\"\\u0073p\" = {}\n", -EEXIST, "another");
    expect_refusal("codex", "mcp_servers = {}\n", -EINVAL, "not a table");
    expect_refusal("codex", "[[mcp_servers]]\n", -EINVAL, "not a table");
    expect_refusal("codex", "\"mcp\\u005fservers\".sp = {}\n", -EINVAL, "not a table");
}

static void invalid_toml_is_refused(void **)
{
    expect_refusal("codex", "a = 1\nb\n", -EINVAL, "line 2");
    expect_refusal("codex", "a = \"no end\n", -EINVAL, "line 1");
    expect_refusal("codex", "a = [1\n", -EINVAL, "line 1");
    expect_refusal("codex", "a = 1]\n", -EINVAL, "line 1");
    expect_refusal("codex", "\n\n[a\n", -EINVAL, "line 3");
    expect_refusal("codex", "a =\n", -EINVAL, "line 1");
    expect_refusal("codex", "a = \"x\" y\n= 1\n", -EINVAL, "line 1");
    expect_refusal("codex", "a = [1] [mcp_servers.sp]\n", -EINVAL, "line 1");
}

static void expect_removed(const char *client, const char *text, int wanted, const char *rest)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    struct fail fail = {};
    struct bridge_server server = {"sp", NULL};
    int r =
        bridge_client_edit(bridge_client_find(client), &server, text, strlen(text), &out, &fail);
    if (r != wanted) {
        fail_msg("%d, not %d, of %s: %s", r, wanted, text, fail.text);
    }
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out), rest);
}

#define REMOVED BRIDGE_EDIT_REMOVED

static void only_the_entry_is_removed_from_json(void **)
{
    expect_removed("cursor", "", BRIDGE_EDIT_SAME, "");
    expect_removed("cursor", "{\"sp\": 1}", BRIDGE_EDIT_SAME, "");
    expect_removed("cursor", "{\"mcpServers\": {\"sp\": {}}}", REMOVED, "{\"mcpServers\": {}}");
    expect_removed("cursor", "{\"mcpServers\": {\"sp\": {}, \"a\": 1}}", REMOVED,
                   "{\"mcpServers\": { \"a\": 1}}");
    expect_removed("cursor", "{\"mcpServers\": {\"a\": 1, /* , */ \"sp\": {}}}", REMOVED,
                   "{\"mcpServers\": {\"a\": 1 /* , */ }}");
    expect_removed("zed",
                   "{\r\n  \"context_servers\": {\r\n    \"a\": {},\r\n    \"sp\": {\r\n      "
                   "\"b\": [1]\r\n    }\r\n  } // mine\r\n}",
                   REMOVED, "{\r\n  \"context_servers\": {\r\n    \"a\": {}\r\n  } // mine\r\n}");
    expect_removed(
        "zed",
        "{\n  \"context_servers\": {\n    // all\n    \"sp\": {}, // it\n    \"a\": {},\n  "
        "},\n}\n",
        REMOVED, "{\n  \"context_servers\": {\n    // all\n     // it\n    \"a\": {},\n  },\n}\n");
    expect_removed("cursor", "{\"mcpServers\": 1}", -EINVAL, "");
    expect_removed("cursor", "{\"mcpServers\": ", -EINVAL, "");
}

static void only_the_table_is_removed_from_toml(void **)
{
    expect_removed("codex", "", BRIDGE_EDIT_SAME, "");
    expect_removed("codex", "[mcp_servers.a]\nb = 1\n", BRIDGE_EDIT_SAME, "");
    expect_removed("codex", "x = 1 # y\n[mcp_servers.sp]\nb = 1\n# next\n[mcp_servers.a]\nb = 1\n",
                   REMOVED, "x = 1 # y\n# next\n[mcp_servers.a]\nb = 1\n");
    expect_removed("codex", "[mcp_servers.sp]\nb = 1\n[mcp_servers.sp.env]\nc = 1\n", REMOVED, "");
    expect_removed("codex", "[mcp_servers.sp.env]\nc = 1\n[mcp_servers.sp]\nb = 1\n", REMOVED, "");
    expect_removed("codex", "[mcp_servers]\nsp = {}\n", -EEXIST, "");
    expect_removed("codex", "mcp_servers.sp.command = 1\n", -EEXIST, "");
}

static void expect_entry(const char *client, const char *wanted)
{
    json_auto_t *args = json_pack("[s, s]", "--memory", "2G");
    json_auto_t *entry = bridge_client_entry(bridge_client_find(client), "/bin/sp", args, 600000);
    defer_free char *text = json_dumps(entry, JSON_COMPACT);
    assert_string_equal(text, wanted);
}

static void each_client_gets_its_format(void **)
{
#define COMMAND "\"command\":\"/bin/sp\",\"args\":[\"--memory\",\"2G\"]"
    expect_entry("claude-code", "{\"type\":\"stdio\"," COMMAND "}");
    expect_entry("claude-desktop", "{" COMMAND "}");
    expect_entry("codex", "{" COMMAND ",\"tool_timeout_sec\":630}");
    expect_entry("copilot", "{\"type\":\"local\"," COMMAND ",\"tools\":[\"*\"]}");
    expect_entry("cursor", "{\"type\":\"stdio\"," COMMAND "}");
    expect_entry("gemini", "{" COMMAND ",\"timeout\":630000}");
    expect_entry("opencode",
                 "{\"type\":\"local\",\"command\":[\"/bin/sp\",\"--memory\",\"2G\"],"
                 "\"enabled\":true}");
    expect_entry("vscode", "{\"type\":\"stdio\"," COMMAND "}");
    expect_entry("zed", "{" COMMAND ",\"source\":\"custom\"}");
    assert_null(bridge_client_find("emacs"));
}

static void toml_strings_are_escaped(void **)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    json_auto_t *entry = json_pack("{s:[s, s], s:i}", "args", "a\"\\\n", "\x7f", "n", 3);
    struct bridge_server server = {"sp", entry};
    assert_int_equal(bridge_client_edit(bridge_client_find("codex"), &server, NULL, 0, &out, NULL),
                     ADDED);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out),
                        "[mcp_servers.sp]\nargs = [\"a\\\"\\\\\\n\", \"\\u007F\"]\nn = 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_json_file_is_whole),
        cmocka_unit_test(other_content_of_a_json_file_stays),
        cmocka_unit_test(comments_and_last_commas_stay),
        cmocka_unit_test(another_entry_of_the_name_is_replaced),
        cmocka_unit_test(invalid_json_is_refused),
        cmocka_unit_test(a_table_is_added_to_toml),
        cmocka_unit_test(a_table_of_the_name_is_replaced),
        cmocka_unit_test(a_name_that_toml_defines_in_another_form_is_refused),
        cmocka_unit_test(invalid_toml_is_refused),
        cmocka_unit_test(only_the_entry_is_removed_from_json),
        cmocka_unit_test(only_the_table_is_removed_from_toml),
        cmocka_unit_test(each_client_gets_its_format),
        cmocka_unit_test(toml_strings_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
