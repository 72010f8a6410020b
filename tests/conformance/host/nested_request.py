"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A request for an extension that is nested half a million levels deep: the broker copies it recursively.
import sys

depth = 500000
raise sys.modules["extensions"].Wanted('{"name": "x", "source": "", "flags": ' + "[" * depth + "]" * depth + "}")
