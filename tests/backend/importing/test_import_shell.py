"""Reading pasted shell text without a shell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import PresetError
from backend.importing.shell import fill, read_statements, redacted


def words(text: str) -> list[str]:
    statements = read_statements(text)
    assert len(statements) == 1
    return [fill(word, {}) for word in statements[0].words]


def test_quotes_continuations_and_comments_are_read_as_a_shell_does() -> None:
    text = 'vllm serve m \\\n  --a \'x y\' \\  \n  --b="1 \\" 2" # why\n'
    assert words(text) == ["vllm", "serve", "m", "--a", "x y", '--b=1 " 2']


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --a 1\r\n",
        "vllm serve m \\\r\n  --a 1\r\n",
        "vllm serve m ^\r\n  --a 1",
        "vllm serve m `\n  --a 1",
        "$ vllm serve m \\\n>   --a 1",
        "(venv) user@host:~/models$ vllm serve m --a 1",
        "[root@node1 ~]# vllm serve m --a 1",
        "PS C:\\Users\\me> vllm serve m --a 1",
        "```bash\nvllm serve m --a 1\n```",
        "vllm\u00a0serve m —a 1",
        "vllm serve m\n--a 1",
        "vllm serve m \\\n  # the size\n  --a 1",
        "\ufeffvllm serve m --a 1",
    ],
)
def test_what_copying_does_to_a_command_does_no_harm(text: str) -> None:
    assert words(text) == ["vllm", "serve", "m", "--a", "1"]


def test_curly_quotes_are_quotes() -> None:
    assert words("vllm serve “a b” --x ‘c d’") == ["vllm", "serve", "a b", "--x", "c d"]


def test_json_in_double_quotes_keeps_its_inner_quotes() -> None:
    assert words('x --c "{\\"a\\": 1}"')[2] == '{"a": 1}'


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("vllm serve $(cat model.txt)", "$(cat model.txt)"),
        ("vllm serve `cat model.txt`", "`cat model.txt`"),
        ('vllm serve m --x "$(date)"', "$(date)"),
        ("vllm serve m | tee log", "| tee log"),
        ("cd /srv; vllm serve m", "; vllm serve m"),
        ("cd /srv && vllm serve m", "&& vllm serve m"),
        ("vllm serve m & echo done", "& echo done"),
        ("(vllm serve m)", "(vllm serve m)"),
        ("vllm serve m < input", "< input"),
        ("cat << EOF", "<< EOF"),
        ("vllm serve ${MODEL%/}", "${MODEL%/}"),
        ("vllm serve 'm", "'m"),
    ],
)
def test_what_only_a_shell_could_answer_is_refused_with_its_piece(text: str, piece: str) -> None:
    with pytest.raises(PresetError) as caught:
        read_statements(text)
    assert piece in caught.value.message
    assert caught.value.message.startswith("Line 1: ")


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(PresetError, match="Line 3"):
        read_statements("# one\nA=1\nvllm serve m | tee x")


def test_redirections_and_the_last_ampersand_are_left_out() -> None:
    (statement,) = read_statements("nohup vllm serve m --a 1 > server.log 2>&1 &\n")
    assert statement.words == ("nohup", "vllm", "serve", "m", "--a", "1")
    assert statement.left_out == ("> server.log", "2>&1", "&")


def test_a_place_holder_of_some_documentation_is_a_word() -> None:
    assert words("x --env TOKEN=<your token>") == ["x", "--env", "TOKEN=<your token>"]


def test_variables_are_filled_in_and_single_quotes_keep_them() -> None:
    (statement,) = read_statements("x $A ${B:-two} '$A' \"$A/$C\" $")
    assert [fill(word, {"A": "one"}) for word in statement.words] == ["x", "one", "two", "$A", "one/$C", "$"]


def test_secrets_are_blotted_out() -> None:
    assert redacted("login --token hf_abcdefghijkl") == "login --token …"
    assert redacted("API_KEY=abc --max-num-batched-tokens 2048") == "API_KEY=… --max-num-batched-tokens 2048"


def test_long_text_is_refused() -> None:
    with pytest.raises(PresetError, match="64 KiB"):
        read_statements("x" * 70_000)
    with pytest.raises(PresetError, match="words"):
        read_statements("x " * 3_000)


def test_variables_that_double_each_other_are_stopped() -> None:
    word = read_statements("x $A$A$A")[0].words[1]
    assert len(fill(word, {"A": "y" * 2000})) == 6000
    with pytest.raises(PresetError, match="longer than 8192"):
        fill(word, {"A": "y" * 4000})


@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_categories=("Cc", "Co", "Cs", "Zs", "Zl", "Zp", "Cf")), min_size=1
        ),
        min_size=1,
        max_size=8,
    )
)
def test_quoted_words_come_back(given_words: list[str]) -> None:
    plain = [word.translate({ord(char): "'" for char in "“”„‘’`"}) for word in given_words]
    plain = [word for word in plain if "—" not in word and "–" not in word and "\u200b" not in word] or ["x"]
    assert words("x " + " ".join(shlex.quote(word) for word in plain)) == ["x", *plain]


@given(st.text(max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    try:
        read_statements(text)
    except PresetError as err:
        assert err.message
