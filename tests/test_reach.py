"""Which files may launch the kernels of which."""

from __future__ import annotations

from tilecheck.reach import reachers


def test_imports_are_followed_through_packages_and_new_names() -> None:
    found = reachers(
        [
            ("pkg/kernels.py", b"@cuda.jit\ndef scale(x): ..."),
            ("pkg/__init__.py", b"from .kernels import scale as s"),
            ("main.py", b"from pkg import s\ns[1, 32](x)"),
            ("other.py", b"import numba"),
        ]
    )
    assert found["pkg/kernels.py"] == {"pkg/__init__.py", "main.py"}
    assert found["main.py"] == frozenset()
    assert found["other.py"] == frozenset()


def test_files_that_import_each_other() -> None:
    found = reachers([("a.py", b"import b"), ("b.py", b"import a")])
    assert found == {"a.py": {"b.py"}, "b.py": {"a.py"}}
