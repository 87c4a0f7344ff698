#include "sandbox/programs/common/crowd.h"

#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "sandbox/programs/common/objects.h"
#include "sandbox/programs/common/processes.h"

/* The kernel limits the buffers of all connections of the machine together, tcp(7): from a
 * sixteenth of its memory on it takes from each. While they have half of that, a quarter of it is
 * too much for one sandbox. */
static bool has_too_many_buffers(const struct processes *processes, uint64_t bytes)
{
    enum { SHARE = 16 * 4 };
    struct sysinfo info;
    uint64_t share = sysinfo(&info) < 0 ? UINT64_MAX : info.totalram / SHARE * info.mem_unit;
    return bytes > share && objects_network_pages(processes) > share * 2 / (uint64_t)getpagesize();
}

/* The machine may have only so many files open, fs.file-max in proc(5). While half of them are, a
 * quarter is too much for one sandbox. */
static bool has_too_many_files(const struct processes *processes)
{
    char text[96] = "";
    if (pread(processes->files_fd, text, sizeof text - 1, 0) <= 0) {
        return false;
    }
    char *at = text;
    uint64_t opened = strtoull(at, &at, 10);
    (void)strtoull(at, &at, 10);
    uint64_t most = strtoull(at, &at, 10);
    return opened > most / 2 && objects_has_files(processes, most / 4);
}

uint64_t crowd_bytes(const struct processes *processes, uint64_t sockets, uint64_t limit)
{
    uint64_t bytes = sockets * OBJECTS_SOCKET_BYTES;
    return has_too_many_buffers(processes, bytes) || has_too_many_files(processes)
               ? limit + bytes + 1
               : 0;
}
