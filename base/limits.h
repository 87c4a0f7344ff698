#pragma once

/* Every ceiling of the server, with its unit and its reason. What a client or a guest can make grow
 * has one; what a user may set has its default here and its flag in cli/flags.c. */

/* --- protocol --- */
#define LIMIT_LINE_BYTES (16UL << 20)      /* line from the client: parsed in 0.2 s */
#define LIMIT_JSON_DEPTH 256U              /* nesting of a message; jansson recurses to dump it */
#define LIMIT_JSON_VALUES 500000UL         /* of a message: each takes up to 400 bytes */
#define LIMIT_CALLS_IN_FLIGHT 256U         /* tools/call requests of one connection */
#define LIMIT_OUT_QUEUE_BYTES (64UL << 20) /* unread responses; with more, no request is read */
#define LIMIT_LINE_OUT_BYTES (10UL << 20)  /* longest line to the client: SDKs close at more */
#define LIMIT_BATCH_MESSAGES 256U          /* of a batch: its responses are sent together */
#define LIMIT_PROGRESS_FIRST_MS 1000U      /* of a call: shorter ones need none */
#define LIMIT_PROGRESS_EVERY_MS 5000U      /* clients abandon calls after a minute without any */
#define LIMIT_PROGRESS_GAP_MS 500U         /* between two progress notifications of a call */
#define LIMIT_ELICITATION_MS 600000U       /* for a user to respond to an elicitation */
#define LIMIT_TRACE_BYTES 8192UL           /* of a part of a trace context, as W3C Baggage has it */

/* --- tool servers (--tools) --- */
#define LIMIT_TOOL_LINE_BYTES (65UL << 20)   /* a line of one: a result, and its envelope */
#define LIMIT_TOOL_RESULT_BYTES (64UL << 20) /* of one call, as JSON */
#define LIMIT_TOOL_QUEUE_BYTES (256UL << 20) /* results that code has not read */
#define LIMIT_TOOL_ARGUMENTS_BYTES (4UL << 20)
#define LIMIT_TOOL_PIECE_BYTES (256UL << 10) /* of a result, in one frame */
#define LIMIT_TOOL_UNSENT_BYTES (8UL << 20)  /* to one server; then calls wait for their turn */
#define LIMIT_TOOL_UNREAD_BYTES (64UL << 20) /* of all kinds; then the server is ended */
#define LIMIT_TOOL_CALLS 16U                 /* at one server at a time */
#define LIMIT_TOOL_WAITING 1024U             /* of one session: that wait for their turn */
#define LIMIT_TOOL_REFUSALS 3U               /* by the user in one cell; then it asks no more */
#define LIMIT_TOOL_ASKED 100U                /* times that the user responds in one; the same */
#define LIMIT_TOOL_ROUNDS 16U                /* in which one call asks for input */
#define LIMIT_TOOL_INPUT_BYTES (1UL << 20)   /* of one round: the state is sent back */
#define LIMIT_TOOL_SILENCE_MS 10000U         /* of a server that has just been started */
#define LIMIT_TOOL_STARTS 5U                 /* in LIMIT_TOOL_STARTS_MS; then calls fail at once */
#define LIMIT_TOOL_STARTS_MS 60000U
#define LIMIT_TOOL_PAGES 64U     /* of its list of tools */
#define LIMIT_TOOL_TOOLS 2000U   /* in them */
#define LIMIT_TOOL_NONSENSE 100U /* lines that are no messages; then it is ended */

/* --- guest channel --- */
#define LIMIT_FRAME_IN_BYTES (8UL << 20)   /* one frame from a guest: rejected before allocating */
#define LIMIT_FRAME_OUT_BYTES (80UL << 20) /* one frame to a guest: the longest code and stdin */
#define LIMIT_FRAME_FIELDS 4096U           /* fields of a frame */

