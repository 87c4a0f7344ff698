#pragma once

/* Where the code in a box finds things. A box with a root of its own has them all at the same places
 * (box_view_full), one without sees the host's folders where they lie (room.h). Part of sandbox.h. */

struct box_view {
    const char *work; /* the workspace, which is the current directory */
    const char *tmp;
    const char *home;
    const char
        *output; /* whole outputs: code reads them, only init writes there; NULL: an installer's */
    const char *run;  /* the guest's own program */
    const char *data; /* the folder with those of --mount; NULL: each is where the host has it */
    const char *packages; /* the folder with the layers 1 … N; NULL: where box_packages has them */
    const char *stage;    /* of errands, like all that follow; NULL: where box_packages has it */
    const char *cache;
    const char *find_links;
    const char *constraint;
    const char *certificate;
};

extern const struct box_view box_view_full;
