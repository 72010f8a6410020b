#!/usr/bin/env python3
"""check_prose.py [--fix] [FILE...]: names every line of prose beyond 100 columns, or with --fix breaks it.

Prose is what Markdown has outside code and tables, and what C++ has in comments that have lines to themselves.
Without files, all of the tree's.
"""
import pathlib
import re
import subprocess
import sys

COLUMNS = 100
MARKER = re.compile(r"(?:[-*+]|\d+\.) +")
UNSAFE_START = re.compile(r"(?:[-+*#>|]|\d+\.)")  # a broken line that begins so would mean something else
COMMENT = re.compile(r"(\s*//[/!]?)(?: (.*))?$")


def wrap(words, first, other):
    """Breaks words into lines, the first after `first` and each further one after `other`."""
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > COLUMNS and not UNSAFE_START.match(word):
            lines.append(line)
            line = other + word
        else:
            line += " " + word
    return lines + [line]


def broken(line):
    """Whether a line is too long and can be broken at all."""
    return len(line) > COLUMNS and " " in line.strip()[2:]


def fix_paragraph(paragraph, prefix):
    if not any(broken(prefix + line) for line in paragraph):
        return [prefix + line for line in paragraph]
    indent = re.match(r" *", paragraph[0]).group()
    marker = MARKER.match(paragraph[0][len(indent):])
    hang = indent + (" " * marker.end() if marker else "")
    return wrap(" ".join(paragraph).split(), prefix + indent, prefix + hang)


def paragraphs(lines, prefix, verbatim):
    """Fixes the text of one comment or of a Markdown file."""
    out, paragraph = [], []

    def flush():
        if paragraph:
            out.extend(fix_paragraph(paragraph, prefix))
            paragraph.clear()

    for line in lines:
        if verbatim(line):
            flush()
            out.append((prefix + line).rstrip() if prefix else line)
        else:
            if MARKER.match(line.lstrip()):
                flush()
            paragraph.append(line)
            if line.endswith(("  ", "\\")):
                flush()
    flush()
    return out


class Markdown:
    """What is no prose: blank lines, headings, tables, code, HTML, and images."""

    def __init__(self):
        self.fence = False

    def __call__(self, line):
        text = line.strip()
        if text.startswith("```"):
            self.fence = not self.fence
            return True
        return self.fence or not text or text[0] in "#|<>!" or bool(re.match(r"\[[^]]+\]: ", text))


def in_comment(line):
    return not line.strip() or (line.startswith("  ") and not MARKER.match(line.lstrip()))


def fix_code(lines):
    out, block, prefix = [], [], None

    def flush():
        if block:
            out.extend(paragraphs(block, prefix + " ", in_comment))
            block.clear()

    for line in lines:
        comment = COMMENT.match(line)
        if comment is None or "NOLINT" in line or "clang-format" in line:
            flush()
            out.append(line)
            continue
        if block and comment.group(1) != prefix:
            flush()
        prefix = comment.group(1)
        block.append(comment.group(2) or "")
    flush()
    return out


def files():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name.endswith((".md", ".h", ".cpp", ".cuh", ".cu")) and
            pathlib.Path(name).is_file() and not pathlib.Path(name).is_symlink()]


def main():
    arguments = sys.argv[1:]
    fix = "--fix" in arguments
    given = [name for name in arguments if name != "--fix"]
    status = 0
    for name in given or files():
        text = pathlib.Path(name).read_text()
        lines = text.split("\n")
        fixed = paragraphs(lines, "", Markdown()) if name.endswith(".md") else fix_code(lines)
        if fixed == lines:
            continue
        if fix:
            pathlib.Path(name).write_text("\n".join(fixed))
            continue
        status = 1
        known = set(fixed)
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and line not in known:
                print(f"{name}:{number}: {len(line)} columns of prose; at most {COLUMNS} (--fix breaks it)")
    return status


if __name__ == "__main__":
    sys.exit(main())
