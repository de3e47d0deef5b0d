"""Linter and plugin say the same about the examples of every rule and the programs of `examples/`."""

from collections import Counter
from pathlib import Path

import pytest
from mypy import api

from tests.matrix import Found, difference, found_in
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.rules import RULES, rule_name

EXAMPLES = Path(__file__).parent.parent / "examples"
# mypy does not get to plugins where a file does not parse.
UNREADABLE = "unreadable"


def programs() -> dict[str, str]:
    """File name to text: the examples of the rules and the examples of the repository."""
    found = {
        f"{kind}_{rule_name(rule).replace('-', '_')}_{number}.py": text
        for rule in RULES
        for kind, texts in (("bad", rule.BAD), ("good", rule.GOOD))
        for number, text in enumerate(texts)
        if rule_name(rule) != UNREADABLE
    }
    found |= {f"example_{path.name}": path.read_text("utf-8") for path in EXAMPLES.glob("*.py") if path.stem[0] != "_"}
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    """What the linter and the plugin find in all programs."""
    folder = tmp_path_factory.mktemp("programs")
    from_linter: Found = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, text in programs().items():
            Path(name).write_text(text, "utf-8")
        for name, text in programs().items():
            result = check_text(name, text, Modules(), Options())
            from_linter.update({(name, d.span.line, d.rule) for d in result.diagnostics if d.severity != "note"})
        Path("mypy.ini").write_text("[mypy]\nplugins = tilecheck\nignore_missing_imports = true\n", "utf-8")
        out, problem, _ = api.run([*programs(), "--config-file", "mypy.ini", "--no-error-summary"])
        assert not problem
    return from_linter, Counter(set(found_in(out)))


def test_linter_and_plugin_agree(answers: tuple[Found, Found]) -> None:
    linter, plugin = answers
    assert difference(linter, plugin) == ""


def test_both_find_something_for_every_rule(answers: tuple[Found, Found]) -> None:
    named = {rule for _, _, rule in answers[1]}
    assert named >= {rule_name(rule) for rule in RULES} - {UNREADABLE}


def test_correct_programs_are_clean(answers: tuple[Found, Found]) -> None:
    assert not [key for key in answers[1] if key[0].startswith(("good_", "example_"))]
