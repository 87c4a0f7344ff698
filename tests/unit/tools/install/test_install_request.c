#include "tools/install_request.h"

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

static void read_sources(void)
{
    struct fail fail = {};
    if (install_sources_read(&config, &sources, &fail) < 0) {
        fail_msg("%s", fail.text);
    }
}

static void add_host(void *arg, const char *word)
{
    (void)arg;
    size_t used = strlen(hosts);
    (void)snprintf(hosts + used, sizeof hosts - used, "%s ", word);
}

static json_t *request(enum install_step step, struct install_wish wish)
{
    json_t *packages = json_pack("[s]", "x");
    wish.packages = packages;
    json_t *made = install_request(&sources, step, &wish);
    json_decref(packages);
    assert_non_null(made);
    return made;
}

static void without_flags_it_is_the_public_index_and_its_files(void **)
{
    read_sources();
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "pypi.org:443 files.pythonhosted.org:443 ");
    char text[100];
    assert_string_equal(install_sources_describe(&sources, text, sizeof text),
                        "https://pypi.org/simple");
    json_auto_t *made =
        request(INSTALL_FETCH, (struct install_wish){.layers = 2, .layers_path = "/packages"});
    json_auto_t *layers = json_pack("[s,s]", "/packages/2", "/packages/1");
    assert_true(json_equal(json_object_get(made, "layers"), layers));
    assert_true(json_is_true(json_object_get(made, "only_binary")));
    assert_false(json_is_true(json_object_get(made, "no_index")));
}

static void credentials_stand_apart_with_the_port_that_they_are_for(void **)
{
    config.index_url = "https://me:s%40cret@one.example/simple";
    config.extra_index_urls.at[config.extra_index_urls.count++] = "http://token9@two.example:81/";
    config.index_hosts.at[config.index_hosts.count++] = "files.example";
    read_sources();
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "one.example:443 two.example:81 files.example ");
    json_auto_t *made = request(INSTALL_FETCH, (struct install_wish){});
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

static void passwords_are_blotted_out_wherever_they_stand(void **)
{
    config.index_url = "https://me:s%40cret@one.example/simple";
    config.extra_index_urls.at[config.extra_index_urls.count++] = "http://token9@two.example/";
    read_sources();
    char log[] = "s@crets%40cret me token9 s@cre s@cret";
    install_sources_redact(&sources, log, strlen(log));
    assert_string_equal(log, "************** me ****** s@cre ******");
}

static void without_an_index_nobody_is_reached(void **)
{
    config.no_index = true;
    config.find_links = "/wheels";
    config.index_hosts.at[config.index_hosts.count++] = "files.example";
    read_sources();
    install_sources_hosts(&sources, add_host, NULL);
    assert_string_equal(hosts, "");
    json_auto_t *made = request(INSTALL_FETCH, (struct install_wish){});
    assert_true(json_is_true(json_object_get(made, "no_index")));
    assert_true(json_is_true(json_object_get(made, "find_links")));
    assert_null(json_object_get(made, "index_url"));
}

static void a_bad_url_is_told_by_its_flag_and_not_repeated(void **)
{
    struct fail fail = {};
    config.extra_index_urls.at[config.extra_index_urls.count++] = "ftp://me:secret@host/";
    assert_true(install_sources_read(&config, &sources, &fail) < 0);
    assert_non_null(strstr(fail.text, "--extra-index-url"));
    assert_null(strstr(fail.text, "secret"));
}

static void the_later_steps_get_what_was_fetched_and_no_credentials(void **)
{
    config.index_url = "https://me:secret@one.example/simple";
    read_sources();
    json_auto_t *fetched = json_loads(
        "{\"to_install\":[{\"file\":\"a.whl\"},{}],"
        "\"to_build\":[{\"file\":\"b.tar.gz\"}]}",
        0, NULL);
    struct install_wish wish = {.fetched = fetched, .bytes_most = 77};
    json_auto_t *place = request(INSTALL_PLACE, wish);
    json_auto_t *wheels = json_pack("[s,s]", "a.whl", "");
    assert_true(json_equal(json_object_get(place, "wheels"), wheels));
    assert_int_equal(json_integer_value(json_object_get(place, "max_bytes")), 77);
    json_auto_t *build = request(INSTALL_BUILD, wish);
    assert_true(
        json_equal(json_object_get(build, "to_build"), json_object_get(fetched, "to_build")));
    assert_null(json_object_get(build, "credentials"));
    assert_null(json_object_get(place, "credentials"));
    wish.built = json_object_get(fetched, "to_build");
    json_auto_t *again = request(INSTALL_FETCH, wish);
    assert_true(json_equal(json_object_get(again, "built"), wish.built));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_flags_it_is_the_public_index_and_its_files, set_up),
        cmocka_unit_test_setup(credentials_stand_apart_with_the_port_that_they_are_for, set_up),
        cmocka_unit_test_setup(passwords_are_blotted_out_wherever_they_stand, set_up),
        cmocka_unit_test_setup(without_an_index_nobody_is_reached, set_up),
        cmocka_unit_test_setup(a_bad_url_is_told_by_its_flag_and_not_repeated, set_up),
        cmocka_unit_test_setup(the_later_steps_get_what_was_fetched_and_no_credentials, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
