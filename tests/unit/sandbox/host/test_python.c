#include "sandbox/host/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

/* Not real interpreters: bin/ and the library beside it make a prefix, and only scripts run
 * here. */
static struct temp temp;
static struct python python;
static struct box_spec spec;
static struct fail failure;
static char text[PATH_MAX];

static const char *at(const char *name)
{
    return temp_path(&temp, name, text);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void make_prefix(const char *prefix, const char *library)
{
    char name[512];
    (void)snprintf(name, sizeof name, "%s/bin/python3.11", prefix);
    temp_file(&temp, name, "\177ELF", 0755);
    (void)snprintf(name, sizeof name, "%s/bin/python3", prefix);
    temp_link(&temp, "python3.11", name);
    (void)snprintf(name, sizeof name, "%s/%s/os.py", prefix, library);
    temp_file(&temp, name, "", 0644);
}

static void make_environment(const char *name, const char *base)
{
    char file[512];
    char content[1024];
    char target[1024];
    (void)snprintf(file, sizeof file, "%s/pyvenv.cfg", name);
    (void)snprintf(content, sizeof content, "home = %s/%s/bin\nversion = 3.11.2\n", temp.path,
                   base);
    temp_file(&temp, file, content, 0644);
    (void)snprintf(file, sizeof file, "%s/bin/python", name);
    (void)snprintf(target, sizeof target, "%s/%s/bin/python3", temp.path, base);
    temp_link(&temp, target, file);
}

static int set_up(void **)
{
    temp_make(&temp);
    make_prefix("py", "lib/python3.11");
    temp_directory(&temp, "home");
    set("HOME", at("home"));
    set("PATH", at("py/bin"));
    set("VIRTUAL_ENV", NULL);
    set("PYTHONHASHSEED", NULL);
    failure = (struct fail){};
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

/* In the state of a process that has not found an interpreter yet. */
static int find_in(const char *chosen, const char *workspace)
{
    python_forget();
    box_spec_init(&spec);
    spec.python = chosen;
    spec.workspace = workspace;
    return python_find(&spec, &python, &failure);
}

static void find(const char *chosen)
{
    if (find_in(chosen, NULL) != 0) {
        fail_msg("%s", failure.text);
    }
}

static bool shows(const char *name)
{
    for (unsigned i = 0; i < python.directory_count; i++) {
        if (strcmp(python.directories[i], at(name)) == 0) {
            return true;
        }
    }
    return false;
}

static void first_of_path_is_used_with_only_its_prefix(void **)
{
    find(NULL);
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_int_equal(python.directory_count, 1);
    assert_true(shows("py"));
    assert_string_equal(python.environment, "");
    assert_string_equal(python.user_base, "");
}

static void absolute_entries_of_path_are_searched_in_order(void **)
{
    char path[4 * PATH_MAX];
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(temp.path), 0);
    make_prefix("other", "lib64/python3.12");
    temp_directory(&temp, "empty");
    temp_file(&temp, "plain/python3", "", 0644); /* not executable */
    temp_directory(&temp, "directory/python3");
    (void)snprintf(path, sizeof path,
                   ":py/bin:%s/empty:%s/plain:%s/directory:%s/other/bin:%s/py/bin", temp.path,
                   temp.path, temp.path, temp.path, temp.path);
    set("PATH", path);
    find(NULL);
    assert_string_equal(python.path, at("other/bin/python3"));
    find("python3.11");
    assert_string_equal(python.path, at("other/bin/python3.11"));
    assert_int_equal(chdir(before), 0);
}

static void missing_interpreter_is_reported(void **)
{
    set("PATH", at("empty"));
    assert_int_equal(find_in(NULL, NULL), -ENOENT);
    assert_string_equal(failure.text, "python3 in PATH");
    assert_int_equal(find_in(at("none"), NULL), -ENOENT);
    assert_non_null(strstr(failure.text, at("none")));
    assert_int_equal(find_in(at("py/bin"), NULL), -ENOENT);
}

static void relative_path_is_resolved_in_the_working_directory(void **)
{
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(temp.path), 0);
    find("py/bin/python3.11");
    assert_string_equal(python.path, at("py/bin/python3.11"));
    assert_int_equal(chdir(before), 0);
}

