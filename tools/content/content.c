#include "tools/content/content.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/text.h"

/* Signatures from the formats' specifications; of two or three bytes only where code checks what
 * follows. */
static const struct {
    unsigned offset;
    unsigned size;
    const char *bytes;
    enum magic_kind kind;
    const char *name;
} signatures[] = {
    {0, 8, "\x89PNG\r\n\x1a\n", MAGIC_IMAGE, "PNG image"},
    {0, 3, "\xff\xd8\xff", MAGIC_IMAGE, "JPEG image"},
    {0, 6, "GIF87a", MAGIC_IMAGE, "GIF image"},
    {0, 6, "GIF89a", MAGIC_IMAGE, "GIF image"},
    {8, 4, "WEBP", MAGIC_IMAGE, "WebP image"},
    {0, 4, "II*\0", MAGIC_PICTURE, "TIFF image"},
    {0, 4, "MM\0*", MAGIC_PICTURE, "TIFF image"},
    {4, 8, "ftypavif", MAGIC_PICTURE, "AVIF image"},
    {4, 8, "ftypheic", MAGIC_PICTURE, "HEIC image"},
    {0, 12, "\0\0\0\x0cjP  \r\n\x87\n", MAGIC_PICTURE, "JPEG 2000 image"},
    {0, 4, "\0\0\1\0", MAGIC_PICTURE, "ICO image"},
    {0, 4, "8BPS", MAGIC_PICTURE, "Photoshop image"},
    {0, 5, "%PDF-", MAGIC_BINARY, "PDF document"},
    {0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", MAGIC_BINARY, "old Microsoft Office document"},
    {38, 10, "mimetypeap", MAGIC_BINARY, "OpenDocument or EPUB document (ZIP)"},
    {30, 8, "mimetype", MAGIC_BINARY, "OpenDocument or EPUB document (ZIP)"},
    {30, 19, "[Content_Types].xml", MAGIC_BINARY, "Office document (.docx, .xlsx, .pptx)"},
    {30, 8, "META-INF", MAGIC_BINARY, "Java archive"},
    {0, 4, "PK\3\4", MAGIC_BINARY, "ZIP archive"},
    {0, 4, "PK\5\6", MAGIC_BINARY, "empty ZIP archive"},
    {0, 3, "\x1f\x8b\x08", MAGIC_BINARY, "gzip-compressed data"},
    {0, 3, "BZh", MAGIC_BINARY, "bzip2-compressed data"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     MAGIC_BINARY, "xz-compressed data"},
    {0, 4, "\x28\xb5\x2f\xfd", MAGIC_BINARY, "Zstandard-compressed data"},
    {0, 4, "\x04\x22\x4d\x18", MAGIC_BINARY, "LZ4-compressed data"},
    {0, 6, "7z\xbc\xaf\x27\x1c", MAGIC_BINARY, "7-Zip archive"},
    {0, 6, "Rar!\x1a\x07", MAGIC_BINARY, "RAR archive"},
    {257, 5, "ustar", MAGIC_BINARY, "tar archive"},
    {0, 8, "!<arch>\n", MAGIC_BINARY, "ar archive or Debian package"},
    {0, 4, "\xed\xab\xee\xdb", MAGIC_BINARY, "RPM package"},
    {0, 4,
     "\x7f"
     "ELF",
     MAGIC_BINARY, "ELF program or library"},
    {0, 4, "\0asm", MAGIC_BINARY, "WebAssembly module"},
    {0, 4, "\xca\xfe\xba\xbe", MAGIC_BINARY, "Java class or Mach-O file"},
    {0, 4, "\xcf\xfa\xed\xfe", MAGIC_BINARY, "Mach-O program or library"},
    {0, 16, "SQLite format 3\0", MAGIC_BINARY, "SQLite database"},
    {8, 4, "DUCK", MAGIC_BINARY, "DuckDB database"},
    {0, 8, "\x89HDF\r\n\x1a\n", MAGIC_BINARY, "HDF5 file"},
    {0, 6, "\x93NUMPY", MAGIC_BINARY, "NumPy array (.npy)"},
    {0, 4, "PAR1", MAGIC_BINARY, "Parquet file"},
    {0, 6, "ARROW1", MAGIC_BINARY, "Arrow or Feather file"},
    {0, 4, "FEA1", MAGIC_BINARY, "Feather file"},
    {0, 3, "ORC", MAGIC_BINARY, "ORC file"},
    {0, 4, "Obj\1", MAGIC_BINARY, "Avro file"},
    {0, 4, "CDF\1", MAGIC_BINARY, "NetCDF file"},
    {0, 4, "CDF\2", MAGIC_BINARY, "NetCDF file"},
    {0, 10, "MATLAB 5.0", MAGIC_BINARY, "MATLAB file"},
    {0, 4, "GGUF", MAGIC_BINARY, "GGUF model"},
    {0, 2, "\x80\x02", MAGIC_BINARY, "Python pickle"},
    {0, 2, "\x80\x03", MAGIC_BINARY, "Python pickle"},
    {0, 2, "\x80\x04", MAGIC_BINARY, "Python pickle"},
    {0, 2, "\x80\x05", MAGIC_BINARY, "Python pickle"},
    {128, 4, "DICM", MAGIC_BINARY, "DICOM image"},
    {8, 4, "WAVE", MAGIC_BINARY, "WAV audio"},
    {8, 4, "AVI ", MAGIC_BINARY, "AVI video"},
    {4, 8, "ftypM4A ", MAGIC_BINARY, "M4A audio"},
    {4, 4, "ftyp", MAGIC_BINARY, "MP4 or QuickTime video"},
    {0, 4, "\x1a\x45\xdf\xa3", MAGIC_BINARY, "Matroska or WebM video"},
    {0, 3, "ID3", MAGIC_BINARY, "MP3 audio"},
    {0, 4, "fLaC", MAGIC_BINARY, "FLAC audio"},
    {0, 4, "OggS", MAGIC_BINARY, "Ogg audio or video"},
    {0, 4, "wOFF", MAGIC_BINARY, "WOFF font"},
    {0, 4, "wOF2", MAGIC_BINARY, "WOFF2 font"},
    {0, 4, "OTTO", MAGIC_BINARY, "OpenType font"},
    {0, 5, "\0\1\0\0\0", MAGIC_BINARY, "TrueType font"},
    {0, 4, "glTF", MAGIC_BINARY, "glTF model"},
};

enum { CONTROL_SHARE = 32 };

/* Text has no NUL, and of the other control characters hardly any but those for layout and colour.
 * In compressed or random bytes every tenth is a control character. */
static bool is_text(const char *bytes, size_t size)
{
    size_t controls = 0;
    for (size_t i = 0; i < size && i < MAGIC_BYTES; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '\0') {
            return false;
        }
        controls += (c < ' ' && !strchr("\t\n\r\f\b\033", c)) || c == 0x7f;
    }
    return controls <= size / CONTROL_SHARE;
}