/* --- run_python --- */
#define LIMIT_SESSIONS 16U             /* interpreters at once */
#define LIMIT_SESSION_QUEUE 64U        /* calls waiting in one session */
#define LIMIT_OVERTAKEN_MS 2000U       /* a run or an install that takes longer is overtaken */
#define LIMIT_TASK_AFTER_MS 2000U      /* a run that takes longer becomes a task */
#define LIMIT_TASK_MS 3600000UL        /* a task is kept for its time limit and as long as this */
#define LIMIT_OUTPUT_HEAD_BYTES 6400UL /* what a result keeps of the output's start, */
#define LIMIT_OUTPUT_TAIL_BYTES 9600UL /* and of its end, which says how the code ended */
#define LIMIT_RESULT_CHARS 24000UL     /* value, traceback and changes of a result together */
#define LIMIT_OVERFLOW_PART 4U         /* an overflow file may take this part of the disk */
/* The value as JSON, which programs read: whole or absent, and no deeper than parsers like it. */
#define LIMIT_RESULT_JSON_BYTES (64UL << 10)
#define LIMIT_RESULT_JSON_DEPTH 64U
/* What people see of the values of a run, as JSON, and the results whose data is kept for views. */
#define LIMIT_VIEW_BYTES (100UL << 10)
#define LIMIT_VIEWS 32U
/* Changes under review have parts of LIMIT_VIEW_BYTES: the lists whose parts are kept, what the
 * parts of one take, and the diff of a file among others. */
#define LIMIT_REVIEWS 4U
#define LIMIT_REVIEW_BYTES (8UL << 20)
#define LIMIT_REVIEW_FILE_BYTES (1UL << 20)
#define LIMIT_VIEW_LIBRARY_PART_BYTES (512UL << 10) /* of a library's script, in one result */
#define LIMIT_VIEW_LIBRARY_PARTS 64U
/* Name of an overflow file. Twice that is enough for its path. */
#define LIMIT_OVERFLOW_NAME_BYTES 320UL
#define LIMIT_INTERRUPT_GRACE_MS 1000U /* from KeyboardInterrupt to SIGKILL */
/* A signal handler of the interpreter writes where the code hangs: time between two reads, and time
 * in all, as a busy machine is slow. */
#define LIMIT_TRACE_STEP_MS 10U
#define LIMIT_TRACE_MS 500U
#define LIMIT_MEMORY_GROWTH_BYTES_MS (16UL << 20) /* faster than code fills memory, in a ms */
#define LIMIT_MEMORY_LOOK_FIRST_MS 10U            /* most calls are over by then */
#define LIMIT_MEMORY_LOOK_LEAST_MS 2U             /* between two checks of the memory in use */
#define LIMIT_MEMORY_LOOK_MOST_MS 500U
#define LIMIT_MEMORY_REPORT_MS 50U /* for an interpreter to report where it is; then asks again */

#define LIMIT_IMAGES 4U             /* in a result */
#define LIMIT_IMAGES_BYTES 640000UL /* all of them, so that base64 and text stay under 900 kB */
#define LIMIT_IMAGE_SIDE 1568U      /* pixels: clients scale larger ones down, or refuse them */

/* --- files --- */
#define LIMIT_PATH_BYTES 4096UL       /* PATH_MAX, path_resolution(7) */
#define LIMIT_FILE_BYTES (64UL << 20) /* largest file written whole or with its lines counted */
#define LIMIT_EDIT_BYTES                                                                           \
    (16UL << 20)                      /* largest file edited: in memory twice, searched in a turn  \
                                       */
#define LIMIT_SCAN_BYTES (1UL << 30)  /* searched for a line in a larger one: half a second */
#define LIMIT_UTF16_BYTES (8UL << 20) /* largest UTF-16 file shown: it is decoded whole */
#define LIMIT_IPYNB_BYTES (8UL << 20) /* the same of a notebook that is shown as its cells */
#define LIMIT_DOCUMENT_BYTES (9UL << 20) /* text of a document: convert.py's bound, and a note */
#define LIMIT_TEXT_BYTES 16000UL         /* of a file's text in one result: a page for a model */
#define LIMIT_RESOURCE_BYTES 640000UL    /* of a file that a client reads by itself, and its JSON */
#define LIMIT_RESOURCES 200U             /* in one page of the list */
#define LIMIT_RESOURCE_DIRECTORIES 200U  /* opened for one page */
#define LIMIT_RESOURCE_LINKS 8U          /* in a result */
#define LIMIT_RESOURCE_DEPTH 16U         /* of directories searched for resources */
#define LIMIT_BASE64_BYTES 480000UL      /* of a file's bytes in one result: 640 kB of base64 */