static void active_environment_is_used_with_its_base(void **)
{
    make_prefix("base", "lib/python3.11");
    make_environment("env", "base");
    set("VIRTUAL_ENV", at("env"));
    find(NULL);
    assert_string_equal(python.path, at("env/bin/python"));
    assert_string_equal(python.environment, at("env"));
    assert_true(shows("env"));
    assert_true(shows("base"));
    assert_false(shows("py"));
    find(at("py/bin/python3"));
    assert_string_equal(python.environment, "");
}

static void missing_environment_is_skipped(void **)
{
    set("VIRTUAL_ENV", at("env"));
    find(NULL);
    assert_string_equal(python.path, at("py/bin/python3"));
}

/* python -> python3 -> base, as tools other than venv make them, with relative symlinks. */
static void environment_with_relative_symlinks_is_used_with_its_base(void **)
{
    make_prefix("versions/base", "lib/python3.11");
    temp_file(&temp, "work/env/pyvenv.cfg", "home = nowhere\n", 0644);
    temp_link(&temp, "python3", "work/env/bin/python");
    temp_link(&temp, "../../../versions/base/bin/python3", "work/env/bin/python3");
    find(at("work/env/bin/python"));
    assert_string_equal(python.path, at("work/env/bin/python"));
    assert_string_equal(python.environment, at("work/env"));
    assert_true(shows("work/env"));
    assert_true(shows("versions/base"));
    assert_false(shows("work"));
}

static void symlink_in_a_users_directory_does_not_show_it(void **)
{
    temp_link(&temp, at("py/bin/python3"), "home/bin/python3");
    temp_file(&temp, "home/secret", "", 0600);
    find(at("home/bin/python3"));
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_int_equal(python.directory_count, 1);
    assert_true(shows("py"));
}

static void relative_symlink_in_a_users_directory_does_not_show_it(void **)
{
    make_prefix("home/pythons/one", "lib/python3.11");
    temp_link(&temp, "../pythons/one/bin/python3", "home/bin/python3");
    find(at("home/bin/python3"));
    assert_string_equal(python.path, at("home/pythons/one/bin/python3"));
    assert_int_equal(python.directory_count, 1);
    assert_true(shows("home/pythons/one"));
}

static void dots_in_the_path_are_resolved(void **)
{
    char chosen[PATH_MAX];
    (void)snprintf(chosen, sizeof chosen, "%s/home/../py/bin/../bin/./python3", temp.path);
    find(chosen);
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_int_equal(python.directory_count, 1);
    assert_true(shows("py"));
}

/* A version's directory is itself a symlink: the sandbox needs both names, because another symlink
 * has one in its text. */
static void symlink_to_a_directory_shows_both_names(void **)
{
    make_prefix("pythons/3.11.2", "lib/python3.11");
    temp_link(&temp, "3.11.2", "pythons/3.11");
    find(at("pythons/3.11/bin/python3"));
    assert_string_equal(python.path, at("pythons/3.11/bin/python3"));
    assert_true(shows("pythons/3.11"));
    assert_true(shows("pythons/3.11.2"));
}

static void symlink_loop_is_refused(void **)
{
    temp_link(&temp, "b", "home/bin/a");
    temp_link(&temp, "a", "home/bin/b");
    assert_int_equal(find_in(at("home/bin/a"), NULL), -ENOENT);
}

static void interpreter_without_its_library_is_refused(void **)
{
    temp_file(&temp, "odd/bin/python3", "\177ELF", 0755);
    temp_directory(&temp, "odd/lib/python3.11");
    assert_int_equal(find_in(at("odd/bin/python3"), NULL), -ENOENT);
    assert_non_null(strstr(failure.text, "the standard library of"));
    assert_non_null(strstr(failure.text, at("odd/bin/python3")));
}

static void script_reveals_its_interpreter(void **)
{
    char script[PATH_MAX + 64];
    (void)snprintf(script, sizeof script, "#!/bin/sh\nprintf %%s %s\n", at("py/bin/python3"));
    temp_file(&temp, "shims/python3", script, 0755);
    find(at("shims/python3"));
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_int_equal(python.directory_count, 1);
}