/* A signature of letters may also begin a text. */
static bool is_plain(const char *bytes, size_t size)
{
    while (size > 0 && *bytes >= ' ' && *bytes <= '~') {
        bytes++;
        size--;
    }
    return size == 0;
}

/* Formats with signatures too short to suffice: checks the sizes in their headers as well. */
static const char *short_names(const unsigned char *p, size_t size, enum magic_kind *ret_kind)
{
    if (size >= 18 && p[0] == 'B' && p[1] == 'M' && p[15] == 0 && p[16] == 0 && p[17] == 0) {
        *ret_kind = MAGIC_PICTURE; /* the size of the second header is below 256 */
        return "BMP image";
    }
    *ret_kind = MAGIC_BINARY;
    if (size >= 64 && p[0] == 'M' && p[1] == 'Z') {
        return "Windows program or library";
    }
    return NULL;
}

struct magic magic_of(const char *bytes, size_t size)
{
    bool text = is_text(bytes, size);
    for (unsigned i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        size_t end = signatures[i].offset + signatures[i].size;
        bool sure = !text || signatures[i].bytes[0] == '%' ||
                    !is_plain(signatures[i].bytes, signatures[i].size);
        if (sure && size >= end &&
            memcmp(bytes + signatures[i].offset, signatures[i].bytes, signatures[i].size) == 0) {
            return (struct magic){signatures[i].kind, signatures[i].name};
        }
    }
    if (size >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0) &&
        (size < 4 || bytes[2] || bytes[3])) {
        return (struct magic){MAGIC_UTF16, "UTF-16 text"};
    }
    if (text) {
        return (struct magic){MAGIC_TEXT, NULL};
    }
    enum magic_kind kind = MAGIC_BINARY;
    const char *name = short_names((const unsigned char *)bytes, size, &kind);
    return (struct magic){kind, name};
}

