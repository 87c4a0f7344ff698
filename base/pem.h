#pragma once
#include <stddef.h>

struct buf;

/* Appends the certificates of a PEM file (RFC 7468) to out, and nothing else that is in it:
 * comments and attributes stay behind. Returns NULL, or a clause that says why the file cannot be
 * taken: it has a private key, or no certificate. After an error out may have a part. Pure. */
const char *pem_take_certificates(const char *text, size_t size, struct buf *out);