static bool is_there(const char *name)
{
    return faccessat(temp.fd, name, F_OK, 0) == 0;
}

/* The script starts in another directory and with other variables than the server's. */
static void script_runs_once_in_the_root_with_few_variables(void **)
{
    char script[3 * PATH_MAX];
    char before[PATH_MAX];
    char said[4096];
    assert_non_null(getcwd(before, sizeof before));
    (void)snprintf(
        script, sizeof script,
        "#!/bin/sh\n{ pwd; /usr/bin/env; } >>'%s/said'\nprintf %%s '%s/py/bin/python3'\n",
        temp.path, temp.path);
    temp_file(&temp, "shims/python3", script, 0755);
    temp_directory(&temp, "work");
    set("PYENV_VERSION", "x");
    set("ASDF_PYTHON_VERSION", "path:x");
    set("ASDF_DATA_DIR", at("py"));
    set("PYENV_ROOT", "relative");
    set("BASH_ENV", at("evil"));
    (void)snprintf(script, sizeof script, ":bin:%s/work/bin:%s/shims:/usr/bin:/bin", temp.path,
                   temp.path);
    set("PATH", script);
    assert_int_equal(chdir(at("py")), 0);
    char root[PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", at("work"));
    assert_int_equal(find_in(NULL, root), 0);
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_true(fd_read_text_at(temp.fd, "said", said, sizeof said) > 0);
    assert_memory_equal(said, "/\n", 2);
    assert_null(strstr(said, "_VERSION"));
    assert_null(strstr(said, "PYENV_ROOT"));
    assert_null(strstr(said, "BASH_ENV"));
    assert_non_null(strstr(said, "ASDF_DATA_DIR="));
    assert_non_null(strstr(said, "HOME="));
    (void)snprintf(script, sizeof script, "\nPATH=%s/shims:/usr/bin:/bin\n", temp.path);
    assert_non_null(strstr(said, script));
    /* It does not run again, even after changes and for another sandbox. */
    assert_int_equal(unlinkat(temp.fd, "said", 0), 0);
    set("PATH", at("nowhere"));
    assert_int_equal(python_find(&spec, &python, &failure), 0);
    assert_int_equal(python_expect(&spec, &python, &failure), 0);
    assert_string_equal(python.path, at("py/bin/python3"));
    assert_false(is_there("said"));
    assert_int_equal(chdir(before), 0);
    set("PYENV_VERSION", NULL);
    set("ASDF_PYTHON_VERSION", NULL);
    set("ASDF_DATA_DIR", NULL);
    set("PYENV_ROOT", NULL);
    set("BASH_ENV", NULL);
}

/* Code can write the file that chooses the version, or the interpreter. */
static void script_that_code_can_influence_is_refused(void **)
{
    char script[2 * PATH_MAX + 64];
    char root[PATH_MAX];
    make_prefix("work/py", "lib/python3.11");
    (void)snprintf(root, sizeof root, "%s", at("work"));
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n: >'%s/ran'\nprintf %%s '%s/work/py/bin/python3'\n", temp.path,
                   temp.path);
    temp_file(&temp, "shims/python3", script, 0755);
    assert_int_equal(find_in(at("shims/python3"), root), -EPERM);
    assert_true(is_there("ran")); /* the control: this script may run */
    assert_non_null(strstr(failure.text, "is in the workspace"));
    assert_int_equal(unlinkat(temp.fd, "ran", 0), 0);
    temp_link(&temp, "../work/dotfiles", "home/.tool-versions");
    assert_int_equal(find_in(at("shims/python3"), root), -EPERM);
    assert_non_null(strstr(failure.text, ".tool-versions"));
    (void)snprintf(script, sizeof script, "#!%s/work/sh\n", temp.path);
    temp_file(&temp, "shims/other", script, 0755);
    assert_int_equal(find_in(at("shims/other"), root), -EPERM);
    assert_non_null(strstr(failure.text, "work/sh"));
    assert_false(is_there("ran"));
}