/* --- sizes of images --- */

static uint32_t big(const unsigned char *p, unsigned size)
{
    uint32_t value = 0;
    while (size-- > 0) {
        value = value << 8 | *p++;
    }
    return value;
}

static uint32_t little(const unsigned char *p, unsigned size)
{
    uint32_t value = 0;
    while (size-- > 0) {
        value = value << 8 | p[size];
    }
    return value;
}

/* Walks from marker to marker up to the start of frame, ITU-T T.81, B.1. */
static bool measure_jpeg(const unsigned char *p, size_t size, uint32_t *ret_width,
                         uint32_t *ret_height)
{
    for (size_t at = 2; at + 9 < size && p[at] == 0xff;) {
        unsigned marker = p[at + 1];
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
            marker != 0xcc) {
            *ret_height = big(p + at + 5, 2);
            *ret_width = big(p + at + 7, 2);
            return true;
        }
        at += marker == 0xff ? 1 : 2 + big(p + at + 2, 2);
    }
    return false;
}

/* RFC 9649, sections 2.5 to 2.7. */
static bool measure_webp(const unsigned char *p, size_t size, uint32_t *ret_width,
                         uint32_t *ret_height)
{
    if (size < 30) {
        return false;
    }
    if (memcmp(p + 12, "VP8X", 4) == 0) {
        *ret_width = little(p + 24, 3) + 1;
        *ret_height = little(p + 27, 3) + 1;
        return true;
    }
    if (memcmp(p + 12, "VP8L", 4) == 0) {
        uint32_t bits = little(p + 21, 4);
        *ret_width = (bits & 0x3fff) + 1;
        *ret_height = (bits >> 14 & 0x3fff) + 1;
        return true;
    }
    *ret_width = little(p + 26, 2) & 0x3fff;
    *ret_height = little(p + 28, 2) & 0x3fff;
    return memcmp(p + 12, "VP8 ", 4) == 0;
}

bool magic_measure(const char *bytes, size_t size, uint32_t *ret_width, uint32_t *ret_height)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (size >= 24 && memcmp(bytes, "\x89PNG", 4) == 0) {
        *ret_width = big(p + 16, 4);
        *ret_height = big(p + 20, 4);
        return true;
    }
    if (size >= 10 && memcmp(bytes, "GIF8", 4) == 0) {
        *ret_width = little(p + 6, 2);
        *ret_height = little(p + 8, 2);
        return true;
    }
    if (size >= 12 && memcmp(bytes, "RIFF", 4) == 0) {
        return measure_webp(p, size, ret_width, ret_height);
    }
    return size > 2 && p[0] == 0xff && p[1] == 0xd8 && measure_jpeg(p, size, ret_width, ret_height);
}

/* --- whether images are whole --- */

/* The CRC of a PNG chunk, ISO/IEC 15948, annex D. table: of crc_table(). */
static uint32_t crc(const uint32_t table[256], const unsigned char *p, size_t size)
{
    uint32_t value = UINT32_MAX;
    for (; size > 0; size--) {
        value = table[(value ^ *p++) & 0xff] ^ value >> 8;
    }
    return ~value;
}

static void crc_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (unsigned bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
        }
    }
}

/* Each chunk is whole, and the last one ends both the image and the file. */
static bool is_whole_png(const unsigned char *p, size_t size)
{
    enum { AROUND = 12 }; /* length, type, CRC */
    uint32_t table[256];
    size_t at = 8;
    crc_table(table);
    while (size - at >= AROUND) {
        size_t length = big(p + at, 4);
        if (length > size - at - AROUND ||
            crc(table, p + at + 4, length + 4) != big(p + at + 8 + length, 4)) {
            return false;
        }
        if (memcmp(p + at + 4, "IEND", 4) == 0) {
            return at + AROUND + length == size;
        }
        at += AROUND + length;
    }
    return false;
}

