import re

import pytest
from suite_texts import GATE, HEAD, SUBJECT, WAIVER, WHOLE, WITHOUT_GATES

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.suite import Kind, Limit, Roof, Rule, Severity, Statistic
from flashcore_ci.suite.loader import load


class TestValid:
    def test_everything_arrives(self, read):
        suite = read(WHOLE)
        assert (suite.name, suite.file) == ("tiny", "gates/tiny.toml")
        assert [workload.id for workload in suite.workloads] == ["big-1", "big-2"]
        first = suite.workloads[0]
        assert first.params == (("input", "normal"), ("n", 1))
        assert (first.roof, first.seed, first.tags) == (Roof.MEMORY, 0, ("normal",))
        assert first.collect == (Kind.CORRECTNESS, Kind.TIMING)
        gate = suite.gates[0]
        assert (gate.rule, gate.statistic, gate.min_samples, gate.on) == (Rule.EQUAL, Statistic.VALUE, 1, ("*",))
        assert gate.limits == (Limit(on="*", value=0.0, unit="count", severity=Severity.BLOCKING, why=""),)
        assert suite.protocol.timeouts == ((Kind.CORRECTNESS, 30.5), (Kind.TIMING, 60.0))
        assert suite.ridge.bandwidth == 4.8e12
        assert suite.subjects[0].file == "scale.py"

    def test_every_value_remembers_where_it_came_from(self, read, checkout):
        (checkout / "gates/waivers.toml").write_text(WAIVER)
        sources = dict(read(WHOLE).sources)
        assert sources == {
            "name": "gates/tiny.toml:name",
            "ridge": "gates/tiny.toml:ridge",
            "protocol": "gates/tiny.toml:protocol",
            "subject scale": "gates/tiny.toml:subject[0] (scale)",
            "workload big-1": "gates/tiny.toml:workload[0] (big-{n})",
            "workload big-2": "gates/tiny.toml:workload[0] (big-{n})",
            "gate finite": "gates/tiny.toml:gate[0] (finite)",
            "limit finite *": "gates/tiny.toml:gate[0] (finite).limits[0]",
            "waiver finite big-1": "gates/waivers.toml:waiver[0]",
        }

    def test_a_suite_outside_of_the_checkout_is_named_as_given(self, read, checkout, tmp_path_factory):
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "tiny.toml"
        elsewhere.write_text(WHOLE)
        assert load(elsewhere, root=checkout).file == str(elsewhere)