static void expect_asked(const char *workspace, bool asked)
{
    char root[PATH_MAX];
    (void)unlinkat(temp.fd, "ran", 0);
    failure = (struct fail){};
    (void)snprintf(root, sizeof root, "%s", at(workspace));
    int r = find_in(at("tool/shims/python3"), root);
    if (r != (asked ? 0 : -EPERM) || is_there("ran") != asked) {
        fail_msg("%s: %d \"%s\"", workspace, r, failure.text);
    }
}

/* The tool's plugins and versions run too: code may write to none of its directories. */
static void script_of_a_tool_that_code_can_write_is_refused(void **)
{
    static const char *const variables[] = {"ASDF_DIR", "ASDF_DATA_DIR", "PYENV_ROOT"};
    static const char *const directories[] = {"home/.pyenv/plugins/mine",
                                              "home/.asdf/plugins/mine/bin", "tool/plugins/mine",
                                              "home/.pyenv/pyenv.d"};
    static const char *const links[] = {"home/.pyenv/plugins/link", "home/.pyenv/versions/link",
                                        "home/.asdf/installs/python/link", "home/.asdf/lib",
                                        "tool/plugins/link"};
    char script[2 * PATH_MAX + 64];
    char target[PATH_MAX];
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n: >'%s/ran'\nprintf %%s '%s/py/bin/python3'\n", temp.path,
                   temp.path);
    temp_file(&temp, "tool/shims/python3", script, 0755);
    temp_directory(&temp, "work/deep");
    temp_directory(&temp, "other/plugins");
    (void)snprintf(target, sizeof target, "%s/work", temp.path);
    for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++) {
        temp_directory(&temp, directories[i]);
        expect_asked(directories[i], false);
        expect_asked("work", true); /* the control */
    }
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        temp_link(&temp, target, links[i]);
        expect_asked("work", false);
        expect_asked("work/deep", false);
        assert_int_equal(unlinkat(temp.fd, links[i], 0), 0);
    }
    temp_link(&temp, target, "other/plugins/link");
    for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) {
        expect_asked("work", true);
        set(variables[i], at("other"));
        expect_asked("work", false);
        set(variables[i], NULL);
    }
}

/* The directory of modules lies beside the interpreter's. */
static void interpreter_whose_modules_code_can_write_is_refused(void **)
{
    char root[PATH_MAX];
    temp_directory(&temp, "py/lib/python3.11/site-packages/mine");
    temp_directory(&temp, "py/data");
    (void)snprintf(root, sizeof root, "%s", at("py/lib/python3.11/site-packages/mine"));
    assert_int_equal(find_in(at("py/bin/python3"), root), -EPERM);
    (void)snprintf(root, sizeof root, "%s", at("py/data"));
    assert_int_equal(find_in(at("py/bin/python3"), root), 0);
}

static void script_without_an_interpreter_is_refused(void **)
{
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(at("py/bin")), 0);
    temp_file(&temp, "shims/silent", "#!/bin/sh\n", 0755);
    temp_file(&temp, "shims/relative", "#!/bin/sh\nprintf python3\n", 0755);
    temp_file(&temp, "shims/gone", "#!/bin/sh\nprintf /nowhere/python3\n", 0755);
    temp_file(&temp, "shims/broken", "#!/nowhere/sh\n", 0755);
    assert_int_equal(find_in(at("shims/silent"), NULL), -ENOEXEC);
    assert_int_equal(find_in(at("shims/relative"), NULL), -ENOEXEC);
    assert_int_equal(find_in(at("shims/gone"), NULL), -ENOEXEC);
    assert_int_equal(find_in(at("shims/broken"), NULL), -ENOEXEC);
    assert_non_null(strstr(failure.text, "shims/broken is a script"));
    assert_int_equal(chdir(before), 0);
}

/* --- in the workspace, where code can write --- */

static void expect_refused(const char *chosen, const char *workspace)
{
    char root[PATH_MAX];
    failure = (struct fail){};
    (void)snprintf(root, sizeof root, "%s", at(workspace));
    if (find_in(at(chosen), root) != -EPERM || !strstr(failure.text, "is in the workspace")) {
        fail_msg("%s in the workspace %s: \"%s\"", chosen, workspace, failure.text);
    }
}