/* How many bytes a table of colours takes, by the byte that describes it, GIF89a, section 18. */
static size_t colours(unsigned flags)
{
    return flags & 0x80 ? 3U << ((flags & 7) + 1) : 0;
}

/* From block to block, and in each from piece to piece, to a trailer that is the last byte. */
static bool is_whole_gif(const unsigned char *p, size_t size)
{
    size_t at = 13 + colours(p[10]);
    while (at + 1 < size) {
        if (p[at] == 0x2c) { /* an image: its place, its colours, the size of its codes */
            at += at + 9 < size ? 11 + colours(p[at + 9]) : size;
        } else if (p[at] == 0x21) { /* an extension */
            at += 2;
        } else {
            return false;
        }
        while (at < size && p[at] != 0) {
            at += 1U + p[at];
        }
        at++;
    }
    return at + 1 == size && p[at] == 0x3b;
}

bool magic_is_whole(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (size < 24) {
        return false;
    }
    if (memcmp(bytes, "\x89PNG", 4) == 0) {
        return is_whole_png(p, size);
    }
    if (memcmp(bytes, "GIF8", 4) == 0) {
        return is_whole_gif(p, size);
    }
    if (memcmp(bytes, "RIFF", 4) == 0) {
        return little(p + 4, 4) <= size - 8;
    }
    return p[0] == 0xff && p[size - 2] == 0xff && p[size - 1] == 0xd9;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *content_text(const char *text, size_t size)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", rpc_text(text, size));
}

json_t *content_image(const void *bytes, size_t size, const char *mime)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    if (content_base64_encode(bytes, size, &out) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:o, s:s}", "type", "image", "data",
                     json_stringn(buf_bytes(&out), buf_size(&out)), "mimeType", mime);
}

static const struct {
    const char *magic;
    size_t size;
    const char *mime;
} image_types[] = {
    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
    {"\xff\xd8\xff", 3, "image/jpeg"},
    {"GIF8", 4, "image/gif"},
};

const char *content_image_type(const char *bytes, size_t size)
{
    for (unsigned i = 0; i < sizeof image_types / sizeof *image_types; i++) {
        if (size >= image_types[i].size &&
            memcmp(bytes, image_types[i].magic, image_types[i].size) == 0) {
            return image_types[i].mime;
        }
    }
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0
               ? "image/webp"
               : NULL;
}

bool content_image_fits(const char *bytes, size_t size)
{
    uint32_t width = 0;
    uint32_t height = 0;
    return size <= LIMIT_IMAGES_BYTES && content_image_type(bytes, size) &&
           magic_is_whole(bytes, size) && magic_measure(bytes, size, &width, &height) &&
           width > 0 && height > 0 && width <= LIMIT_IMAGE_SIDE && height <= LIMIT_IMAGE_SIDE;
}

void content_result(struct rpc_call *call, const char *text, size_t size, bool is_error)
{
    content_end(call, json_pack("[o]", content_text(text, size)), text, size, is_error);
}

void content_end(struct rpc_call *call, json_t *content, const char *text, size_t size,
                 bool is_error)
{
    json_t *structured = !is_error && rpc_call_wants_structured(call)
                             ? json_pack("{s:o}", "text", rpc_text(text, size))
                             : NULL;
    rpc_call_result(call, content, structured, is_error);
}

