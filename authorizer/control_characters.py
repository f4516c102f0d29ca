"""What a text from a log or a caller must not do to a terminal: end a line, or begin an escape sequence.

Either would let a name forge output. JSON escapes these characters by itself.
"""

from __future__ import annotations

from typing import Final

#: For ``str.translate``: each control character as Python writes it.
ESCAPED: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
ESCAPED.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