static void an_interpreter_in_the_workspace_is_recognised(void **)
{
    char root[PATH_MAX];
    make_prefix("work/tools/py", "lib/python3.11");
    (void)snprintf(root, sizeof root, "%s", at("work"));
    assert_int_equal(find_in(at("work/tools/py/bin/python3"), root), 0);
    assert_int_equal(python.inside_count, 1);
    assert_string_equal(python.inside[0], "tools/py");
    temp_link(&temp, "work", "alias"); /* another path of the user's for it */
    assert_int_equal(find_in(at("alias/tools/py/bin/python3"), root), 0);
    assert_string_equal(python.inside[0], "tools/py");
    assert_int_equal(find_in(at("py/bin/python3"), root), 0);
    assert_int_equal(python.inside_count, 0);
}

static void interpreter_that_code_can_replace_is_refused_and_never_run(void **)
{
    char script[2 * PATH_MAX + 64];
    make_prefix("work/py", "lib/python3.11");
    expect_refused("work/py/bin/python3", "work/py"); /* the whole workspace would be read-only */
    temp_link(&temp, "../py/bin/python3", "work/loose");
    expect_refused("work/loose", "work");
    temp_link(&temp, "../py", "work/elsewhere");
    expect_refused("work/elsewhere/bin/python3", "work");
    temp_link(&temp, "work/elsewhere", "by-way-of"); /* no component of the path itself is in it */
    expect_refused("by-way-of/bin/python3", "work");
    temp_link(&temp, "../work/loose", "home/hop");
    expect_refused("home/hop", "work");
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n: >'%s/ran'\nprintf %%s '%s/py/bin/python3'\n", temp.path,
                   temp.path);
    temp_file(&temp, "work/script", script, 0755);
    temp_file(&temp, "script", script, 0755);
    expect_refused("work/script", "work");
    temp_link(&temp, "../work/script", "home/to-script");
    expect_refused("home/to-script", "work");
    temp_link(&temp, "../script", "work/from-link");
    expect_refused("work/from-link", "work");
    assert_int_equal(faccessat(temp.fd, "ran", F_OK, 0), -1);
}