class TestProblems:
    @pytest.mark.parametrize(
        ("old", "new", "line"),
        [
            ("repeats = 3", "repeat = 3", 'gates/tiny.toml: protocol.repeat: unknown key "repeat" (did you mean "repeats"?)'),
            ("repeats = 3", 'repeats = "3"', 'gates/tiny.toml: protocol.repeats: a whole number is needed, not "3"'),
            ("repeats = 3", "repeats = 0", "protocol.repeats: at least 1 is needed, not 0"),
            ("flops = 989e12", "flops = inf", "ridge.flops: a finite number is needed"),
            (
                "timing = 60",
                "timings = 60",
                'protocol.timeouts.timings: "timings" is not an allowed value (did you mean "timing"?)',
            ),
            ("[[gate]]", "[[gates]]", 'gates: unknown key "gates" (did you mean "gate"?)'),
            ('name = "tiny"', "name = 3", "gates/tiny.toml: name: text in quotes is needed, not 3"),
            ('file = "scale.py"', 'file = "scales.py"', "subject[0] (scale).file: scales.py: there is no such file in"),
            (
                'file = "scale.py"',
                'file = "../scale.py"',
                "subject[0] (scale).file: ../scale.py is not a path inside the checkout",
            ),
            ('file = "scale.py"', 'file = "/dev/null"', "subject[0] (scale).file: /dev/null is not a path inside the checkout"),
            ('file = "scale.py"', 'file = "scale\\u0000.py"', "subject[0] (scale).file: text without a zero byte is needed"),
            (
                'rule = "=="',
                'rule = ">="',
                'gate[0] (finite).rule: ">=" asks for more of "finite/bad-values", but less is better',
            ),
            ('rule = "=="', 'rule = ">="', "gate[0] (finite).limits[0].value: every reading is >= 0, so the gate can never fail"),
            (
                "[[subject]]",
                '[[subject]]\nname = "scale"\nfile = "scale.py"\n[[subject]]',
                'subject[1] (scale): the name "scale" is given twice',
            ),
            (
                'subject = "scale"',
                'subject = "scales"',
                'workload[0] (big-{n}).subject: "scales" is not a [[subject]] (did you mean "scale"?)',
            ),
            (
                'roof = "memory"',
                'roof = "memroy"',
                '(big-{n}).roof: "memroy" is not an allowed value (did you mean "memory"?)',
            ),
            ('roof = "memory"', 'rof = "memory"', '(big-{n}).rof: unknown key "rof" (did you mean "roof"?)'),
            ('roof = "memory"', "seed = -1", "(big-{n}).seed: at least 0 is needed, not -1"),
            ('["correctness", "timing"]', "[]", "(big-{n}).collect: at least 1 value is needed, not []"),
            ('["correctness", "timing"]', '"timing"', "(big-{n}).collect: a list is needed"),
            ('["correctness", "timing"]', '["resources"]', '(big-{n}).collect: "resources" is not collected for workloads'),
            ("each = { n = [1, 2] }", "each = { n = [] }", "(big-{n}).each.n: at least 1 value is needed"),
            (
                "each = { n = [1, 2] }",
                "each = { n = [1, 1] }",
                '(big-{n}).id: the id "big-1" is given twice (also in gates/tiny.toml:workload[0]',
            ),
            (
                "each = { n = [1, 2] }",
                "each = { n = [[1]] }",
                "each.n[0]: a parameter is text, a finite number, true or false",
            ),
            ("each = { n = [1, 2] }", "each = { n = [nan] }", "each.n[0]: a parameter is text"),
            ('id = "big-{n}"', 'id = "big-{m}"', "workload[0] (big-{m}).id: {m} is not given in every case (known: input, n)"),
            ('id = "big-{n}"', 'id = "big {n}"', '"big 1" is not an id: use letters, digits, dot, dash and underscore'),
            (
                'evidence = "correctness"',
                'evidence = "timing"',
                'gate[0] (finite).evidence: "finite/bad-values" comes with the evidence "correctness"',
            ),
            (
                "finite/bad-values",
                "finite/bad-value",
                'gate[0] (finite).metric: unknown metric "finite/bad-value" (did you mean "finite/bad-values"?)',
            ),
            (
                'unit = "count"',
                'unit = "ms"',
                'gate[0] (finite).limits[0].unit: "finite/bad-values" is judged in "count", not "ms"',
            ),
            ('unit = "count"', 'unit = "count", vlaue = 3', '.limits[0].vlaue: unknown key "vlaue" (did you mean "value"?)'),
            ("value = 0", "value = nan", "limits[0].value: a finite number is needed"),
            ('limits = [{ value = 0, unit = "count" }]', "limits = []", "(finite).limits: at least 1 value is needed"),
            ('why = "because"', 'why = ""', "(finite).why: text is needed"),
            (
                'why = "because"',
                'why = "x"\ntags = ["norm"]',
                '(finite).tags: no workload has the tag "norm" (did you mean "normal"?)',
            ),
            ('why = "because"', 'why = "x"\non = ["bog-*"]', '(finite).on: "bog-*" matches no workload'),
            (
                "value = 0, ",
                'value = 0, on = "small", ',
                '(finite).limits[0].on: "small" matches no workload (known: big-1, big-2)',
            ),
            ('id = "finite"', "", "gate[0].id: this key is missing"),
            ('rule = "=="', 'rule = "="', '(finite).rule: "=" is not an allowed value'),
            (
                'rule = "=="',
                'rule = "=="\nstatistic = "relative-std"',
                '(finite).statistic: "finite/bad-values" has one value, so it has no statistic',
            ),
            ("[[gate]]", GATE + "[[gate]]", 'gate[1] (finite).id: the id "finite" is given twice'),
            ("[[workload]]", "[[workload]", "not valid TOML"),
            ("[protocol]", "[[protocol]]", "gates/tiny.toml: protocol: "),
        ],
    )
    def test_each_names_its_key_and_what_was_meant(self, problems, old, new, line):
        assert old in WHOLE
        found = problems(WHOLE.replace(old, new, 1))
        assert any(line in problem for problem in found), found
        assert all(problem.startswith("gates/tiny.toml: ") for problem in found)

    def test_a_suite_with_every_key_wrong_names_all_in_one_go(self, read):
        wrong = re.sub(r"^(\[*)([a-z_]+)(?=]| = )", r"\1\2x", WHOLE, flags=re.MULTILINE).replace("{ value", "{ valuex")
        wrong = wrong.replace("[protocol.timeouts", "[protocolx.timeoutsx")
        with pytest.raises(SuiteError) as error:
            read(wrong)
        lines = wrong.splitlines()
        found = [
            re.fullmatch(r"gates/tiny.toml:(\d+): .*: .*\((did you mean|known)[^)]*\)", line) for line in error.value.problems
        ]
        assert all(found), error.value.problems
        named = {lines[int(each[1]) - 1] for each in found}
        assert named == {line for line in lines if re.match(r"\[*[a-z_.]+x", line)}

    def test_a_misspelt_table_next_to_the_right_one_is_read_too(self, problems):
        more = '\n[protocl]\nrepeat = 3\n[[subjct]]\nnam = "x"\n[build]\nfast_mth = true\n'
        found = "\n".join(problems(WHOLE.replace("roof =", "rof =") + more))
        for words in (
            'protocl: unknown key "protocl"',
            "protocl.repeat: ",
            "subjct[0].nam: ",
            'unknown option "fast_mth"',
            ".rof: ",
        ):
            assert words in found

    def test_a_list_that_is_none(self, problems):
        found = problems("gate = 3\nworkload = [1]\n" + HEAD + SUBJECT)
        assert any("gate: a list is needed" in line for line in found)
        assert any("workload[0]: " in line for line in found)

    def test_all_at_once(self, problems):
        text = (
            WHOLE.replace("repeats", "repeat")
            .replace('roof = "memory"', 'rof = "memory"')
            .replace('subject = "scale"', 'subject = "scales"')
            .replace("finite/bad-values", "finite/bad-value")
            .replace(', unit = "count"', "")
        ) + GATE
        found = "\n".join(problems(text))
        for words in ("protocol.repeat:", ".rof:", '"scales"', "unknown metric", "given twice"):
            assert words in found

    def test_what_is_wrong_with_a_statistic(self, problems):
        gate = GATE.replace("correctness", "timing").replace("finite/bad-values", "cycles/gpu/cold")
        found = problems(WITHOUT_GATES + gate.replace("rule", 'statistic = "value"\nrule').replace('"count"', '"Mcycle"'))
        assert any('"cycles/gpu/cold" has samples, so it needs a statistic' in line for line in found)
        gate = gate.replace("rule", 'statistic = "relative-std"\nrule')
        found = problems(WITHOUT_GATES + gate.replace("rule", "min_samples = 1\nrule"))
        assert any('"cycles/gpu/cold" is judged in "%"' in line for line in found)
        assert any("a spread needs at least 2 samples" in line for line in found)
        found = problems(WITHOUT_GATES + gate.replace("rule =", "min_samples = 6\nrule ="))
        assert any("the gate needs 6 samples, but protocol.timing_processes is 5" in line for line in found)

    def test_static_gates_have_no_roofs_and_know_subjects(self, problems, read):
        gate = GATE.replace("correctness", "build").replace("finite/bad-values", "build/errors")
        read(WITHOUT_GATES + gate)
        found = problems(WITHOUT_GATES + gate.replace("rule", 'roofs = ["memory"]\non = ["scal"]\nrule'))
        assert any('roofs and tags select workloads, but "build" is judged for each subject' in line for line in found)
        assert any('.on: "scal" matches no subject (did you mean "scale"?)' in line for line in found)

    def test_globs_over_entry_functions_wait_for_the_plan(self, read):
        gate = GATE.replace("correctness", "resources").replace("finite/bad-values", "stack/bytes").replace("count", "byte")
        read(WITHOUT_GATES + gate.replace("rule", 'on = ["whatever"]\nrule'))

    def test_a_file_that_is_not_there(self, read, checkout):
        read(WHOLE)
        with pytest.raises(SuiteError, match=r'there is no such file \(did you mean "tiny.toml"') as caught:
            load(checkout / "gates/tinny.toml", root=checkout)
        assert "--suite" in caught.value.fix

    def test_a_file_that_cannot_be_read(self, checkout):
        with pytest.raises(SuiteError, match="cannot be read"):
            load(checkout / "gates", root=checkout)

    @pytest.mark.parametrize(("data", "why"), [(b"\xff", ""), (b"\xef\xbb\xbfname = 'x'", ".*byte order mark: save it as UTF-8")])
    def test_a_file_that_is_no_text(self, checkout, data, why):
        (checkout / "gates/tiny.toml").write_bytes(data)
        with pytest.raises(SuiteError, match=f"not valid TOML{why}"):
            load(checkout / "gates/tiny.toml", root=checkout)


