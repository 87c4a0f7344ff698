# All that a person can see: output in order, tables, a figure, HTML, an installed or a made plot.
import base64, struct, zlib
class Html:
    def __init__(self, text): self.text = text
    def _repr_html_(self): return self.text
class Picture:
    def __repr__(self): return "a picture"
    def _repr_png_(self):
        chunk = lambda name, data: struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
        rows = b''.join(b'\0' + bytes(v for x in range(200) for v in (x, y * 3, 128)) for y in range(80))
        return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 200, 80, 8, 2, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
print("progress done ‮ abc <script>alert(1)</script>\nשלום hello")
display(Html("<style>b{color:red}</style><b>styled</b> <i>html</i> <script>document.body.append(' the script ran')</script>"))
print("between")
display(Picture())
max(3, 4)
