#include "tools/install/install_request.h"

#include <string.h>

#include "tests/unit/unit.h"

static struct install_config config;
static struct install_sources sources;
static char hosts[500];

static int set_up(void **)
{
    config = (struct install_config){};
    hosts[0] = '\0';
    return 0;
}

static void add_host(void *arg, const char *word)
{
    (void)arg;
    size_t used = strlen(hosts);
    (void)snprintf(hosts + used, sizeof hosts - used, "%s ", word);
}

static json_t *request(enum install_step step, struct install_input input)
{
    json_t *packages = json_pack("[s]", "x");
    input.packages = packages;
    json_t *made = install_request(&sources, step, &input);
    json_decref(packages);
    assert_non_null(made);
    return made;
}

static void without_flags_it_is_the_public_index_and_its_files(void **)
{
    install_sources_read(&config, &sources);
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "pypi.org:443 files.pythonhosted.org:443 ");
    char text[100];
    assert_string_equal(install_sources_describe(&sources, text, sizeof text),
                        "https://pypi.org/simple");
    json_auto_t *made =
        request(INSTALL_FETCH, (struct install_input){.layers = 2, .layers_path = "/packages"});
    json_auto_t *layers = json_pack("[s,s]", "/packages/2", "/packages/1");
    assert_true(json_equal(json_object_get(made, "layers"), layers));
    assert_true(json_is_true(json_object_get(made, "only_binary")));
    assert_false(json_is_true(json_object_get(made, "no_index")));
}

static void credentials_are_separate_and_bound_to_a_port(void **)
{
    config.index_url = "https://me:s%40cret@one.example/simple";
    config.extra_index_urls.at[config.extra_index_urls.count++] = "http://token9@two.example:81/";
    config.index_hosts.at[config.index_hosts.count++] = "files.example";
    install_sources_read(&config, &sources);
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "one.example:443 two.example:81 files.example ");
    json_auto_t *made = request(INSTALL_FETCH, (struct install_input){});
    json_auto_t *wanted = json_pack(
        "[{s:s,s:s,s:s},{s:s,s:s,s:s}]", "url", "https://one.example/simple", "login", "me",
        "password", "s@cret", "url", "http://two.example:81/", "login", "token9", "password", "");
    assert_true(json_equal(json_object_get(made, "credentials"), wanted));
    (void)json_object_del(made, "credentials");
    char *rest = json_dumps(made, 0);
    assert_null(strstr(rest, "cret"));
    assert_null(strstr(rest, "token9"));
    free(rest);
    char text[100];
    assert_string_equal(install_sources_describe(&sources, text, sizeof text),
                        "https://one.example/simple, 1 more index");
}

static void passwords_are_removed_everywhere(void **)
{
    config.index_url = "https://me:s%40cret@one.example/simple";
    config.extra_index_urls.at[config.extra_index_urls.count++] = "http://token9@two.example/";
    install_sources_read(&config, &sources);
    char log[] = "s@crets%40cret me token9 s@cre s@cret";
    install_sources_redact(&sources, log, strlen(log));
    assert_string_equal(log, "************** me ****** s@cre ******");
}

static void without_an_index_no_host_is_reached(void **)
{
    config.no_index = true;
    config.find_links = "/wheels";
    config.index_hosts.at[config.index_hosts.count++] = "files.example";
    install_sources_read(&config, &sources);
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "");
    json_auto_t *made = request(INSTALL_FETCH, (struct install_input){});
    assert_true(json_is_true(json_object_get(made, "no_index")));
    assert_true(json_is_true(json_object_get(made, "find_links")));
    assert_null(json_object_get(made, "index_url"));
}

static void the_later_steps_get_what_was_fetched_and_no_credentials(void **)
{
    config.index_url = "https://me:secret@one.example/simple";
    install_sources_read(&config, &sources);
    json_auto_t *fetched = json_loads(
        "{\"to_install\":[{\"file\":\"a.whl\"},{}],"
        "\"to_build\":[{\"file\":\"b.tar.gz\"}]}",
        0, NULL);
    struct install_input input = {.fetched = fetched, .bytes_most = 77};
    json_auto_t *place = request(INSTALL_PLACE, input);
    json_auto_t *wheels = json_pack("[s,s]", "a.whl", "");
    assert_true(json_equal(json_object_get(place, "wheels"), wheels));
    assert_int_equal(json_integer_value(json_object_get(place, "max_bytes")), 77);
    json_auto_t *build = request(INSTALL_BUILD, input);
    assert_true(
        json_equal(json_object_get(build, "to_build"), json_object_get(fetched, "to_build")));
    assert_null(json_object_get(build, "credentials"));
    assert_null(json_object_get(place, "credentials"));
    input.built = json_object_get(fetched, "to_build");
    json_auto_t *again = request(INSTALL_FETCH, input);
    assert_true(json_equal(json_object_get(again, "built"), input.built));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_flags_it_is_the_public_index_and_its_files, set_up),
        cmocka_unit_test_setup(credentials_are_separate_and_bound_to_a_port, set_up),
        cmocka_unit_test_setup(passwords_are_removed_everywhere, set_up),
        cmocka_unit_test_setup(without_an_index_no_host_is_reached, set_up),
        cmocka_unit_test_setup(the_later_steps_get_what_was_fetched_and_no_credentials, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
