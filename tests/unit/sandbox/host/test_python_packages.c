#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

/* A prefix with a library, and packages that consist only of metadata. */
static struct temp temp;
static struct box_spec spec;
static struct box_python python;
static char path[PATH_MAX];

static int set_up(void **)
{
    temp_make(&temp);
    temp_file(&temp, "py/bin/python3", "\177ELF", 0755);
    temp_file(&temp, "py/lib/python3.11/os.py", "", 0644);
    (void)temp_path(&temp, "py/bin/python3", path);
    spec = (struct box_spec){.python = path};
    return setenv("HOME", temp.path, 1);
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static void install(const char *directory, const char *name)
{
    char file[512];
    (void)snprintf(file, sizeof file, "%s/%s/METADATA", directory, name);
    temp_file(&temp, file, "", 0644);
}

static void interpreter_without_packages_has_a_version(void **)
{
    box_python_look(&spec, &python);
    assert_string_equal(python.version, "3.11");
    assert_string_equal(python.packages, "");
}

static void well_known_packages_come_with_their_versions(void **)
{
    static const char site[] = "py/lib/python3.11/site-packages";
    install(site, "pandas-2.1.0rc1.dist-info");
    install(site, "numpy-1.26.4.dist-info");
    install(site, "Scikit_Learn-1.3.0.dist-info");
    install(site, "obscure-1.0.dist-info");
    install(site, "numpy_financial-1.0.dist-info");
    install(site, "num-9.dist-info");
    install(site, "requests");
    install(site, "lxml-\x1b[31m.dist-info");
    install(site, "seaborn-111111111111111111111111.dist-info");
    install("py/lib/python3/dist-packages", "scipy-1.10.1.egg-info");
    install("py/local/lib/python3.11/dist-packages", "pillow-9.4.0-py3.11.egg-info");
    box_python_look(&spec, &python);
    assert_string_equal(python.packages,
                        "numpy 1.26.4, pandas 2.1.0rc1, scipy 1.10.1, "
                        "scikit-learn 1.3.0, pillow 9.4.0");
}

static void pip_is_found_in_a_wheel_and_not_listed(void **)
{
    temp_file(&temp, "py/lib/python3.11/ensurepip/_bundled/pip-23.2.1-py3-none-any.whl", "", 0644);
    temp_file(&temp, "py/lib/python3.11/ensurepip/_bundled/numpy-1.zip", "", 0644);
    box_python_look(&spec, &python);
    assert_true(python.has_pip);
    assert_string_equal(python.packages, "");
}

static void users_own_packages_hide_the_interpreters(void **)
{
    install("py/lib/python3.11/site-packages", "numpy-1.0.dist-info");
    install(".local/lib/python3.11/site-packages", "numpy-2.0.dist-info");
    box_python_look(&spec, &python);
    assert_string_equal(python.packages, "numpy 2.0");
}

static void virtual_environment_shows_the_interpreters_only_if_configured(void **)
{
    char config[PATH_MAX + 100];
    install("py/lib/python3.11/site-packages", "numpy-1.0.dist-info");
    install("env/lib/python3.11/site-packages", "pandas-2.0.dist-info");
    temp_link(&temp, path, "env/bin/python3");
    (void)temp_path(&temp, "env/bin/python3", path);
    for (int with = 0; with < 2; with++) {
        (void)snprintf(config, sizeof config,
                       "home = %s/py/bin\ninclude-system-site-packages = %s\n", temp.path,
                       with ? "true" : "false");
        temp_file(&temp, "env/pyvenv.cfg", config, 0644);
        box_python_look(&spec, &python);
        assert_string_equal(python.version, "3.11");
        assert_string_equal(python.packages, with ? "numpy 1.0, pandas 2.0" : "pandas 2.0");
    }
}

/* A script may stand for any interpreter, and running it takes longer than a client's first
 * response may. */
static void script_is_not_run(void **)
{
    temp_file(&temp, "py/bin/shim", "#!/bin/sh\ntouch \"${0%/*}/ran\"\n", 0755);
    (void)temp_path(&temp, "py/bin/shim", path);
    box_python_look(&spec, &python);
    assert_string_equal(python.version, "");
    assert_string_equal(python.packages, "");
    assert_int_not_equal(access(temp_path(&temp, "py/bin/ran", path), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(interpreter_without_packages_has_a_version, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(well_known_packages_come_with_their_versions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(users_own_packages_hide_the_interpreters, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            virtual_environment_shows_the_interpreters_only_if_configured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pip_is_found_in_a_wheel_and_not_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(script_is_not_run, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
