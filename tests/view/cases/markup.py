# Text that would be markup, in every place where text is shown.
import os
class Html:
    def __init__(self, text): self.text = text
    def _repr_html_(self): return self.text
bad = "</pre></script><script>document.body.textContent='FORGED'</script><img src=x onerror=document.body.textContent='FORGED'>"
print(bad, "\x1b]0;title\x07", "‮gnp.exe")
open("</p><script>alert(1)</script>".replace("/", "_"), "w").close()
kept = type(bad.replace("/", ""), (), {})()
globals()["‮name"] = 1
display(Html("<template><script>alert(1)</script></template><iframe srcdoc='<script>parent.FORGED=1</script>'></iframe>ok"))
raise ValueError(bad)
