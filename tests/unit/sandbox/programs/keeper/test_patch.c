#include "sandbox/programs/keeper/patch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { FILES = 12, BYTES = 400, ROUNDS = 60, BATCH = FILES };

/* What is at one path, before and after. */
struct sides {
    const char *path;
    uint32_t mode[2];
    size_t size[2];
    char bytes[2][BYTES];
};

static const char *const paths[FILES] = {
    "a",         "a b",        "d",          "d/e",   "new\nline", "\303\251/\303\274.py",
    "quo\"te\\", "tab\there ", "diff --git", "-dash", "deep/er/x", "\x01\xff",
};

static size_t random_lines(char out[BYTES], bool is_link)
{
    size_t size = 0;
    unsigned count = (unsigned)rand() % (is_link ? 2 : 20) + is_link;
    for (unsigned i = 0; i < count; i++) {
        static const char *const lines[] = {"a\n",  "b\n",        "\n",         "--- a/x\n",
                                            "@@\n", "\xff\xfe\n", "# text\r\n", "\\ No newline\n"};
        const char *line = lines[rand() % 8];
        memcpy(out + size, line, strlen(line));
        size += strlen(line);
    }
    return size > 0 && (is_link || rand() % 3 == 0) ? size - 1 : size;
}

static void random_side(struct sides *sides, unsigned side)
{
    static const uint32_t modes[] = {0, S_IFREG | 0644, S_IFREG | 0644, S_IFREG | 0755, S_IFLNK};
    sides->mode[side] = modes[rand() % 5];
    if (side == 1 && rand() % 2 == 0 && sides->mode[0] && sides->mode[1]) { /* some lines only */
        sides->mode[1] = sides->mode[0];
        memcpy(sides->bytes[1], sides->bytes[0], BYTES);
        sides->size[1] = sides->size[0];
        if (sides->size[0] > 4 && !S_ISLNK(sides->mode[0])) {
            sides->bytes[1][(unsigned)rand() % sides->size[0]] = rand() % 2 ? '\n' : 'z';
        }
        return;
    }
    bool is_link = S_ISLNK(sides->mode[side]);
    sides->size[side] = sides->mode[side] ? random_lines(sides->bytes[side], is_link) : 0;
    if (is_link && sides->size[side] == 0) {
        sides->bytes[side][0] = 'x'; /* there is no empty symlink */
        sides->size[side] = 1;
    }
}

static void random_tree(struct sides tree[FILES])
{
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < FILES; i++) {
            tree[i].path = paths[i];
            random_side(&tree[i], side);
        }
        for (unsigned i = 0; i < FILES; i++) { /* "d" is a directory if "d/e" is there */
            if (strcmp(paths[i], "d") == 0 && tree[i + 1].mode[side]) {
                tree[i].mode[side] = 0;
                tree[i].size[side] = 0;
            }
        }
    }
}

static struct patch_file side_of(const struct sides *sides, unsigned side)
{
    return (struct patch_file){
        .mode = sides->mode[side], .size = sides->size[side], .bytes = sides->bytes[side]};
}

static void put(const struct temp *temp, const struct sides *sides, unsigned side)
{
    char name[100];
    char text[BYTES + 1];
    memcpy(text, sides->bytes[side], sides->size[side]);
    text[sides->size[side]] = '\0';
    (void)snprintf(name, sizeof name, "t/%s", sides->path);
    if (S_ISLNK(sides->mode[side])) {
        temp_link(temp, text, name);
    } else if (sides->mode[side]) {
        temp_file(temp, name, text, sides->mode[side] & 0777);
    }
}

/* Checks that the tree is as on that side, and empties it. is_mode_lost: of files that were made
 * again. */
