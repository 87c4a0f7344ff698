import pandas as pd
df = pd.DataFrame({"city": ["Lima %d" % i for i in range(10000)], "temp": [(i * 37) % 101 + 0.5 for i in range(10000)],
                   "<b>n</b>": range(10000), "when": pd.date_range("2026-01-01", periods=10000),
                   "gap": [None if i % 3 else i / 10 for i in range(10000)], "big": [2**60 + i for i in range(10000)]})
print("loaded", len(df))
df
