#include "tools/content/magic.h"

#include <string.h>

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
