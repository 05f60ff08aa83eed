"""backend.chat.store: what is written is read again, by its owner and by nobody else."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.chat import store as chat_store
from backend.chat.request_timing import EngineFigures, RequestTiming
from backend.chat.store import ChatSettings, ChatStore, Conversation, Message, MessageRole, RunState
from backend.database import Database
from backend.errors import PanelError
from backend.state_folder import new_id

TIMING = RequestTiming(1.0, 2.0, 3.0, 10, 4, 20, EngineFigures(80.0, 25.0, 0.0, 500.0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "panel.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[ChatStore]:
    database = Database(path)
    await database.open()
    yield ChatStore(database)
    await database.close()


def question(text: str = "Why?") -> Message:
    return Message(new_id(), MessageRole.USER, text, RunState.DONE, 100.0)


def answer(text: str = "Because.", state: RunState = RunState.DONE) -> Message:
    return Message(
        new_id(),
        MessageRole.ASSISTANT,
        text,
        state,
        101.0,
        reasoning="Hm.",
        timing=TIMING,
        stop_reason="stop",
        error="an error",
        hint="a hint",
        engine_title="Small",
    )


async def texts(store: ChatStore, conversation: Conversation) -> list[str]:
    return [message.text for message in (await store.history(conversation)).messages]


async def test_messages_come_back_whole_and_in_order(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    messages = (question(), answer(), question("Übung 你好 \x00 🙂"), answer(state=RunState.STOPPED))
    await store.add(conversation, *messages)
    assert (await store.history(conversation)).messages == messages


async def test_a_browser_has_one_conversation_and_gets_it_again(store: ChatStore) -> None:
    first = await store.open_conversation("ana")
    assert await store.open_conversation("ana") == first
    assert (await store.open_conversation("ben")).id != first.id


async def test_settings_are_kept(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    assert conversation.settings == ChatSettings()
    settings = ChatSettings("Be brief.", 0.25, 512, "engine77")
    await store.save_settings(conversation, settings)
    assert (await store.open_conversation("ana")).settings == settings


async def test_saving_brings_one_message_up_to_date_and_no_other(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    growing, other = answer("Bec", RunState.STREAMING), answer("Other")
    await store.add(conversation, other, growing)
    await store.save(conversation, replace(growing, text="Because", state=RunState.DONE))
    stored = (await store.history(conversation)).messages
    assert [(message.text, message.state) for message in stored] == [
        ("Other", RunState.DONE),
        ("Because", RunState.DONE),
    ]


async def test_a_conversation_with_another_owners_name_on_it_gives_nothing_and_changes_nothing(
    store: ChatStore,
) -> None:
    anas = await store.open_conversation("ana")
    message = answer("Ana's")
    await store.add(anas, message)
    forged = replace(anas, owner="ben")
    assert (await store.history(forged)).messages == ()
    await store.save(forged, replace(message, text="Ben was here"))
    await store.save_settings(forged, ChatSettings("Ben was here"))
    await store.clear(forged)
    with pytest.raises(PanelError, match="does not exist"):
        await store.add(forged, question("Ben was here"))
    assert await texts(store, anas) == ["Ana's"]
    assert (await store.open_conversation("ana")).settings == ChatSettings()


async def test_adding_is_all_or_nothing(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    twice = question()
    with pytest.raises(PanelError):
        await store.add(conversation, twice, twice)
    assert await texts(store, conversation) == []


async def test_clearing_leaves_no_byte_of_the_text_in_any_file(store: ChatStore, path: Path) -> None:
    conversation = await store.open_conversation("ana")
    other = await store.open_conversation("ben")
    await store.add(conversation, question("xyzzy-secret " * 2000), answer("xyzzy-secret"))
    await store.add(other, question("plover"))
    assert any(b"xyzzy-secret" in file.read_bytes() for file in path.parent.iterdir())
    await store.clear(conversation)
    assert await texts(store, conversation) == []
    assert await texts(store, other) == ["plover"]
    for file in path.parent.iterdir():
        assert b"xyzzy-secret" not in file.read_bytes(), file


async def test_saving_a_message_that_was_cleared_does_not_bring_it_back(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    growing = answer("Bec", RunState.STREAMING)
    await store.add(conversation, growing)
    await store.clear(conversation)
    await store.save(conversation, growing)
    assert await texts(store, conversation) == []


async def test_answers_that_nobody_writes_any_more_are_marked_and_keep_their_text(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    await store.add(conversation, question(), answer("half an ans", RunState.STREAMING), answer("done"))
    assert await store.interrupt_streaming() == 1
    states = [(message.text, message.state) for message in (await store.history(conversation)).messages]
    assert states[1:] == [("half an ans", RunState.INTERRUPTED), ("done", RunState.DONE)]
    assert await store.interrupt_streaming() == 0


async def test_a_long_conversation_is_read_from_its_end(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = await store.open_conversation("ana")
    await store.add(conversation, *(question(str(n)) for n in range(chat_store.MESSAGES_READ + 5)))
    history = await store.history(conversation)
    assert history.has_earlier
    assert len(history.messages) == chat_store.MESSAGES_READ
    assert history.messages[-1].text == str(chat_store.MESSAGES_READ + 4)


async def test_a_heavy_conversation_is_read_up_to_a_number_of_characters(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    await store.add(conversation, *(question("x" * (chat_store.CHARS_READ // 4)) for _ in range(6)))
    history = await store.history(conversation)
    assert (len(history.messages), history.has_earlier) == (4, True)


async def test_one_message_is_read_however_long_it_is(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    await store.add(conversation, question("x" * (chat_store.CHARS_READ + 1)))
    assert len((await store.history(conversation)).messages) == 1


async def test_only_conversations_without_words_are_forgotten(store: ChatStore) -> None:
    empty = await store.open_conversation("passer-by")
    written = await store.open_conversation("ana")
    prompted = await store.open_conversation("ben")
    await store.add(written, question())
    await store.save_settings(prompted, ChatSettings("Be brief."))
    assert await store.forget_unused(older_than_s=60) == 0
    assert await store.forget_unused(older_than_s=-60) == 1
    assert (await store.open_conversation("ana")).id == written.id
    assert (await store.open_conversation("ben")).id == prompted.id
    assert (await store.open_conversation("passer-by")).id != empty.id


async def test_a_timing_that_cannot_be_read_is_blank(store: ChatStore) -> None:
    conversation = await store.open_conversation("ana")
    await store.add(conversation, answer())
    await store._database.run(lambda connection: connection.execute("UPDATE messages SET timing = '{'"))
    assert (await store.history(conversation)).messages[0].timing is None
