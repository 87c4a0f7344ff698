#pragma once

/* Where this is the first process of a pid namespace, as in a container, goes on in a child of it: two
 * duties of a first process are no server's. It reaps orphans, of which `docker exec` and health checks
 * make some. And with its end the kernel kills all others at once (pid_namespaces(7)): it waits until
 * what the server left behind has cleared away, or until nobody has ended for
 * LIMIT_FIRST_PROCESS_REST_S. Signals go on to the child, and its exit status is this process's.
 * Elsewhere, and where there can be no child, nothing happens. To be called before anything is opened. */
void first_process(void);