void content_refuse(struct rpc_call *call, const char *fmt, ...)
{
    char text[FAIL_TEXT + WORD_BYTES + 256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    content_result(call, text, strlen(text), true);
}

void content_no_sandbox(struct rpc_call *call, const struct fail *why)
{
    content_refuse(call, "The sandbox is not available: %s.", fail_text(why));
}

const char *content_size(uint64_t bytes, char out[16])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    if (bytes < 1000) {
        (void)snprintf(out, 16, "%u B", (unsigned)bytes);
        return out;
    }
    unsigned unit = 0;
    for (size /= 1000; size >= 999.5 && unit < 3; unit++) {
        size /= 1000;
    }
    (void)snprintf(out, 16, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return out;
}

int content_bytes_place(uint64_t offset, size_t shown, uint64_t size, const char *further,
                        struct buf *text)
{
    unsigned long long next = offset + shown;
    buf_appendf(text, "\n[bytes %llu-%llu of %llu", (unsigned long long)offset, next - 1,
                (unsigned long long)size);
    if (next < size) {
        buf_appendf(text, "; continue with offset=%llu%s", next, further);
    }
    return buf_error(text);
}

int content_no_bytes(const char *path, uint64_t offset, uint64_t size, struct buf *text)
{
    word_append(text, path, strlen(path));
    return buf_appendf(text, " has %llu byte%s; there is no byte at offset %llu.",
                       (unsigned long long)size, size == 1 ? "" : "s", (unsigned long long)offset);
}

int content_read(int fd, uint64_t offset, size_t size, struct buf *out)
{
    char *space = NULL;
    int r = buf_reserve(out, size, &space);
    ssize_t have = r < 0 ? r : fd_pread_all(fd, space, size, offset);
    buf_commit(out, have > 0 ? (size_t)have : 0);
    return have < 0 ? (int)have : 0;
}

int content_base64_encode(const void *bytes, size_t size, struct buf *out)
{
    const unsigned char *in = bytes;
    char *space = NULL;
    size_t length = content_base64_size(size);
    int r = buf_reserve(out, length, &space);
    if (r < 0) {
        return r;
    }
    for (char *at = space; size > 0; at += 4) {
        size_t taken = size < 3 ? size : 3;
        uint32_t group = (uint32_t)in[0] << 16 | (taken > 1 ? (uint32_t)in[1] << 8 : 0) |
                         (taken > 2 ? in[2] : 0);
        at[0] = alphabet[group >> 18];
        at[1] = alphabet[group >> 12 & 63];
        at[2] = '=';
        at[3] = '=';
        if (taken > 1) {
            at[2] = alphabet[group >> 6 & 63];
        }
        if (taken > 2) {
            at[3] = alphabet[group & 63];
        }
        in += taken;
        size -= taken;
    }
    buf_commit(out, length);
    return 0;
}

enum { NO_DIGIT = 64, MEDIA_TYPE_MOST = 300 };

/* Inverts the alphabet. */
static void make_digits(unsigned char digits[256])
{
    memset(digits, NO_DIGIT, 256);
    for (unsigned i = 0; i < NO_DIGIT; i++) {
        digits[(unsigned char)alphabet[i]] = (unsigned char)i;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t content_base64_begin(const char *text, size_t size)
{
    static const char begin[] = "data:";
    static const char end[] = ";base64";
    size_t most = size < MEDIA_TYPE_MOST ? size : MEDIA_TYPE_MOST;
    const char *comma = memchr(text, ',', most);
    size_t length = comma ? (size_t)(comma - text) : 0;
    return length + 1 >= sizeof begin + sizeof end - 1 &&
                   strncasecmp(text, begin, sizeof begin - 1) == 0 &&
                   strncasecmp(comma - (sizeof end - 1), end, sizeof end - 1) == 0
               ? length + 1
               : 0;
}

int content_base64_decode(const char *text, size_t size, unsigned char *bytes, size_t *ret_size)
{
    unsigned char *out = bytes;
    unsigned char values[256];
    uint32_t group = 0;
    unsigned digits = 0; /* in the group */
    unsigned padding = 0;
    make_digits(values);
    for (size_t i = 0; i < size; i++) {
        if (is_space(text[i])) {
            continue;
        }
        if (text[i] == '=' && digits >= 2 && digits + padding < 4) {
            padding++;
            continue;
        }
        unsigned digit = values[(unsigned char)text[i]];
        if (digit == NO_DIGIT || padding > 0) {
            return -EINVAL;
        }
        group = group << 6 | digit;
        if (++digits == 4) {
            *out++ = (unsigned char)(group >> 16);
            *out++ = (unsigned char)(group >> 8);
            *out++ = (unsigned char)group;
            digits = 0;
            group = 0;
        }
    }
    if (digits == 1 || (padding > 0 && digits + padding != 4)) {
        return -EINVAL;
    }
    if (digits >= 2) {
        group <<= 6 * (4 - digits);
        *out++ = (unsigned char)(group >> 16);
    }
    if (digits == 3) {
        *out++ = (unsigned char)(group >> 8);
    }
    *ret_size = (size_t)(out - bytes);
    return 0;
}
