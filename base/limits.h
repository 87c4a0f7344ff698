#pragma once

/* Every ceiling of the server, with its unit and its reason. What a host or a guest can make grow
 * has one; what a user may set has its default here and its flag in cli/options.c. */

/* --- protocol --- */
#define LIMIT_LINE_BYTES (64UL << 20) /* longest line from the host; longer ones are skipped */
#define LIMIT_JSON_DEPTH 256U         /* nesting of a message; jansson recurses while it dumps */
#define LIMIT_CALLS_IN_FLIGHT 256U    /* unanswered tools/call requests of one connection */
#define LIMIT_OUT_QUEUE_BYTES (64UL << 20) /* unread answers, before requests are no longer read */
#define LIMIT_LINE_OUT_BYTES (10UL << 20)  /* longest line to the host: SDK clients close at more */
#define LIMIT_BATCH_MESSAGES 256U     /* of one batch: its answers are held until all are there */
#define LIMIT_PROGRESS_FIRST_MS 1000U /* of a call: shorter ones need none */
#define LIMIT_PROGRESS_EVERY_MS 5000U /* hosts give up on calls that say nothing for a minute */
#define LIMIT_PROGRESS_GAP_MS 500U    /* between two progress notifications of a call */
#define LIMIT_ASK_MS 600000U          /* for a user to answer a question */

/* --- guest channel --- */
#define LIMIT_FRAME_IN_BYTES (8UL << 20)   /* one frame from a guest: rejected before allocating */
#define LIMIT_FRAME_OUT_BYTES (80UL << 20) /* one frame to a guest: the longest code and stdin */
#define LIMIT_FRAME_FIELDS 4096U           /* fields of a frame */

/* --- run_python --- */
#define LIMIT_SESSIONS 16U             /* interpreters at once */
#define LIMIT_SESSION_QUEUE 64U        /* calls waiting in one session */
#define LIMIT_OUTPUT_HEAD_BYTES 6400UL /* of the text in a reply: what is kept of its start, */
#define LIMIT_OUTPUT_TAIL_BYTES 9600UL /* and of its end: the end says how it went */
#define LIMIT_RESULT_CHARS 24000UL     /* value, traceback, what changed: all together in a reply */
#define LIMIT_SPILL_PART 4U            /* a long output's file may take this part of the disk */
#define LIMIT_SPILL_PATH_BYTES 320UL /* of that file: a room, which has at most 256, and its name */
#define LIMIT_INTERRUPT_GRACE_MS 1000U /* from KeyboardInterrupt to SIGKILL */
#define LIMIT_TRACE_STEP_MS 10U        /* between looks at what a signal handler has written of */
#define LIMIT_TRACE_MS 500U            /* where the code hangs; a busy machine takes its time */
#define LIMIT_MEMORY_GROWTH_BYTES_MS (16UL << 20) /* faster than code fills memory, in a ms */
#define LIMIT_MEMORY_LOOK_FIRST_MS 10U            /* most calls are over by then */
#define LIMIT_MEMORY_LOOK_LEAST_MS 2U             /* between two looks at how much is in use */
#define LIMIT_MEMORY_LOOK_MOST_MS 500U
#define LIMIT_MEMORY_ANSWER_MS                                                                     \
    50U /* for an interpreter to say where it is, before it is asked again */

#define LIMIT_IMAGES 4U             /* in a reply */
#define LIMIT_IMAGES_BYTES 640000UL /* all of them, so that base64 and text stay under 900 kB */
#define LIMIT_IMAGE_SIDE_MOST 8000U /* pixels: hosts refuse larger ones */
#define LIMIT_IMAGE_SIDE 1568U      /* pixels: larger ones are made smaller by the hosts' models */

/* --- files --- */
#define LIMIT_PATH_BYTES 4096UL /* PATH_MAX, path_resolution(7) */
#define LIMIT_FILE_BYTES                                                                           \
    (64UL << 20) /* largest file that is written whole, or has its lines counted */
#define LIMIT_SCAN_BYTES                                                                           \
    (1UL << 30) /* how far a larger one is searched for a line: half a second */
#define LIMIT_UTF16_BYTES (8UL << 20) /* largest UTF-16 file that is shown: it is decoded whole */
#define LIMIT_TEXT_BYTES 16000UL /* of a file's text in one answer: a page that a model can take */
#define LIMIT_RESOURCE_BYTES 640000UL /* of a file that a host reads by itself; so is its JSON */
#define LIMIT_RESOURCES 200U          /* in one page of the list, */
#define LIMIT_RESOURCE_FOLDERS 200U   /* folders that are opened for it, */
#define LIMIT_RESOURCE_DEPTH 16U      /* how deep they are looked for */
#define LIMIT_BASE64_BYTES 480000UL   /* of a file's bytes in one answer: 640 kB of base64 */

/* --- packages --- */
#define LIMIT_ERRAND_LINE_BYTES (1UL << 20)  /* one answer of an errand's program */
#define LIMIT_ERRAND_LINES_BYTES (8UL << 20) /* all that it says, progress included */
#define LIMIT_PACKAGE_DEPTH 64U              /* folders in folders of a layer */
#define LIMIT_PACKAGE_FILES 1000000U         /* of all layers: inodes are the host's */
#define LIMIT_DISK_SPARE_BYTES (256UL << 20) /* of the host's disk, that no errand may use up */

/* --- install_package --- */
#define LIMIT_INSTALL_QUEUE 16U             /* installs that wait for the one that runs */
#define LIMIT_INSTALL_STEP_MS 600000U       /* of a box that fetches, builds or unpacks */
#define LIMIT_INSTALL_ROUNDS 8U             /* of building what building needs */
#define LIMIT_INSTALL_LOG_BYTES (8UL << 20) /* of pip's words that are kept, half of it the end */

/* --- a container's first process --- */
#define LIMIT_FIRST_PROCESS_REST_S                                                                 \
    5 /* for what clears away behind the server; engines kill after 10 */

/* --- defaults of flags --- */
#define DEFAULT_PACKAGES_BYTES (4UL << 30)
#define DEFAULT_MEMORY_BYTES (1UL << 30)
#define DEFAULT_DISK_BYTES (1UL << 30)
#define DEFAULT_DISK_INODES 200000UL
#define DEFAULT_PIDS 256U
#define DEFAULT_TIMEOUT_MS 30000U
#define DEFAULT_MAX_TIMEOUT_MS 600000U

/* --- bounds of flags --- */
#define LIMIT_TIMEOUT_MS 86400000U            /* a day: longer is a mistake of units */
#define LIMIT_MEMORY_LEAST_BYTES (32UL << 20) /* an interpreter and its zygote */
#define LIMIT_DISK_LEAST_BYTES (1UL << 20)
#define LIMIT_PIDS_LEAST 8U      /* pid 1, zygote, session and a few */
#define LIMIT_PIDS_MOST 4194304U /* PID_MAX_LIMIT, proc(5) */