static void check_and_remove(const struct temp *temp, const struct sides *tree, unsigned side,
                             bool is_mode_lost)
{
    for (unsigned i = 0; i < FILES; i++) {
        char name[100];
        char text[BYTES + 1];
        struct stat st = {};
        ssize_t size = 0;
        (void)snprintf(name, sizeof name, "t/%s", tree[i].path);
        bool is = fstatat(temp->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode);
        assert_int_equal(is, tree[i].mode[side] != 0);
        if (!is) {
            continue;
        }
        bool has_mode = !is_mode_lost || !((tree[i].mode[side] ^ tree[i].mode[!side]) & S_IFMT);
        if (has_mode) {
            assert_int_equal(st.st_mode & S_IFMT, tree[i].mode[side] & S_IFMT);
        }
        if (S_ISLNK(st.st_mode)) {
            size = readlinkat(temp->fd, name, text, sizeof text);
        } else {
            defer_close int fd = openat(temp->fd, name, O_RDONLY | O_CLOEXEC);
            assert_true(!has_mode || !((st.st_mode ^ tree[i].mode[side]) & S_IXUSR));
            size = read(fd, text, sizeof text);
        }
        assert_int_equal(size, tree[i].size[side]);
        assert_memory_equal(text, tree[i].bytes[side], (size_t)size);
        assert_int_equal(unlinkat(temp->fd, name, 0), 0);
    }
    (void)unlinkat(temp->fd, "t/d", AT_REMOVEDIR); /* where it may be a file in the next tree */
}

