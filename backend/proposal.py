"""What a launch would be, before it is one: the exact command, whether it fits, and what speaks against it."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import SecretStr

from backend.engine.process import find_marked
from backend.environment.environments import Environments
from backend.errors import PanelError
from backend.fit.cpu_features import read_cpu_features
from backend.fit.estimate import FitEstimate, estimate
from backend.fit.host_overheads import HostOverheads
from backend.fit.inverse import longest_context, most_sequences
from backend.fit.launch_card import assumed_card, fullest_card, key_of
from backend.fit.learned_overhead import LearnedOverhead
from backend.fit.model_facts import ModelFacts
from backend.fit.preset_wish import wish_of_preset
from backend.fit.wish import CardMemory, FitWish
from backend.gpu.snapshot import GpuSnapshot, GpuView
from backend.host import HostSnapshot
from backend.known_models import Gap, KnownModels, ModelUnknown
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.models import LocalModel
from backend.launch.plan import GpuChoice, LaunchSpec
from backend.launch.preset import DFLASH2, ModelSource, Preset
from backend.launcher import Launcher
from backend.preflight.collect import Surroundings, collect
from backend.preflight.examine import examine
from backend.preflight.finding import Finding
from backend.reading import Missing
from backend.start_comparison import Prediction

log = logging.getLogger(__name__)

MARKS_KEPT_S = 5.0


@dataclass(frozen=True)
class Fit:
    """The estimate for one launch, or why there is none."""

    estimate: FitEstimate | None = None
    gap: str = ""  # why there is none, in one English sentence
    model_gap: Gap | None = None  # the same as a key, where nothing is known of the model
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
    """Makes proposals out of what the panel knows now."""

    def __init__(
        self,
        *,
        launcher: Launcher,
        environments: Environments,
        models: KnownModels,
        cards: Callable[[], GpuView],
        host: Callable[[], HostSnapshot | None],
        overheads: HostOverheads,
    ) -> None:
        self._launcher = launcher
        self._environments = environments
        self._models = models
        self._cards = cards
        self._host = host
        self._overheads = overheads
        self._cpu = read_cpu_features()
        self._marked: tuple[float, Mapping[int, str]] = (float("-inf"), {})  # engines by process, and when looked

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
        adjusted = preset.adjusted(adjustments)
        known = await asyncio.to_thread(self._models.find, adjusted.model.name)
        if known is None:
            self._models.ask(adjusted.model)
        surroundings = Surroundings(
            self._cards(),
            self._host(),
            self._environments.views,
            system_prompt,
            api_key,
            served_names=self._launcher.served_names(besides=name),
        )
        return await asyncio.to_thread(self._consider, preset, adjusted, adjustments, port, surroundings, known)

    def _consider(
        self,
        preset: Preset,
        adjusted: Preset,
        adjustments: Adjustments,
        port: int,
        surroundings: Surroundings,
        known: LocalModel | None,
    ) -> Proposal:
        if surroundings.cards.cards:
            surroundings = replace(surroundings, engine_pids=self._engine_pids())
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
            model=known,
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

    def _engine_pids(self) -> Mapping[int, str]:
        """Our own engines by process, so that none is taken for a stranger on a card. A walk of /proc, now and then."""
        looked_at, pids = self._marked
        now = time.monotonic()
        if now - looked_at > MARKS_KEPT_S:
            pids = {process.pid: marker.partition("/")[0] for process, marker in find_marked("").items()}
            self._marked = (now, pids)
        return pids

    def _fit(self, preset: Preset, tools: EngineTools, chosen: Sequence[GpuChoice], surroundings: Surroundings) -> Fit:
        try:
            facts = self._models.facts(preset.model)
            card, assumed = self._card(preset, tools, chosen, surroundings)
            if card is None:
                return Fit(gap="no card's memory can be read, and the preset names no card")
            wish = self._wish(preset, tools)
            found = estimate(facts, wish, card)
            return Fit(
                estimate=found,
                assumed_card=assumed,
                longest_context=longest_context(facts, wish, card),
                most_sequences=most_sequences(facts, wish, card),
            )
        except PanelError as err:
            return Fit(gap=str(err).rstrip("."), model_gap=err.gap if isinstance(err, ModelUnknown) else None)

    def _wish(self, preset: Preset, tools: EngineTools) -> FitWish:
        guesser = preset.speculation.model if preset.speculation else None
        draft = self._models.facts(ModelSource(name=guesser)) if guesser else None
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
        try:
            return self._models.facts(preset.model)
        except PanelError:
            return None

    # afterwards

    def prediction(self, spec: LaunchSpec) -> Prediction | None:
        """What is expected of a start with this command; None where nothing can be. Reads folders.

        Raises:
            PanelError: its preset is no longer there.
        """
        preset = self._launcher.shelf.by_name(spec.preset).adjusted(spec.adjustments)
        tools = self._tools(preset, replace(spec.adjustments, environment=spec.environment or None))
        surroundings = Surroundings(self._cards(), self._host(), (), "", None)
        found = self._fit(preset, tools, tuple(GpuChoice(uuid) for uuid in spec.gpus), surroundings).estimate
        name = "host" if preset.engine is EngineKind.CPU else _name_of(surroundings.cards, spec.gpus)
        return None if found is None else Prediction(found, key_of(preset, tools, name))


def _image_of(preset: Preset, tools: EngineTools) -> str | None:
    """vLLM's own image of the same version; it has no dflash2, and there is none for the CPU engine we install."""
    if tools.kind is EngineKind.CPU or not tools.vllm or preset.attention_backend == DFLASH2:
        return None
    return f"vllm/vllm-openai:v{tools.vllm.partition('+')[0]}"


def _name_of(view: GpuView, uuids: Sequence[str]) -> str:
    snapshots = (card.snapshot for card in view.cards if card.snapshot is not None)
    return next((snapshot.name for snapshot in snapshots if snapshot.uuid in uuids), "")
