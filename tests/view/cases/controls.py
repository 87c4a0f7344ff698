# One of each thing that can be pressed, and what a screen reader must name.
import struct, zlib
import pandas
class Html:
    def _repr_html_(self): return "<b>bold</b><script>1</script>"
class Picture:
    def _repr_png_(self):
        chunk = lambda name, data: struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
        return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 9, 1, 8, 0, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress(bytes(10))) + chunk(b'IEND', b''))
for number in range(40): print("line", number)
display(pandas.DataFrame({"city": ["Lima %d" % n for n in range(70)]}))
display(Html())
display(Picture())
1 / 0
