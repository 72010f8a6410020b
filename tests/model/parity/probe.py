"""Talks with model_probe in frames."""
import os
import struct
import subprocess
import threading


def ask(arguments, frames):
    """The answers of `model_probe ARGUMENTS` to frames of bytes."""
    process = subprocess.Popen([os.environ["MODEL_PROBE"], *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write():
        for frame in frames:
            process.stdin.write(struct.pack("<I", len(frame)) + frame)
        process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    answers = []
    while header := process.stdout.read(4):
        (size,) = struct.unpack("<I", header)
        answers.append(process.stdout.read(size))
    writer.join()
    if process.wait() != 0 or len(answers) != len(frames):
        raise SystemExit(f"model_probe {arguments} ended with {process.returncode} after {len(answers)} answers")
    return answers