def test_a_second_limit_for_the_same_targets_is_refused(problems):
    rows = '{ on = "big-*", value = 9, unit = "count" }, { on = "big-*", value = 0, unit = "count" }, '
    twice = GATE.replace("limits = [", f"limits = [{rows}")
    assert any('limits[1].on: a limit for "big-*" is given twice' in line for line in problems(WITHOUT_GATES + twice))


def test_a_parameter_of_cases_and_axes_is_refused(problems):
    both = WHOLE.replace("each = {", "cases = [{ n = 7 }]\neach = {")
    assert any("each.n: the parameter is given twice (also in cases)" in line for line in problems(both))


ACCEPTS = """
[accepts]
devices = ["NVIDIA H200"]
driver = { from = "570.1", below = "600" }
tools = { ncu = { from = "2025", below = "2027" } }
max_age_days = 7
"""


def test_a_suite_names_the_evidence_that_it_accepts(read):
    accepts = read(HEAD.replace("[protocol]", f"{ACCEPTS}[protocol]", 1) + WHOLE.removeprefix(HEAD)).accepts
    assert (accepts.devices, accepts.driver.first, accepts.max_age_days) == (("NVIDIA H200",), "570.1", 7)
    assert accepts.tools[0][1].below == "2027"
    assert read(WHOLE).accepts is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"570.1"', '"*"', "accepts.driver.from"),
        ('"570.1"', "570.1", "accepts.driver.from"),
        ('devices = ["NVIDIA H200"]', "devices = []", "accepts.devices"),
        ("max_age_days = 7", "max_age_days = 1e9", "accepts.max_age_days"),
        ("max_age_days = 7", "", "accepts.max_age_days"),
        ("tools = {", "tool = {", "accepts.tool"),
        ('below = "2027"', 'below = "2027", above = "1"', "accepts.tools.ncu.above"),
        ('tools = { ncu = { from = "2025", below = "2027" } }', "tools = {}", "accepts.tools"),
    ],
)
def test_wrong_ranges_are_named(problems, old, new, words):
    text = HEAD.replace("[protocol]", f"{ACCEPTS.replace(old, new)}[protocol]", 1) + WHOLE.removeprefix(HEAD)
    assert any(words in line for line in problems(text)), problems(text)
