import pytest
from suite_texts import WHOLE

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.suite import Trust

FILE = 'file = "scale.py"'


@pytest.fixture(autouse=True)
def candidate(checkout):
    (checkout / "candidate.py").write_text("from elsewhere import *\n")
    (checkout / "helper.py").write_text("")


def test_a_subject_is_trusted_unless_it_has_a_candidate(read):
    assert read(WHOLE).subjects[0].trust is Trust.FULL
    (subject,) = read(WHOLE.replace(FILE, f'{FILE}\ncandidate = ["candidate.py", "helper.py"]')).subjects
    assert (subject.trust, subject.candidate) == (Trust.NONE, ("candidate.py", "helper.py"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('trust = "none"', "needs the file with run() apart"),
        ('trust = "full"\ncandidate = ["candidate.py"]', 'needs trust = "none"'),
        ('trust = "some"', "trust"),
        ('candidate = ["scale.py"]', "which the candidate must not see"),
        ('candidate = ["./scale.py"]', "which the candidate must not see"),
        ('candidate = ["candidate.py", "scale.py"]', "which the candidate must not see"),
        ('candidate = ["../candidate.py"]', "not a path inside the checkout"),
        ('candidate = ["absent.py"]', "there is no such file"),
    ],
)
def test_mistakes_are_named(read, lines, message):
    with pytest.raises(SuiteError) as caught:
        read(WHOLE.replace(FILE, f"{FILE}\n{lines}"))
    assert any(message in problem for problem in caught.value.problems)


@pytest.mark.parametrize("kind", ["sanitizer", "profile"])
def test_a_tool_that_must_be_in_the_process_is_refused(read, kind):
    text = WHOLE.replace(FILE, f'{FILE}\ncandidate = ["candidate.py"]').replace('"timing"]', f'"timing", "{kind}"]')
    with pytest.raises(SuiteError) as caught:
        read(text)
    assert any(f'"{kind}" cannot be collected in isolation' in problem for problem in caught.value.problems)