/* --- packages --- */
#define LIMIT_INSTALLER_LINE_BYTES (1UL << 20)  /* one reply of an installer */
#define LIMIT_INSTALLER_LINES_BYTES (8UL << 20) /* all its output, progress included */
#define LIMIT_PACKAGE_DEPTH 64U                 /* nested directories of a layer */
#define LIMIT_PACKAGE_FILES 1000000U            /* of all layers: inodes are the host's */
#define LIMIT_DISK_SPARE_BYTES (256UL << 20)    /* of the host's disk that installers leave free */

/* --- install_package --- */
#define LIMIT_INSTALL_QUEUE 16U             /* installs that wait for the one that runs */
#define LIMIT_INSTALL_STEP_MS 600000U       /* of an installer that fetches, builds or unpacks */
#define LIMIT_INSTALL_ROUNDS 8U             /* of building what building needs */
#define LIMIT_INSTALL_LOG_BYTES (8UL << 20) /* kept of pip's output, half of it the end */

/* --- record --- */
#define LIMIT_RECORD_PART_BYTES (1UL << 20)  /* one output or content in it */
#define LIMIT_RECORD_PIECES 10000U           /* changes between stdout and stderr in one output */
#define LIMIT_RECORD_LINE_BYTES (64UL << 20) /* of a record that is read */
#define LIMIT_RECORD_LEAST_BYTES (1UL << 20) /* of --record-size */
#define LIMIT_RECORD_CAUSED 100U             /* connections and calls in it for each cell */
#define LIMIT_RECORD_JSON_DEPTH 64U

/* --- keep --- */
#define LIMIT_KEEP_LEAST_BYTES (1UL << 20) /* of --keep-size */

/* --- container init --- */
#define LIMIT_CONTAINER_INIT_REST_S 5 /* to clean up after the server; engines kill after 10 */

/* --- defaults of flags --- */
#define DEFAULT_PACKAGES_BYTES (4UL << 30)
#define DEFAULT_UNDO_FILES_BYTES (64UL << 20) /* in init's memory */
#define DEFAULT_MEMORY_BYTES (1UL << 30) /* on a small machine; else a quarter of its memory, */
#define DEFAULT_MEMORY_MOST_BYTES (8UL << 30)   /* at most this, */
#define DEFAULT_MEMORY_STEP_BYTES (256UL << 20) /* in these steps */
#define DEFAULT_DISK_BYTES (1UL << 30)
#define DEFAULT_DISK_INODES 200000UL
#define DEFAULT_RECORD_BYTES (256UL << 20)
#define DEFAULT_KEEP_BYTES (256UL << 20)
#define DEFAULT_KEEP_DAYS 30U
#define DEFAULT_PIDS 256U
#define DEFAULT_TIMEOUT_MS 300000U /* longer than the wait: slow code goes on as a job */
#define DEFAULT_MAX_TIMEOUT_MS 3600000U
#define DEFAULT_WAIT_MS 25000U /* several clients are unreliable from 30 s on */
#define DEFAULT_JOBS 4U

/* --- bounds of flags --- */
#define LIMIT_TIMEOUT_MS 86400000U            /* a day: more is a wrong unit */
#define LIMIT_MEMORY_LEAST_BYTES (32UL << 20) /* an interpreter and its zygote */
#define LIMIT_DISK_LEAST_BYTES (1UL << 20)
#define LIMIT_PIDS_LEAST 8U /* init, zygote, session and a few */
/* Beyond --pids, for what forks interpreters between calls: code that uses up all processes keeps
 * no other session, branch or checkpoint from its start. */
#define LIMIT_PIDS_SPARE 8U
#define LIMIT_PIDS_MOST 4194304U /* PID_MAX_LIMIT, proc(5) */
