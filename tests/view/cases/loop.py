class Html:
    def _repr_html_(self): return "<p>before</p><script>setTimeout(() => { for (;;); }, 100)</script>"
display(Html())
print("real result")
