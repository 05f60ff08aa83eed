"""What a launch would be, before it is one: the exact command, whether it fits, and what speaks against it."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from backend.engine.engine import Engine
from backend.environment.environments import Environments
from backend.errors import PanelError
from backend.fit.comparison import Figure, compare, learn
from backend.fit.cpu_features import read_cpu_features
from backend.fit.engine_log import read_figures
from backend.fit.estimate import FitEstimate, estimate
from backend.fit.host_overheads import HostOverheads, StartComparison
from backend.fit.inverse import longest_context, most_sequences
from backend.fit.launch_card import assumed_card, fullest_card, key_of
from backend.fit.learned_overhead import LearnedOverhead
from backend.fit.model_facts import ModelFacts, read_model_facts
from backend.fit.preset_wish import wish_of_preset
from backend.fit.wish import CardMemory, FitWish
from backend.gpu.snapshot import GpuSnapshot, GpuView
from backend.host import HostSnapshot
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.models import LocalModel, find_model
from backend.launch.plan import GpuChoice, LaunchSpec
from backend.launch.preset import DFLASH2, Preset
from backend.launcher import Launcher
from backend.preflight.collect import Surroundings, collect
from backend.preflight.examine import examine
from backend.preflight.finding import Finding
from backend.reading import Missing

log = logging.getLogger(__name__)

KEPT_FACTS = 32


@dataclass(frozen=True)
class Fit:
    """The estimate for one launch, or why there is none."""

    estimate: FitEstimate | None = None
    gap: str = ""  # why there is none, in one sentence
    assumed_card: str = ""  # no card could be read: the sum is for an empty one of this name
    longest_context: int | None = None  # tokens
    most_sequences: int | None = None


@dataclass(frozen=True)
class Proposal:
    """One launch as it would be now."""

    preset: Preset  # adjusted
    adjustments: Adjustments
    spec: LaunchSpec | None  # the very object that would run; None where it is refused
    refusal: str  # why, with what to do; "" where it is not
    fit: Fit
    findings: tuple[Finding, ...]
    image: str | None = None  # a docker image that does the same; None: none is known


class Proposals:
    """Makes proposals, and learns from what became of them. Keeps the facts of models it has read."""

    def __init__(
        self,
        *,
        launcher: Launcher,
        environments: Environments,
        models: Path,
        cards: Callable[[], GpuView],
        host: Callable[[], HostSnapshot | None],
        overheads: HostOverheads,
        on_change: Callable[[], None],
    ) -> None:
        self._launcher = launcher
        self._environments = environments
        self._models = models
        self._cards = cards
        self._host = host
        self._overheads = overheads
        self._on_change = on_change
        self._cpu = read_cpu_features()
        self._facts: dict[tuple[str, float], ModelFacts] = {}
        self._compared: set[tuple[str, int]] = set()
        self._comparing: set[asyncio.Task[None]] = set()

    async def consider(
        self,
        name: str,
        adjustments: Adjustments,
        *,
        port: int,
        api_key: SecretStr | None = None,
        system_prompt: str = "",
    ) -> Proposal:
        """What starting this preset so would be. Reads folders and asks ports, off the loop.

        Raises:
            PanelError: there is no such preset, or a changed value cannot be.
        """
        preset = self._launcher.shelf.by_name(name)
        surroundings = Surroundings(
            self._cards(),
            self._host(),
            self._environments.views,
            system_prompt,
            api_key,
            served_names=self._launcher.served_names(besides=name),
        )
        return await asyncio.to_thread(self._consider, preset, adjustments, port, surroundings)

    def _consider(self, preset: Preset, adjustments: Adjustments, port: int, surroundings: Surroundings) -> Proposal:
        adjusted = preset.adjusted(adjustments)
        spec, refusal = None, ""
        chosen: tuple[GpuChoice, ...] = ()
        try:
            chosen = self._launcher.cards_for(adjusted, adjustments)
            spec = self._launcher.plan(
                preset, port=port, adjustments=adjustments, gpus=chosen, api_key=surroundings.api_key
            )
        except PanelError as err:
            refusal = str(err)
        tools = self._tools(adjusted, adjustments)
        fit = self._fit(adjusted, tools, chosen, surroundings)
        situation = collect(
            adjusted,
            tools=tools,
            model=self._model(adjusted),
            facts=self._known_facts(adjusted),
            chosen=tuple(choice.uuid for choice in chosen),
            adjustments=adjustments,
            port=port,
            surroundings=surroundings,
            estimate=fit.estimate,
            estimate_error=fit.gap,
            longest_context=fit.longest_context,
            most_sequences=fit.most_sequences,
        )
        return Proposal(adjusted, adjustments, spec, refusal, fit, examine(situation), _image_of(adjusted, tools))

    # the parts

    def _tools(self, preset: Preset, adjustments: Adjustments) -> EngineTools:
        """The engine that would run it; one that is not known where there is none, so that the rest can be said."""
        try:
            return self._environments.tools(preset.engine, adjustments.environment)
        except PanelError:
            return EngineTools(kind=preset.engine)

    def _model(self, preset: Preset) -> LocalModel | None:
        try:
            return find_model(self._models, preset.model.name)
        except PanelError:
            return None

    def _fit(self, preset: Preset, tools: EngineTools, chosen: Sequence[GpuChoice], surroundings: Surroundings) -> Fit:
        model = self._model(preset)
        if model is None:
            return Fit(gap=f"the model {preset.model.name} is not on this machine")
        try:
            facts = self._read_facts(model)
            card, assumed = self._card(preset, tools, chosen, surroundings)
            if card is None:
                return Fit(gap="no card's memory can be read, and the preset names no card")
            wish = self._wish(preset, tools)
            found = estimate(facts, wish, card)
            return Fit(found, "", assumed, longest_context(facts, wish, card), most_sequences(facts, wish, card))
        except PanelError as err:
            return Fit(gap=str(err))

    def _wish(self, preset: Preset, tools: EngineTools) -> FitWish:
        guesser = preset.speculation.model if preset.speculation else None
        draft = self._read_facts(find_model(self._models, guesser)) if guesser else None
        return wish_of_preset(preset, version=tools.vllm, draft=draft, cpu=self._cpu)

    def _card(
        self, preset: Preset, tools: EngineTools, chosen: Sequence[GpuChoice], surroundings: Surroundings
    ) -> tuple[CardMemory | None, str]:
        """The memory it would run in, and the name of a card that was assumed."""
        if preset.engine is EngineKind.CPU:
            return self._main_memory(preset, tools, surroundings.host), ""
        wanted = {choice.uuid for choice in chosen}
        snapshots = [
            card.snapshot for card in surroundings.cards.cards if card.snapshot and card.snapshot.uuid in wanted
        ]
        known = fullest_card(snapshots, self._learned(preset, tools, snapshots))
        if known is not None:
            return known, ""
        name = preset.card.name if preset.card else ""
        return assumed_card(preset, self._overheads.learned(key_of(preset, tools, name))), name

    def _main_memory(self, preset: Preset, tools: EngineTools, host: HostSnapshot | None) -> CardMemory | None:
        if host is None or isinstance(host.memory_total_bytes, Missing) or isinstance(host.memory_used_bytes, Missing):
            return None
        learned = self._overheads.learned(key_of(preset, tools, "host"))
        return CardMemory(host.memory_total_bytes, host.memory_used_bytes, learned)

    def _learned(self, preset: Preset, tools: EngineTools, cards: Sequence[GpuSnapshot]) -> LearnedOverhead:
        return self._overheads.learned(key_of(preset, tools, cards[0].name if cards else ""))

    def _known_facts(self, preset: Preset) -> ModelFacts | None:
        model = self._model(preset)
        try:
            return self._read_facts(model) if model else None
        except PanelError:
            return None

    def _read_facts(self, model: LocalModel) -> ModelFacts:
        """The model's facts, read once for each state of its config."""
        config = model.folder / "config.json"
        key = (str(model.folder), config.stat().st_mtime if config.exists() else 0.0)
        if key not in self._facts:
            while len(self._facts) >= KEPT_FACTS:
                del self._facts[next(iter(self._facts))]
            self._facts[key] = read_model_facts(model.folder)
        return self._facts[key]

    # afterwards

    def note(self, engine: Engine) -> None:
        """Hold a run that has become ready against its prediction, once. Called at each change of an engine."""
        run = engine.status.run
        if engine.status.ready_at is None or engine.spec is None or run is None:
            return
        key = (engine.engine_id, run)
        if key in self._compared or self._overheads.comparison(*key) is not None:
            return
        self._compared.add(key)
        task = asyncio.create_task(self._compare(engine, engine.spec, run))
        self._comparing.add(task)
        task.add_done_callback(self._comparing.discard)

    def comparison(self, engine: Engine) -> StartComparison | None:
        """How the engine's current run compared with its prediction."""
        return self._overheads.comparison(engine.engine_id, engine.status.run)

    async def _compare(self, engine: Engine, spec: LaunchSpec, run: int) -> None:
        try:
            await asyncio.to_thread(self._compare_now, engine, spec, run)
        except PanelError as err:
            log.info("the start of engine %s is not compared: %s", engine.engine_id, err)
        self._on_change()

    def _compare_now(self, engine: Engine, spec: LaunchSpec, run: int) -> None:
        preset = self._launcher.shelf.by_name(spec.preset).adjusted(spec.adjustments)
        tools = self._tools(preset, replace(spec.adjustments, environment=spec.environment or None))
        surroundings = Surroundings(self._cards(), self._host(), (), "", None)
        chosen = tuple(GpuChoice(uuid) for uuid in spec.gpus)
        predicted = self._fit(preset, tools, chosen, surroundings).estimate
        if predicted is None:
            return
        text = b"".join(engine.run_log(run)).decode("utf-8", errors="replace")
        found = compare(predicted, read_figures(text.splitlines()))
        tokens = found.of(Figure.KV_TOKENS)
        name = "host" if preset.engine is EngineKind.CPU else _name_of(surroundings.cards, spec.gpus)
        key = key_of(preset, tools, name)
        self._overheads.keep(
            key,
            learn(self._overheads.learned(key), found),
            StartComparison(
                engine=engine.engine_id,
                run=run,
                at=time.time(),
                predicted_tokens=tokens.predicted if tokens else None,
                logged_tokens=tokens.logged if tokens else None,
                overhead_difference_bytes=found.overhead_difference_bytes,
            ),
        )


def _image_of(preset: Preset, tools: EngineTools) -> str | None:
    """vLLM's own image of the same version; it has no dflash2, and there is none for the CPU engine we install."""
    if tools.kind is EngineKind.CPU or not tools.vllm or preset.attention_backend == DFLASH2:
        return None
    return f"vllm/vllm-openai:v{tools.vllm.partition('+')[0]}"


def _name_of(view: GpuView, uuids: Sequence[str]) -> str:
    snapshots = (card.snapshot for card in view.cards if card.snapshot is not None)
    return next((snapshot.name for snapshot in snapshots if snapshot.uuid in uuids), "")
