/* Which well-known packages an interpreter has, by the names of the folders that describe them
 * (PyPA, recording installed projects; Debian still writes .egg-info for some). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/python/python.h"
#include "sandbox/sandbox.h"

enum { VERSION_SIZE = 24, ENTRIES_MOST = 20000 };

/* What a model reaches for first, in this order. Names are normalised (PEP 503). */
static const char *const notable[] = {
    "numpy",   "pandas",   "matplotlib",     "scipy",       "scikit-learn", "sympy",
    "pillow",  "requests", "seaborn",        "plotly",      "statsmodels",  "polars",
    "pyarrow", "duckdb",   "openpyxl",       "networkx",    "torch",        "tensorflow",
    "lxml",    "httpx",    "beautifulsoup4", "sqlalchemy",  "xarray",       "numba",
    "nltk",    "pydantic", "pypdf",          "python-docx", "pyyaml",       "jinja2",
};

enum { NOTABLE = sizeof notable / sizeof *notable };

/* As in a normalised name. */
static int normal(char c)
{
    bool separates = c == '-' || c == '_' || c == '.';
    return separates ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* Whether text[0 … size) is name but for case and separators. */
static bool is_name(const char *text, size_t size, const char *name)
{
    size_t same = 0;
    while (same < size && normal(text[same]) == name[same]) { /* false at the end of name */
        same++;
    }
    return same == size && name[size] == '\0';
}

/* "numpy-1.26.4.dist-info", "numpy-1.24.2-py3.11.egg-info": remembers the version. */
static void look_at(const char *entry, char versions[NOTABLE][VERSION_SIZE])
{
    const char *dash = strchr(entry, '-');
    const char *end = dash ? strstr(dash, ".dist-info") : NULL;
    if (dash && !end) {
        end = strstr(dash, ".egg-info");
    }
    if (!end) {
        return;
    }
    size_t size = strspn(dash + 1, "0123456789abcdefghijklmnopqrstuvwxyz.+!");
    size = dash + 1 + size > end ? (size_t)(end - dash - 1) : size;
    for (unsigned i = 0; i < NOTABLE; i++) {
        if (!versions[i][0] && is_name(entry, (size_t)(dash - entry), notable[i]) && size > 0 &&
            size < VERSION_SIZE) {
            (void)snprintf(versions[i], VERSION_SIZE, "%.*s", (int)size, dash + 1);
        }
    }
}

/* Looks into PREFIX/LIB/NAME. */
static void look_into(const char *prefix, const char *lib, const char *name,
                      char versions[NOTABLE][VERSION_SIZE])
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s/%s", prefix, lib, name);
    DIR *dir = size > 0 && size < PATH_MAX ? opendir(path) : NULL;
    const struct dirent *entry = NULL;
    for (unsigned i = 0; dir && i < ENTRIES_MOST && (entry = readdir(dir)); i++) {
        look_at(entry->d_name, versions);
    }
    if (dir) {
        (void)closedir(dir);
    }
}

/* In the order of sys.path: the first that is found is imported. */
static void look_into_all(const struct python *python, char versions[NOTABLE][VERSION_SIZE])
{
    char site[40];
    char dist[40];
    (void)snprintf(site, sizeof site, "%s/site-packages", python->version);
    (void)snprintf(dist, sizeof dist, "%s/dist-packages", python->version);
    if (python->environment[0]) {
        look_into(python->environment, "lib", site, versions);
        if (!python->system_packages) {
            return;
        }
    }
    if (python->user_base[0]) {
        look_into(python->user_base, "lib", site, versions);
    }
    look_into(python->prefix, "lib", site, versions);
    look_into(python->prefix, "lib64", site, versions);
    look_into(python->prefix, "local/lib", dist, versions);
    look_into(python->prefix, "lib", "python3/dist-packages", versions);
}

void box_python_look(const struct box_spec *spec, struct box_python *ret_python)
{
    char versions[NOTABLE][VERSION_SIZE] = {};
    struct fail fail = {};
    size_t used = 0;
    struct python *python = malloc(sizeof *python);
    *ret_python = (struct box_python){};
    if (!python || python_expect(spec, python, &fail) < 0) {
        free(python);
        return;
    }
    (void)snprintf(ret_python->version, sizeof ret_python->version, "%s",
                   python->version + strlen("python"));
    look_into_all(python, versions);
    free(python);
    for (unsigned i = 0; i < NOTABLE; i++) {
        char text[64];
        int size =
            snprintf(text, sizeof text, "%s%s %s", used ? ", " : "", notable[i], versions[i]);
        if (versions[i][0] && used + (size_t)size < sizeof ret_python->packages) {
            memcpy(ret_python->packages + used, text, (size_t)size + 1);
            used += (size_t)size;
        }
    }
}
