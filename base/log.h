#pragma once
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE, LOG_LEVEL_COUNT };

/* Reads SANDPIPER_LOG: a level for all rooms, then ROOM=LEVEL entries ("warn,sandbox=trace").
 * Unknown words are ignored, each with one warning line. Default: warn. */
void log_init(void);

bool log_enabled(enum log_level level, const char *room);

/* One line on stderr: "level room text". Written with one write when poll(2) says that it will not
 * block; else the line is dropped and counted, because a host that does not read our stderr must
 * not stop us. Never pass guest output, code or file contents below LOG_TRACE. */
__attribute__((format(printf, 3, 4))) void log_line(enum log_level level, const char *room,
                                                    const char *fmt, ...);

#define log_error(room, ...) log_line(LOG_ERROR, room, __VA_ARGS__)
#define log_warn(room, ...) log_line(LOG_WARN, room, __VA_ARGS__)
#define log_info(room, ...) log_line(LOG_INFO, room, __VA_ARGS__)
#define log_debug(room, ...) log_line(LOG_DEBUG, room, __VA_ARGS__)
#define log_trace(room, ...) log_line(LOG_TRACE, room, __VA_ARGS__)
