/* Files, folders, texts. */
#include "files.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/text.h"

static void folders_are_made_with_those_above(void **state)
{
    (void)state;
    const char *path = in_folder("a/b//c/");
    OK(zn_folder_create(path));
    OK(zn_folder_create(path)); /* again is fine */
    assert_true(zn_folder_exists(path));
    make_text("plain", "x");
    FAILS(zn_folder_create(in_folder("plain/below")), ZN_ERR_IO, "plain", "cannot make the folder");
}

static void lists_are_sorted_and_hide_dots(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("list/z")));
    make_text("list/b", "");
    make_text("list/a10", "");
    make_text("list/a2", "");
    make_text("list/.hidden", "");
    char **names;
    size_t n;
    OK(zn_folder_list(in_folder("list"), &names, &n));
    assert_int_equal(n, 4);
    assert_string_equal(names[0], "a10");
    assert_string_equal(names[1], "a2");
    assert_string_equal(names[2], "b");
    assert_string_equal(names[3], "z");
    zn_names_free(names, n);
    FAILS(zn_folder_list(in_folder("gone"), &names, &n), ZN_ERR_IO, "gone", "No such file");
}

static void whole_files_are_read_and_written(void **state)
{
    (void)state;
    size_t n = 300000, got;
    char *data = malloc(n), *back;
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 7);
    const char *path = make_file("whole", data, n);
    OK(zn_file_read(path, n, &back, &got));
    assert_int_equal(got, n);
    assert_memory_equal(back, data, n);
    assert_int_equal(back[n], '\0');
    free(back);
    free(data);
}

static void a_new_file_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("new")));
    const char *path = in_folder("new/file");
    zn_new_file *file;
    OK(zn_new_file_create(path, &file));
    OK(zn_new_file_reserve(file, 3));
    OK(zn_new_file_write(file, "abc", 3, 0));
    assert_false(zn_file_exists(path));
    zn_new_file_destroy(file); /* given up */
    assert_int_equal(n_entries(in_folder("new")), 0);

    OK(zn_new_file_create(path, &file));
    OK(zn_new_file_write(file, "c", 1, 2));
    OK(zn_new_file_write(file, "ab", 2, 0));
    OK(zn_new_file_sync(file));
    OK(zn_new_file_publish(file));
    zn_new_file_destroy(file);
    assert_int_equal(n_entries(in_folder("new")), 1);
    char *data;
    size_t n;
    OK(zn_file_read(path, 3, &data, &n));
    assert_string_equal(data, "abc");
    free(data);
    FAILS(zn_new_file_create(in_folder("gone/file"), &file), ZN_ERR_IO, "gone/file", "cannot create");
}