/* Whether it can run programs of ours, for which no plan makes anything read-only. */
static bool is_outside(const char *chosen)
{
    char root[PATH_MAX];
    char path[PATH_MAX] = "";
    char wanted[PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", at("work"));
    (void)snprintf(wanted, sizeof wanted, "%s", at(chosen));
    box_spec_init(&spec);
    spec.workspace = root;
    return python_outside(&spec, wanted, path, &failure) == 0 && strcmp(path, wanted) == 0;
}

static void our_programs_get_no_interpreter_that_code_can_write(void **)
{
    make_prefix("work/tools/py", "lib/python3.11");
    make_prefix("old", "lib/python3.8");
    set("PYTHONHASHSEED", "none"); /* has no influence */
    assert_true(is_outside("py/bin/python3"));
    assert_false(is_outside("work/tools/py/bin/python3"));
    assert_non_null(strstr(failure.text, "code can change the interpreter"));
    assert_false(is_outside("old/bin/python3"));
    assert_non_null(strstr(failure.text, "is CPython 3.8"));
    set("PYTHONHASHSEED", NULL);
}

/* Reads pyvenv.cfg like CPython's getpath.py: the whole key, in any case, the first one. */
static void base_is_read_as_cpython_reads_it(void **)
{
    char content[4096];
    make_prefix("base", "lib/python3.11");
    make_prefix("other", "lib/python3.11");
    make_environment("env", "base");
    (void)snprintf(
        content, sizeof content,
        "homework = %s/other/bin\nhome of = %s/other/bin\nhomeless\n HOME =  %s/base/./bin \n"
        "home = %s/other/bin\nInclude-System-Site-Packages = True\n",
        temp.path, temp.path, temp.path, temp.path);
    temp_file(&temp, "env/pyvenv.cfg", content, 0644);
    find(at("env/bin/python"));
    assert_true(shows("base"));
    assert_false(shows("other"));
    assert_int_equal(python.directory_count, 2);
    assert_true(python.system_packages);
}

static void expect_too_much(const char *base, const char *word)
{
    char content[1024];
    failure = (struct fail){};
    (void)snprintf(content, sizeof content, "home = %s/bin\n", base);
    temp_file(&temp, "env/pyvenv.cfg", content, 0644);
    if (find_in(at("env/bin/python"), NULL) != -EPERM || !strstr(failure.text, word)) {
        fail_msg("%s: \"%s\"", base, failure.text);
    }
}

/* Refuses such a directory whoever has named it. */
static void directory_with_more_than_an_interpreter_is_refused(void **)
{
    char base[512];
    make_environment("env", "py");
    if (access("/lib/python3", F_OK) == 0) { /* Debian's; the standard library is beside it */
        expect_too_much("/", "the whole file system");
        expect_too_much("/usr/..", "the whole file system");
    }
    make_prefix("home", "lib/python3.11");
    (void)snprintf(base, sizeof base, "%s/home", temp.path);
    expect_too_much(base, "the home directory");
    temp_link(&temp, "../home", "py/home");
    (void)snprintf(base, sizeof base, "%s/py/home", temp.path);
    expect_too_much(base, "the home directory");
    make_prefix(".", "lib/python3.11");
    expect_too_much(temp.path, "the home directory");
    failure = (struct fail){};
    assert_int_equal(find_in(at("home/bin/python3"), NULL), -EPERM);
}

static void expect_base(const char *base, bool known)
{
    static unsigned count;
    char root[PATH_MAX];
    char directory[256];
    failure = (struct fail){};
    (void)snprintf(root, sizeof root, "%s", at("work"));
    (void)snprintf(directory, sizeof directory, "work/.venv-%u", count++);
    make_environment(directory, base);
    (void)strcat(directory, "/bin/python");
    int r = find_in(at(directory), root);
    if (r != (known ? 0 : -EPERM) || (known && !shows(base)) ||
        (!known && !strstr(failure.text, "code can write to the file that names"))) {
        fail_msg("%s: %d \"%s\"", base, r, failure.text);
    }
}

/* Code can rewrite an environment in the workspace while another interpreter runs. What the
 * environment names elsewhere is shown only if it is known independently. */
static void environment_in_the_workspace_may_use_only_a_known_base(void **)
{
    char root[PATH_MAX];
    char content[1024];
    make_prefix("home/.pyenv/versions/3.11.2", "lib/python3.11");
    make_prefix("home/.local/share/uv/python/cpython-3.11-linux", "lib/python3.11");
    make_prefix("home/conda", "lib/python3.11");
    temp_file(&temp, "home/conda/conda-meta/history", "", 0644);
    make_prefix("home/.local", "lib/python3.11");
    make_prefix("home/.pyenv", "lib/python3.11");
    make_prefix("home/x/versions/3.11.2", "lib/python3.11");
    make_prefix("other", "lib/python3.11");
    expect_base("py", true); /* in PATH */
    expect_base("home/.pyenv/versions/3.11.2", true);
    expect_base("home/.local/share/uv/python/cpython-3.11-linux", true);
    expect_base("home/conda", true);
    expect_base("home/.local", false);
    expect_base("home/.pyenv", false);
    expect_base("home/x/versions/3.11.2", false);
    expect_base("other", false);
    /* An unknown base beside the symlink to a known one, and an entry of PATH that leads through
     * code's symlink. */
    (void)snprintf(root, sizeof root, "%s", at("work"));
    make_environment("work/mixed", "py");
    (void)snprintf(content, sizeof content, "home = %s/other/bin\n", temp.path);
    temp_file(&temp, "work/mixed/pyvenv.cfg", content, 0644);
    assert_int_equal(find_in(at("work/mixed/bin/python"), root), -EPERM);
    temp_link(&temp, "../other/bin/python3", "work/led");
    temp_link(&temp, "../work/led", "bin/python3");
    set("PATH", at("bin"));
    assert_int_equal(find_in(at("work/mixed/bin/python"), root), -EPERM);
    /* The controls: named by the user, and in the user's own environment. */
    assert_int_equal(find_in(at("other/bin/python3"), root), 0);
    make_environment("env", "other");
    assert_int_equal(find_in(at("env/bin/python"), root), 0);
}

static void user_packages_are_shown_without_their_siblings(void **)
{
    temp_file(&temp, "home/.local/lib/python3.11/site-packages/mine.py", "", 0644);
    temp_file(&temp, "home/.local/share/secret", "", 0600);
    find(NULL);
    assert_string_equal(python.user_base, at("home/.local"));
    assert_true(shows("home/.local/lib/python3.11/site-packages"));
    assert_false(shows("home/.local"));
    assert_false(shows("home"));
}

static void user_packages_of_another_version_are_not_shown(void **)
{
    temp_file(&temp, "home/.local/lib/python3.10/site-packages/mine.py", "", 0644);
    find(NULL);
    assert_string_equal(python.user_base, "");
    assert_int_equal(python.directory_count, 1);
}

static void environment_hides_user_packages(void **)
{
    make_environment("env", "py");
    temp_file(&temp, "home/.local/lib/python3.11/site-packages/mine.py", "", 0644);
    set("VIRTUAL_ENV", at("env"));
    find(NULL);
    assert_string_equal(python.user_base, "");
    assert_false(shows("home/.local/lib/python3.11/site-packages"));
}

static void hash_seed_is_taken_in_cpythons_range(void **)
{
    static const char *const good[] = {"", "0", "4294967295", "random", "007"};
    static const char *const bad[] = {
        "4294967296", "-1", " 1", "1 ", "Random", "1\nX=2", "00000000000000000000001"};
    find(NULL);
    assert_string_equal(python.hash_seed, "0");
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        set("PYTHONHASHSEED", good[i]);
        find(NULL);
        assert_string_equal(python.hash_seed, good[i][0] ? good[i] : "0");
    }
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        set("PYTHONHASHSEED", bad[i]);
        assert_int_equal(find_in(NULL, NULL), -ERANGE);
        assert_non_null(strstr(failure.text, "PYTHONHASHSEED must be"));
    }
    set("PYTHONHASHSEED", NULL);
}

