/* All that a result can say of a run: a row for each fact. Of these rows are made the enumeration
 * (run.h), what is taken of the guest's frames and the status line (run.c), the
 * structured result and the record's events (result.c), and with tests/lint/facts.py the
 * schema schema/run_python.output.json and the table of docs/RESULTS.md. To add a fact, add a row
 * where the status line has it, and let run_add() take it from who finds it out.
 *
 * This file is included with a definition of FACT(): the fact, what it means (for the schema and
 * the page), an example of it (for the page), and columns of struct run_row. */

/* --- the value and the error --- */

FACT(RUN_VALUE, "The value of a last-line expression, when it is not None.", "", .name = "value",
     .json = "result", .part = {"value", FORM_TEXT, 17000})
/* The value as JSON text. */
FACT(RUN_JSON, "", "", .part = {"json", FORM_JSON, LIMIT_RESULT_JSON_BYTES})
/* What people see of values: JSON text, see guest/forms.py. */
FACT(RUN_SHOWN, "", "", .part = {"shown", FORM_JSON, LIMIT_VIEW_BYTES})
FACT(RUN_ERROR_TYPE, "", "", .name = "error_type", .json = "error.type",
     .part = {"error_type", FORM_TEXT, 200})
FACT(RUN_ERROR_MESSAGE, "", "", .name = "error_message", .json = "error.message",
     .part = {"error_message", FORM_TEXT, 2200})
FACT(RUN_ERROR_CELL, "", "", .kind = RUN_NUMBER, .name = "error_cell", .json = "error.cell",
     .part = {"error_cell", FORM_DIGITS, 15})
FACT(RUN_ERROR_LINE, "Line of the code of that cell.", "", .kind = RUN_NUMBER, .name = "error_line",
     .json = "error.line", .part = {"error_line", FORM_DIGITS, 15})
/* <cell 3>:4 "source", quoted. */
FACT(RUN_WHERE, "Position at which the call was interrupted or killed.", "", .name = "where",
     .json = "error.where")
FACT(RUN_TRACEBACK, "", "", .name = "traceback", .json = "error.traceback",
     .part = {"traceback", FORM_TEXT, 14000})
FACT(RUN_HINT, "What to do about it.", "", .name = "hint", .json = "error.hint",
     .part = {"hint", FORM_TEXT, 2000})

/* --- what else the status line does not have as it is --- */

/* In front of the output, in brackets. */
FACT(RUN_SESSION, "What is back of the session of an earlier server (`--keep`), and what is not.",
     "", .name = "session_back")
/* Why the code did not begin: a sentence. */
FACT(RUN_REFUSAL, "", "", .name = "refusal", .json = "")
/* Paths. */
FACT(RUN_IMAGES, "", "", .kind = RUN_LIST, .name = "image_files", .json = "",
     .part = {"image", FORM_PATH, LIMIT_PATH_BYTES, LIMIT_IMAGES})
/* Paths that the code itself has touched, a newline after each but the last. */
FACT(RUN_CLAIMS, "", "", .part = {"claims", FORM_JSON, LIMIT_RESULT_JSON_BYTES})
FACT(RUN_CPU_MS, "", "", .kind = RUN_NUMBER, .name = "cpu_ms", .part = {"cpu_ms", FORM_DIGITS, 15})
FACT(RUN_PEAK_BYTES, "Peak resident memory of the interpreter.", "", .kind = RUN_NUMBER,
     .name = "peak_memory_bytes", .part = {"peak_bytes", FORM_DIGITS, 15})

/* --- within "state: ..." --- */

/* undo or restore was carried out: "undid <cell 5>: back to the state after <cell 4>". */
FACT(RUN_BACK, "", "", .name = "went_back.text", .json = "")
/* Nothing: by undo. */
FACT(RUN_BACK_NAME, "The name that was restored.", "", .name = "went_back.name")
FACT(RUN_FILES_BACK,
     "Which files are what they were, and which are not; absent: files were not rolled back.", "",
     .name = "went_back.files")
FACT(RUN_GONE, "Names of lost variables.", "", .name = "gone")
FACT(RUN_OLDER,
     "Names of variables, assigned since, that went back to older values. Objects changed in place "
     "are not listed.",
     "", .name = "older")

/* --- the status line, in its order --- */

/* Otherwise: the state before the first call, of which there are no variables. */
FACT(RUN_LEFT_STATE, "The name of the state that it left.", "before-undo", .name = "went_back.left",
     .line = "to take this back: restore \"{}\"",
     .otherwise = "to have its files back: restore \"{}\"")
FACT(RUN_NAMED_STATES, "Which name was dropped, and which are left.",
     "\"raw\" dropped, left: \"clean\"", .name = "named_states", .line = "named states: {}")
/* "saved", "not saved", "not yet saved". */
FACT(RUN_SAVED, "What became of the requested checkpoint.", "not saved", .name = "checkpoint.saved",
     .json = "", .line = "checkpoint: {}")
FACT(RUN_SAVE_NAME, "", "clean", .name = "checkpoint.name", .line = " as \"{}\"", .goes_on = true)
FACT(RUN_UNSAVED, "Why it was not saved.", "not enough memory or processes",
     .name = "checkpoint.why", .json = "checkpoint.reason", .line = ": {}", .goes_on = true)
FACT(RUN_SAVE_DROPPED, "The oldest name, dropped because the session had 8 names.", "raw",
     .name = "checkpoint.dropped", .line = "; the oldest, \"{}\", was dropped", .goes_on = true)