static void a_short_file_is_an_error(void **state)
{
    (void)state;
    const char *path = make_text("short", "12345");
    int fd;
    uint64_t n;
    char data[8];
    OK(zn_file_open(path, &fd, &n));
    assert_int_equal(n, 5);
    OK(zn_pread_all(fd, path, data, 4, 1));
    FAILS(zn_pread_all(fd, path, data, 4, 2), ZN_ERR_IO, path, "1 bytes short");
    close(fd);
    FAILS(zn_file_open(test_folder, &fd, &n), ZN_ERR_INPUT, test_folder, "not a regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    FAILS(zn_file_open(in_folder("pipe"), &fd, &n), ZN_ERR_INPUT, "pipe", "not a regular file");
}

static void quoted_text_is_json(void **state)
{
    (void)state;
    zn_text text;
    zn_text_init(&text);
    zn_text_add(&text, "%d,", 7);
    zn_text_add_quoted(&text, "a\"\\\n\x01\xc3\xa9");
    for (int i = 0; i < 100; i++)
        zn_text_add(&text, "%s", "0123456789");
    OK(zn_text_status(&text));
    assert_int_equal(text.n_bytes, strlen(text.data));
    assert_memory_equal(text.data, "7,\"a\\\"\\\\\\u000a\\u0001\xc3\xa9\"0123456789", 33);
    zn_text_fini(&text);
}

static void what_cannot_be_looked_at_is_not_absent(void **state)
{
    (void)state;
    bool found;
    char name[300];
    OK(zn_folder_create(in_folder("looked-at")));
    OK(zn_folder_holds(test_folder, "looked-at", &found));
    assert_true(found);
    OK(zn_folder_holds(test_folder, "gone", &found));
    assert_false(found);
    memset(name, 'x', sizeof name - 1); /* longer than a name can be */
    name[sizeof name - 1] = '\0';
    FAILS(zn_folder_holds(test_folder, name, &found), ZN_ERR_IO, test_folder, "cannot look at it: File name too long");
}

static void shown_names_fit_one_line(void **state)
{
    (void)state;
    assert_string_equal(zn_shown("plain").text, "plain");
    assert_string_equal(zn_shown("a\nb\x7f").text, "a?b?");
    char name[400];
    memset(name, 'x', sizeof name);
    name[159] = '\0';
    assert_string_equal(zn_shown(name).text, name); /* fits exactly */
    for (size_t i = 0; i + 1 < sizeof name; i++)    /* two-byte characters, cut between them */
        name[i] = i % 2 ? '\xa9' : '\xc3';
    name[sizeof name - 1] = '\0';
    struct zn_shown shown = zn_shown(name);
    assert_int_equal(strlen(shown.text), 159);
    assert_string_equal(shown.text + 156, "...");
}

/* Those that a process writes stay, also where it is another open file of this one. */
static void left_temporary_files_are_removed(void **state)
{
    (void)state;
    zn_new_file *file;
    OK(zn_folder_create(in_folder("left")));
    make_text("left/.data.bin.4711-0.tmp", "half of it");
    make_text("left/.data.mask.4711-0.tmp", "");
    make_text("left/data.tmp", "a person's");
    make_text("left/.hidden", "a person's");
    OK(zn_new_file_create(in_folder("left/model.bin"), &file));
    OK(zn_new_file_write(file, "whole", 5, 0));
    OK(zn_folder_remove_left(in_folder("left")));
    assert_int_equal(n_entries(in_folder("left")), 3);
    OK(zn_new_file_sync(file));
    OK(zn_new_file_publish(file));
    zn_new_file_destroy(file);
    OK(zn_folder_remove_left(in_folder("left")));
    assert_int_equal(n_entries(in_folder("left")), 3);
    assert_true(zn_file_exists(in_folder("left/model.bin")));
    assert_true(zn_file_exists(in_folder("left/data.tmp")));
    OK(zn_folder_remove_left(in_folder("left/nowhere")));
}

/* A process that is killed in the middle leaves its file, and the next one removes it. */
static void what_a_killed_process_left_is_removed(void **state)
{
    (void)state;
    int status;
    OK(zn_folder_create(in_folder("killed")));
    pid_t pid = fork();
    if (pid == 0) {
        zn_new_file *file;
        if (zn_new_file_create(in_folder("killed/data.bin"), &file) != ZN_OK || zn_new_file_write(file, "x", 1, 0) != ZN_OK)
            _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(n_entries(in_folder("killed")), 1);
    OK(zn_folder_remove_left(in_folder("killed")));
    assert_int_equal(n_entries(in_folder("killed")), 0);
}

static void files_that_cannot_be_written_are_told_before(void **state)
{
    (void)state;
    const char *kept = make_text("kept", "text");
    OK(zn_file_check_writable("--log", kept));
    OK(zn_file_check_writable("--log", in_folder("to-be-made")));
    assert_false(zn_file_exists(in_folder("to-be-made")));
    OK(zn_file_check_writable("--log", "/dev/null"));
    FAILS(zn_file_check_writable("--log", in_folder("nowhere/file")), ZN_ERR_USAGE, "--log ", "No such file or directory");
    FAILS(zn_file_check_writable("--trace", in_folder("")), ZN_ERR_USAGE, "--trace ", "Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_made_with_those_above),
        cmocka_unit_test(lists_are_sorted_and_hide_dots),
        cmocka_unit_test(whole_files_are_read_and_written),
        cmocka_unit_test(a_new_file_appears_whole_or_not_at_all),
        cmocka_unit_test(left_temporary_files_are_removed),
        cmocka_unit_test(what_a_killed_process_left_is_removed),
        cmocka_unit_test(files_that_cannot_be_written_are_told_before),
        cmocka_unit_test(a_short_file_is_an_error),
        cmocka_unit_test(what_cannot_be_looked_at_is_not_absent),
        cmocka_unit_test(quoted_text_is_json),
        cmocka_unit_test(shown_names_fit_one_line),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