#define PYTHON_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PYTHON_TEST(first_of_path_is_used_with_only_its_prefix),
        PYTHON_TEST(absolute_entries_of_path_are_searched_in_order),
        PYTHON_TEST(missing_interpreter_is_reported),
        PYTHON_TEST(relative_path_is_resolved_in_the_working_directory),
        PYTHON_TEST(active_environment_is_used_with_its_base),
        PYTHON_TEST(missing_environment_is_skipped),
        PYTHON_TEST(environment_with_relative_symlinks_is_used_with_its_base),
        PYTHON_TEST(symlink_in_a_users_directory_does_not_show_it),
        PYTHON_TEST(relative_symlink_in_a_users_directory_does_not_show_it),
        PYTHON_TEST(dots_in_the_path_are_resolved),
        PYTHON_TEST(symlink_to_a_directory_shows_both_names),
        PYTHON_TEST(symlink_loop_is_refused),
        PYTHON_TEST(interpreter_without_its_library_is_refused),
        PYTHON_TEST(script_reveals_its_interpreter),
        PYTHON_TEST(script_runs_once_in_the_root_with_few_variables),
        PYTHON_TEST(script_that_code_can_influence_is_refused),
        PYTHON_TEST(script_of_a_tool_that_code_can_write_is_refused),
        PYTHON_TEST(script_without_an_interpreter_is_refused),
        PYTHON_TEST(interpreter_whose_modules_code_can_write_is_refused),
        PYTHON_TEST(an_interpreter_in_the_workspace_is_recognised),
        PYTHON_TEST(interpreter_that_code_can_replace_is_refused_and_never_run),
        PYTHON_TEST(our_programs_get_no_interpreter_that_code_can_write),
        PYTHON_TEST(base_is_read_as_cpython_reads_it),
        PYTHON_TEST(directory_with_more_than_an_interpreter_is_refused),
        PYTHON_TEST(environment_in_the_workspace_may_use_only_a_known_base),
        PYTHON_TEST(user_packages_are_shown_without_their_siblings),
        PYTHON_TEST(user_packages_of_another_version_are_not_shown),
        PYTHON_TEST(environment_hides_user_packages),
        PYTHON_TEST(hash_seed_is_taken_in_cpythons_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
