#pragma once

/* If this is pid 1 of a pid namespace, as in a container, continues in a child of it: pid 1 has two
 * duties that are no server's. It reaps orphans, of which `docker exec` and health checks make
 * some. And when it exits, the kernel kills all other processes at once (pid_namespaces(7)): so it
 * waits until the processes that the server left behind have cleaned up, or until none has exited
 * for LIMIT_CONTAINER_INIT_REST_S. It forwards signals to the child, and exits with the child's
 * status. Elsewhere, and where it cannot make a child, does nothing. Must be called before anything
 * is opened.
 *
 * tini does not suffice: it exits with the server, so that the kernel kills the cleanup helper in
 * the midst of a large directory, and the containers that users make themselves have none. */
void container_init(void);