/* Those that no checkpoint has. Otherwise: the call was waiting until its limit. */
FACT(RUN_THREADS, "Number of lost threads.", "2", .kind = RUN_NUMBER, .name = "threads_lost",
     .line = "threads: {} lost",
     .otherwise = "threads: {} lost; what needs them hangs: make its objects anew, or `reset`")
FACT(RUN_NATIVE_LOST,
     "Threads of native libraries that a restored state or a branch does not have.",
     "polars 4, zmq 2 (context)", .name = "native_threads_lost",
     .line =
         "native threads lost: {}; what needs them hangs: make its objects anew, or `reset` and "
         "import it again")
FACT(RUN_PROCESSES, "Number of killed child processes.", "2", .kind = RUN_NUMBER,
     .name = "processes_killed", .line = "processes: {} killed")
FACT(RUN_KILLED, "The commands of the first of them.", "sleep 100, \"python -m flask run\"",
     .name = "killed", .line = "killed: {}")
FACT(RUN_MEMORY, "A warning: memory is short, or no checkpoint of the state can be kept.",
     "memory: 900 of 1024 MiB in use", .name = "memory", .line = "{}")
FACT(RUN_WAITED, "What the call waited for before its code began.", "waited 25 s for <cell 4>",
     .name = "waited", .line = "{}")
FACT(RUN_STOPPED_JOB, "Number of the job that `undo`, `restore` or `reset` of this call stopped.",
     "1", .kind = RUN_NUMBER, .name = "stopped_job", .line = "this call stopped job {}")
FACT(RUN_BEFORE, "What happened to the state since the last result.",
     "changes after <cell 3> are lost", .name = "before", .line = "since the last result: {}")
FACT(RUN_CAPPED, "The call asked for more than `--max-timeout`.", "3600",
     .line = "timeout_s: capped at {} s")
FACT(RUN_NETWORK, "Remote hosts that the user is asked about; why one was not reached.",
     "the user allowed api.example.com:443", .name = "network", .line = "network: {}")
FACT(RUN_TOOLS, "Tools of other servers that the code has called.",
     "tracker.create_issue ×1 (0.2 s)", .name = "tools", .line = "tools: {}")
FACT(RUN_NOT_UNDONE, "Their calls that a restored state does not take back.",
     "not undone: tracker.create_issue ×1", .name = "not_undone", .line = "{}")
FACT(RUN_DEGRADED, "Protections that are weaker on this machine; said once.", "memory",
     .name = "degraded", .line = "isolation: degraded ({}), see sandpiper doctor")
FACT(RUN_PROTECTED_NOTE, "What of the workspace is not protected; mostly said once.",
     "12 hard-linked files or package directories are read-only", .name = "protected_note",
     .line = "workspace: {}")
FACT(
    RUN_PROTECTED_NEWS, "Protected names of the workspace that were created or changed.",
    ".vscode/tasks.json", .name = "protected_news",
    .line = "changed settings: {} (programs outside the sandbox act on these files; tell the user)")
/* "+plot.png", "~data.csv", "-old.txt". */
FACT(RUN_FILES,
     "Files that the call created (+), changed (~) or removed (-), as far as they are checked.",
     "+plot.png (16 kB) ~data.csv (1.2 MB) -old.txt", .kind = RUN_LIST, .name = "files", .json = "",
     .part = {"file", FORM_TEXT, LIMIT_PATH_BYTES + 40, 40}, .line = "files: {}")
FACT(RUN_FILES_MORE, "How many more files changed than are listed.", "3", .kind = RUN_NUMBER,
     .name = "files_more", .part = {"files_more", FORM_DIGITS, 15}, .line = " and {} more",
     .goes_on = true)
/* Of each file: bytes, digits; "symlink", "hard link", "directory", "9 files" or nothing. */
FACT(RUN_FILE_SIZES, "", "", .kind = RUN_LIST, .name = "file_sizes", .json = "",
     .part = {"file_size", FORM_DIGITS, 15, 40})
FACT(RUN_FILE_KINDS, "", "", .kind = RUN_LIST, .name = "file_kinds", .json = "",
     .part = {"file_kind", FORM_TEXT, 20, 40})
FACT(RUN_FILES_STAY, "The state was restored, and the files that the call changed were not.",
     "files are as the call left them; `undo` reverts them", .name = "files_stay", .line = "{}")
FACT(RUN_FILES_NOTE, "Files that undo will not bring back, or, once, which are not checked.",
     "not kept for undo: big.bin", .name = "files_note", .line = "{}")
/* "+df", "~x", "-y". */
FACT(RUN_VARS,
     "Variables that the call created (+), rebound (~) or removed (-), with type and shape.",
     "+df DataFrame 1000x8 ~x int -y", .kind = RUN_LIST, .name = "variables", .json = "",
     .part = {"var", FORM_TEXT, 400, 20}, .line = "vars: {}")
FACT(RUN_VARS_MORE, "How many more variables changed than are listed.", "3", .kind = RUN_NUMBER,
     .name = "variables_more", .part = {"vars_more", FORM_DIGITS, 15}, .line = " and {} more",
     .goes_on = true)
/* Of each variable: "DataFrame 1000x8", or nothing. */
FACT(RUN_VAR_KINDS, "", "", .kind = RUN_LIST, .name = "variable_kinds", .json = "",
     .part = {"var_kind", FORM_TEXT, 400, 20})
/* Sentences of the server, and those of the guest in quotes. */
FACT(RUN_NOTES, "What else is to be known of the call.",
     "wait_s is ignored: the server runs with --wait off", .kind = RUN_LIST, .name = "notes",
     .part = {"note", FORM_NOTE, 400, 16}, .line = "note: {}")
