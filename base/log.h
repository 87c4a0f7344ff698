#pragma once

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE, LOG_LEVEL_COUNT };

/* Reads SANDPIPER_LOG: a level for all modules, then MODULE=LEVEL entries ("warn,sandbox=trace").
 * Unknown words are ignored, each with one warning line. Default: warn. */
void log_init(void);

/* One line on stderr: "level module text". Writes it at once if poll(2) says that this will not
 * block; else drops and counts it, because a client that does not read our stderr must not stop us.
 * Never pass guest output, code or file contents below LOG_TRACE. */
__attribute__((format(printf, 3, 4))) void log_line(enum log_level level, const char *module,
                                                    const char *fmt, ...);

#define log_error(module, ...) log_line(LOG_ERROR, module, __VA_ARGS__)
#define log_warn(module, ...) log_line(LOG_WARN, module, __VA_ARGS__)
#define log_info(module, ...) log_line(LOG_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) log_line(LOG_DEBUG, module, __VA_ARGS__)
#define log_trace(module, ...) log_line(LOG_TRACE, module, __VA_ARGS__)
