/* Which well-known packages an interpreter has, by the names of their metadata directories (PyPA,
 * recording installed projects; Debian still writes .egg-info for some). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/host/python.h"
#include "sandbox/types.h"

enum { VERSION_SIZE = 24, ENTRIES_MOST = 20000 };

/* What a model tries first, in this order. Names are normalised (PEP 503). */
static const char *const well_known[] = {
    "numpy",   "pandas",   "matplotlib",     "scipy",       "scikit-learn", "sympy",
    "pillow",  "requests", "seaborn",        "plotly",      "statsmodels",  "polars",
    "pyarrow", "duckdb",   "openpyxl",       "networkx",    "torch",        "tensorflow",
    "lxml",    "httpx",    "beautifulsoup4", "sqlalchemy",  "xarray",       "numba",
    "nltk",    "pydantic", "pypdf",          "python-docx", "pyyaml",       "jinja2",
    "pip", /* not listed */
};

enum { WELL_KNOWN = sizeof well_known / sizeof *well_known, PIP = WELL_KNOWN - 1 };

/* The normalised form of a character. */
static int normal(char c)
{
    bool separates = c == '-' || c == '_' || c == '.';
    return separates ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* Whether text[0 … size) equals name, except for case and separators. */
static bool is_name(const char *text, size_t size, const char *name)
{
    size_t same = 0;
    while (same < size && normal(text[same]) == name[same]) { /* false at the end of name */
        same++;
    }
    return same == size && name[size] == '\0';
}

/* Notes the version in "numpy-1.26.4.dist-info", "numpy-1.24.2-py3.11.egg-info" or
 * "pip-23.0.1-py3-none-any.whl". */
static void note_version(const char *entry, char versions[WELL_KNOWN][VERSION_SIZE])
{
    const char *dash = strchr(entry, '-');
    const char *end = dash ? strstr(dash, ".dist-info") : NULL;
    if (dash && !end) {
        end = strstr(dash, ".egg-info");
        end = end ? end : strstr(dash, ".whl");
    }
    if (!end) {
        return;
    }
    size_t size = strspn(dash + 1, "0123456789abcdefghijklmnopqrstuvwxyz.+!");
    size = dash + 1 + size > end ? (size_t)(end - dash - 1) : size;
    for (unsigned i = 0; i < WELL_KNOWN; i++) {
        if (!versions[i][0] && is_name(entry, (size_t)(dash - entry), well_known[i]) && size > 0 &&
            size < VERSION_SIZE) {
            (void)snprintf(versions[i], VERSION_SIZE, "%.*s", (int)size, dash + 1);
        }
    }
}

/* Searches PREFIX/LIB/NAME. */
static void search_directory(const char *prefix, const char *lib, const char *name,
                             char versions[WELL_KNOWN][VERSION_SIZE])
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s/%s", prefix, lib, name);
    defer_closedir DIR *dir = size > 0 && size < PATH_MAX ? opendir(path) : NULL;
    const char *entry = NULL;
    for (unsigned i = 0; i < ENTRIES_MOST && (entry = fd_next_name(dir)); i++) {
        note_version(entry, versions);
    }
}

/* In the order of sys.path: Python imports the first match. */
static void search_all(const struct python *python, char versions[WELL_KNOWN][VERSION_SIZE])
{
    char site[40];
    char dist[40];
    (void)snprintf(site, sizeof site, "%s/site-packages", python->version);
    (void)snprintf(dist, sizeof dist, "%s/dist-packages", python->version);
    if (python->environment[0]) {
        search_directory(python->environment, "lib", site, versions);
        if (!python->system_packages) {
            return;
        }
    }
    if (python->user_base[0]) {
        search_directory(python->user_base, "lib", site, versions);
    }
    search_directory(python->prefix, "lib", site, versions);
    search_directory(python->prefix, "lib64", site, versions);
    search_directory(python->prefix, "local/lib", dist, versions);
    search_directory(python->prefix, "lib", "python3/dist-packages", versions);
}

/* Where guest/installer/confine.py takes a wheel of pip from. */
static void search_pip(const struct python *python, char versions[WELL_KNOWN][VERSION_SIZE])
{
    char bundled[40];
    (void)snprintf(bundled, sizeof bundled, "%s/ensurepip/_bundled", python->version);
    search_directory(python->prefix, "lib", bundled, versions);
    search_directory(python->prefix, "lib64", bundled, versions);
    search_directory("/usr", "share", "python-wheels", versions);
}

void box_python_look(const struct box_spec *spec, struct box_python *ret_python)
{
    char versions[WELL_KNOWN][VERSION_SIZE] = {};
    struct fail fail = {};
    size_t used = 0;
    defer_free struct python *python = malloc(sizeof *python);
    *ret_python = (struct box_python){};
    int r = python ? python_expect(spec, python, &fail) : -ENOMEM;
    if (r < 0) {
        (void)snprintf(ret_python->error, FAIL_TEXT, "%s", r == -ENOEXEC ? "" : fail_text(&fail));
        return;
    }
    (void)snprintf(ret_python->version, sizeof ret_python->version, "%s",
                   python->version + strlen("python"));
    search_all(python, versions);
    search_pip(python, versions);
    ret_python->has_pip = versions[PIP][0] != '\0';
    for (unsigned i = 0; i < PIP; i++) {
        char text[64];
        int size =
            snprintf(text, sizeof text, "%s%s %s", used ? ", " : "", well_known[i], versions[i]);
        if (versions[i][0] && used + (size_t)size < sizeof ret_python->packages) {
            memcpy(ret_python->packages + used, text, (size_t)size + 1);
            used += (size_t)size;
        }
    }
}