static int git(const struct temp *temp, const char *option)
{
    char directory[300];
    char patch[300];
    (void)snprintf(directory, sizeof directory, "%s/t", temp->path);
    (void)snprintf(patch, sizeof patch, "%s/patch", temp->path);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("GIT_CEILING_DIRECTORIES", temp->path, 1);
        (void)setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
        (void)execlp("git", "git", "-C", directory, "apply", "--whitespace=nowarn",
                     "--unsafe-paths", patch, option, NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Git 2.47 undoes the deletion of an executable file or of a symlink by making an ordinary file,
 * other versions with the mode of the patch. */
static bool git_loses_modes(const struct temp *temp)
{
    struct stat st;
    temp_file(temp, "patch", "diff --git a/x b/x\nnew file mode 100644\n", 0600);
    if (git(temp, "--verbose") != 0) {
        return false;
    }
    assert_int_equal(unlinkat(temp->fd, "t/x", 0), 0);
    temp_file(temp, "patch", "diff --git a/x b/x\ndeleted file mode 100755\n", 0600);
    assert_int_equal(git(temp, "--reverse"), 0);
    assert_int_equal(fstatat(temp->fd, "t/x", &st, 0), 0);
    assert_int_equal(unlinkat(temp->fd, "t/x", 0), 0);
    return !(st.st_mode & S_IXUSR);
}

static void git_applies_random_patches_both_ways(void **)
{
    struct temp temp;
    temp_make(&temp);
    temp_directory(&temp, "t");
    unsigned pairs = 0;
    bool is_mode_lost = git_loses_modes(&temp);
    srand(4);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct sides tree[FILES];
        struct buf patch = BUF_EMPTY;
        memset(tree, 0, sizeof tree);
        random_tree(tree);
        for (unsigned i = 0; i < FILES; i++) {
            struct patch_file old = side_of(&tree[i], 0);
            struct patch_file new = side_of(&tree[i], 1);
            struct patch_counts counts;
            uint64_t work = round % 4 ? DIFF_WORK : 20;
            assert_int_equal(patch_write(paths[i], &old, &new, &work, &patch, &counts), 0);
            assert_true(counts.added != UINT32_MAX && counts.added <= 25);
            pairs += old.mode || new.mode;
        }
        assert_int_equal(buf_append(&patch, "# end: binary, not in this patch\n\0", 34), 0);
        temp_file(&temp, "patch", buf_bytes(&patch), 0600);
        for (unsigned i = 0; i < FILES; i++) {
            put(&temp, &tree[i], 0);
        }
        int status = git(&temp, "--verbose");
        if (status == 127) {
            unit_skip("git", "git is not installed");
        }
        if (status != 0) {
            print_message("%s", buf_bytes(&patch));
        }
        assert_int_equal(status, 0);
        buf_done(&patch);
        check_and_remove(&temp, tree, 1, /* is_mode_lost= */ false);
        for (unsigned i = 0; i < FILES; i++) {
            put(&temp, &tree[i], 1);
        }
        assert_int_equal(git(&temp, "--reverse"), 0);
        check_and_remove(&temp, tree, 0, is_mode_lost);
    }
    assert_true(pairs > 300);
    temp_remove(&temp);
}

static const char *patch_of(struct buf *out, const char *path, struct patch_file old,
                            struct patch_file new, struct patch_counts *counts)
{
    uint64_t work = DIFF_WORK;
    buf_clear(out, SIZE_MAX);
    assert_int_equal(patch_write(path, &old, &new, &work, out, counts), 0);
    assert_int_equal(buf_append(out, "", 1), 0);
    return buf_bytes(out);
}

#define TEXT(mode, text) ((struct patch_file){S_IFREG | (mode), sizeof(text) - 1, text})
#define NO_FILE ((struct patch_file){})

static void a_patch_reads_as_git_writes_it(void **)
{
    struct buf out = BUF_EMPTY;
    struct patch_counts counts;
    assert_string_equal(
        patch_of(&out, "a b", TEXT(0644, "1\n2\n3\n4\n5\n6\n7\n8\n9"),
                 TEXT(0600, "1\n2\n3\n4\nfive\n6\n7\n8\n9"), &counts),
        "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -2,7 +2,7 @@\n 2\n 3\n"
        " 4\n-5\n+five\n 6\n 7\n 8\n");
    assert_true(counts.added == 1 && counts.removed == 1);
    assert_string_equal(patch_of(&out, "\351", NO_FILE, TEXT(0755, "x"), &counts),
                        "diff --git \"a/\\351\" \"b/\\351\"\nnew file mode 100755\n--- /dev/null\n"
                        "+++ \"b/\\351\"\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n");
    assert_string_equal(patch_of(&out, "e", TEXT(0644, ""), NO_FILE, &counts),
                        "diff --git a/e b/e\ndeleted file mode 100644\n");
    assert_string_equal(patch_of(&out, "e", TEXT(0644, "x\n"), TEXT(0755, "x\n"), &counts),
                        "diff --git a/e b/e\nold mode 100644\nnew mode 100755\n");
    assert_string_equal(patch_of(&out, "e", TEXT(0644, "x\n"), TEXT(0600, "x\n"), &counts), "");
    buf_done(&out);
}

static void what_no_patch_can_have_is_a_comment(void **)
{
    struct buf out = BUF_EMPTY;
    struct patch_counts counts;
    struct patch_file unread = {S_IFREG | 0644, 2500000000, NULL};
    assert_string_equal(patch_of(&out, "o.png", NO_FILE, TEXT(0644, "\x89PNG\0"), &counts),
                        "# o.png: binary, 5 bytes, not in this patch\n");
    assert_true(counts.added == UINT32_MAX && counts.removed == UINT32_MAX);
    assert_string_equal(patch_of(&out, "o.png", TEXT(0644, "\0"), NO_FILE, &counts),
                        "# o.png: binary, deleted, not in this patch\n");
    assert_string_equal(patch_of(&out, "a\nb", unread, unread, &counts),
                        "# \"a\\nb\": too large for a diff, 2 GB, not in this patch\n");
    assert_string_equal(
        patch_of(&out, "p", TEXT(0644, "x"), (struct patch_file){.mode = S_IFIFO}, &counts),
        "# p: no regular file, 0 bytes, not in this patch\n");
    assert_string_equal(patch_of(&out, "p", TEXT(0644, "\0"), TEXT(0755, "\0"), &counts),
                        "diff --git a/p b/p\nold mode 100644\nnew mode 100755\n");
    assert_string_equal(patch_of(&out, "d", NO_FILE, (struct patch_file){.mode = S_IFDIR}, &counts),
                        "");
    buf_done(&out);
}

/* With one of them, git applies nothing of a patch. */
static void names_that_git_refuses_are_comments(void **)
{
    static const char *const refused[] = {".git/config", "a/.GIT", "git~1/x", ".git .", ".git:x"};
    static const char *const others[] = {".gitx", ".gitignore", "git~2", "a.git", "x~1", "..x"};
    struct buf out = BUF_EMPTY;
    struct patch_counts counts;
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        char expected[80];
        (void)snprintf(expected, sizeof expected,
                       "# %s: git apply refuses this path, 2 bytes, not in this patch\n",
                       refused[i]);
        assert_string_equal(
            patch_of(&out, refused[i], TEXT(0644, "1\n"), TEXT(0644, "2\n"), &counts), expected);
        assert_true(counts.added == 1 && counts.removed == 1);
    }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(*patch_of(&out, others[i], NO_FILE, TEXT(0644, "2\n"), &counts) == 'd');
    }
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_git_refuses_are_comments),
        cmocka_unit_test(git_applies_random_patches_both_ways),
        cmocka_unit_test(a_patch_reads_as_git_writes_it),
        cmocka_unit_test(what_no_patch_can_have_is_a_comment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
