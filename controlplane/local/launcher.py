"""The launcher: one guardian, children that are kept alive, and an orderly end.

It knows nothing of what it starts: that is the `bring_up` it is given. Ending is the guardian's
work, so that it is the same however the launcher ends; only if none can be had to the last does
the launcher do it.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

from controlplane.local.guardian import HURRY, LEFT, READY, STOP, end_all, start_guardian
from controlplane.local.places import Places, rotate_log, size_of, tail_of
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import (
    GroupRecord,
    Start,
    end_groups,
    read_record,
    remove_record,
    start_group,
    write_record,
)
from controlplane.local.terminal import Tail, Terminal, Waiting

_POLL_S = 0.1
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0
_BACK_S = 2.0
_LEADER_S = 3.0
_LEFTOVER_S = 1.0
_STOP_S = 40.0
# `make` passes on what it was sent itself, so one signal to both arrives twice.
_SAME_SIGNAL_S = 0.3
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Child:
    """A process that is kept alive. `start` records it under `name` and may be called again."""

    name: str
    start: Callable[[], Popen[bytes]]
    log: Path
    waits_for: str = ""
    is_ready: Callable[[], bool] | None = None
    bad_settings_code: int | None = None
    """The exit code by which the first start says that no other would do better."""
    is_back: Callable[[], bool] | None = None
    """How to tell that it does its work again; without it and `is_ready`, that it lives is told."""
    drain_s: float = 0.0
    """If it dies, what it leaves of its group may take so long to end, beside the next one."""


@dataclass(slots=True)
class _Guard:
    """The guardian at work, and the reader of what it says."""

    process: Popen[bytes]
    lines: asyncio.StreamReader


@dataclass(slots=True)
class Launcher:
    """Keeps children and the guardian until told to stop."""

    places: Places
    terminal: Terminal
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _guard: _Guard | None = None
    _has_begun: bool = False
    _is_hurried: bool = False
    _keepers: list[asyncio.Task[None]] = field(default_factory=list)
    _processes: dict[str, Popen[bytes]] = field(default_factory=dict)
    _starting: set[asyncio.Task[Popen[bytes]]] = field(default_factory=set)
    _draining: set[asyncio.Task[None]] = field(default_factory=set)
    _is_ending: bool = False

    async def keep(self, child: Child) -> None:
        """Start a child now and again whenever it ends; return once it is ready.

        A first start that fails, or ends over its settings, is raised as a LocalProblem (the
        latter by `watch_keepers`); later ones are tried again for as long as it takes.
        """
        rotate_log(child.log)
        tail = Tail(child.log)
        process = await self._start(child.name, child.start)
        self._keepers.append(asyncio.create_task(self._keep(child, process, tail)))
        if child.is_ready is not None:
            await self.until(child.is_ready, child.waits_for or child.name, child.log)

    async def until(self, is_true: Callable[[], bool], what: str, log: Path | None = None) -> None:
        """Wait for a condition as long as it takes, saying so; it is asked in a thread."""
        waiting = Waiting(self.terminal, what, log)
        while not await asyncio.to_thread(is_true):
            waiting.tick()
            await asyncio.sleep(_POLL_S)

    async def run_once(
        self, start: Start, what: str, watch: Callable[[], None] = lambda: None
    ) -> None:
        """Run a task to its end, calling `watch` meanwhile; raises LocalProblem if it fails."""
        rotate_log(start.log)
        waiting, known = Waiting(self.terminal, what, start.log), size_of(start.log)
        process = await self._start(start.name, lambda: start_group(start, self.places.groups))
        while process.poll() is None:
            watch()
            waiting.tick()
            await asyncio.sleep(_POLL_S)
        watch()
        await self._end_leftovers(start.name)
        if process.returncode != 0:
            tail = tail_of(start.log, since=known)
            raise LocalProblem(f"{what} failed ({process.returncode}); {start.log} ends:\n{tail}")

    async def _start(self, name: str, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        """Start in a thread; one that is under way when we end is waited for, none is begun."""
        if self._is_ending:
            raise asyncio.CancelledError
        starting = asyncio.create_task(asyncio.to_thread(start))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            self._processes[name] = await asyncio.shield(starting)
        except OSError as error:
            raise LocalProblem(f"cannot start {name}: {error}") from error
        return self._processes[name]

    async def _keep(self, child: Child, process: Popen[bytes], tail: Tail) -> None:
        pause_s, final_code, is_again = _FIRST_PAUSE_S, child.bad_settings_code, False
        while True:
            began = time.monotonic()
            await (self._ended_again(child, process) if is_again else _ended(process))
            if process.returncode == final_code:
                raise LocalProblem(f"{child.name} cannot start: {tail.take_new()}")
            final_code = None
            lived_s = time.monotonic() - began
            if lived_s >= _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            text = f"{child.name} ended ({process.returncode}) after {lived_s:.1f} s"
            self.terminal.say(f"{text}; again in {pause_s:.1f} s; log: {child.log}")
            tail.show_new(self.terminal)
            await self._end_leftovers(child.name, drain_s=child.drain_s)
            process, pause_s = await self._start_again(child, pause_s)
            is_again = True

    async def _ended_again(self, child: Child, process: Popen[bytes]) -> None:
        """Return when a child that was started again has ended; say meanwhile that it is back."""
        telling = asyncio.create_task(self._tell_back(child))
        try:
            await _ended(process)
        finally:
            telling.cancel()

    async def _tell_back(self, child: Child) -> None:
        if (is_back := child.is_back or child.is_ready) is None:
            await asyncio.sleep(_BACK_S)
        else:
            await self.until(is_back, f"{child.name} to be back", child.log)
        self.terminal.say(f"{child.name} is back")

    async def _start_again(self, child: Child, pause_s: float) -> tuple[Popen[bytes], float]:
        """Start after a pause, or a longer one; returns the pause that the next time takes."""
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            try:
                return await self._start(child.name, child.start), pause_s
            except LocalProblem as problem:
                self.terminal.say(f"{problem}; again in {pause_s:.1f} s")

    async def _end_leftovers(self, name: str, *, drain_s: float = 0.0) -> None:
        """End what a dead leader left of its group, or see to it that it ends by itself in time."""
        record = read_record(self.places.groups, name)
        if record is None:
            return
        if not drain_s:
            await self._end_group(record, _LEFTOVER_S)
            return
        # under a name of its own it stays on record while another takes its place
        former = replace(record, name=f"{name}-{record.pid}")
        try:
            write_record(former, self.places.groups)
            remove_record(record, self.places.groups)
        except OSError as error:
            # it keeps its name until another takes that, and ends in its time all the same
            self.terminal.say(f"{former.name} is not on record: {error}")
            former = record
        draining = asyncio.create_task(self._end_group(former, drain_s))
        self._draining.add(draining)
        draining.add_done_callback(self._draining.discard)

    async def _end_group(self, record: GroupRecord, after_leader_s: float) -> None:
        """End a group whose leader is dead, then forget it."""
        if not await asyncio.to_thread(_end_leaderless, record, after_leader_s):
            remove_record(record, self.places.groups)

    async def start_guard(self, *options: str) -> None:
        """Start a guardian and wait until it guards (it first ends what an earlier run left)."""
        process = start_guardian(self.places, *options)
        lines = asyncio.StreamReader()
        # known before anything is waited for: a stop in this moment goes to this one
        self._guard = _Guard(process, lines)
        assert process.stdout is not None
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), process.stdout
        )
        waiting = Waiting(self.terminal, "an earlier run to end", self.places.log("guardian"))
        listening = asyncio.create_task(self._hear_until_ready(lines))
        try:
            while not listening.done():
                waiting.tick()
                await asyncio.wait({listening}, timeout=_POLL_S)
        finally:
            # whoever stops us reads these lines next, and two can't
            listening.cancel()
            await asyncio.wait({listening})
        if not listening.result():
            raise LocalProblem(f"the guardian ended:\n{tail_of(self.places.log('guardian'))}")
        self._has_begun = True

    async def _hear_until_ready(self, lines: asyncio.StreamReader) -> bool:
        async for line in lines:
            text = line.decode().strip()
            if text == READY:
                return True
            self.terminal.say(f"left from an earlier run: {text}")
        return False

    async def watch_guard(self) -> None:
        """Start another guardian whenever ours dies; it adopts what runs.

        One that can't be had is tried again for as long as it takes. Meanwhile the former one's
        shadow stands in, and a stop does without.
        """
        began, pause_s = -math.inf, _FIRST_PAUSE_S
        while True:
            assert self._guard is not None
            if self._guard.process.poll() is None:
                await _ended(self._guard.process)
            if time.monotonic() - began >= _STEADY_S:
                pause_s = _FIRST_PAUSE_S
                self.terminal.say("the guardian ended; starting another")
            else:
                self.terminal.say(f"the guardian ended; another in {pause_s:.1f} s")
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            began = time.monotonic()
            try:
                await self.start_guard("--adopt")
            except (LocalProblem, OSError) as problem:
                self.terminal.say(f"no guardian: {problem}")

    async def watch_keepers(self) -> None:
        """Raise what a keeper raised; keepers never end by themselves."""
        while True:
            for keeper in self._keepers:
                if keeper.done():
                    keeper.result()
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> bool:
        """Let the guardian end everything, or do it without one; True if nothing is left."""
        self._is_ending = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, *self._starting, return_exceptions=True)
        if not self._has_begun:
            return True
        try:
            code = await self._have_it_ended()
        except (LocalProblem, OSError) as problem:
            self.terminal.say(f"no guardian to end it all: {str(problem) or 'it is silent'}")
            code = None
        if code not in (0, LEFT):
            self.terminal.say("ending what is left without a guardian")
            say, is_hurried = self.terminal.say, lambda: self._is_hurried
            code = await asyncio.to_thread(end_all, self.places, say, is_hurried)
        for process in self._processes.values():
            process.poll()
        return code == 0

    async def _have_it_ended(self) -> int | None:
        """Have the guardian, or another if it died, end everything; what it ends with."""
        assert self._guard is not None
        if self._guard.process.poll() is not None:
            await self.start_guard("--adopt")
        guard = self._guard
        self._say_to_guard(STOP)
        async with asyncio.timeout(_STOP_S):
            async for line in guard.lines:
                if (text := line.decode().strip()) != READY:
                    self.terminal.say(text)
            await _ended(guard.process)
        return guard.process.returncode

    def hurry(self) -> None:
        """Have patience cut short."""
        self._is_hurried = True
        self._say_to_guard(HURRY)

    def _say_to_guard(self, word: bytes) -> None:
        if self._guard is not None and self._guard.process.stdin is not None:
            with suppress(BrokenPipeError):
                self._guard.process.stdin.write(word)
                self._guard.process.stdin.flush()


async def _ended(process: Popen[bytes]) -> None:
    """Return when a process has ended, and reap it."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


def _end_leaderless(record: GroupRecord, after_leader_s: float) -> tuple[GroupRecord, ...]:
    return end_groups((record,), grace_s=_LEADER_S, after_leader_s=after_leader_s)


BringUp = Callable[[Launcher], Coroutine[Any, Any, None]]


async def launch(places: Places, terminal: Terminal, bring_up: BringUp) -> int:
    """Bring everything up, keep it until a signal, end it; the exit code.

    A LocalProblem in `bring_up` ends everything too, and is shown.
    """
    launcher = Launcher(places, terminal)
    _on_signals(launcher)
    code = 0
    try:
        await launcher.start_guard()
        await _until_stopped(launcher, bring_up)
    except (LocalProblem, OSError) as problem:
        terminal.show(f"headworks: {problem}")
        code = 1
    is_clean = await launcher.stop()
    terminal.say("everything is stopped" if is_clean else "something could not be ended: see above")
    return code if is_clean else 1


def _on_signals(launcher: Launcher) -> None:
    stopped_at = math.inf

    def on_signal() -> None:
        nonlocal stopped_at
        if not launcher.stopping.is_set():
            stopped_at = time.monotonic()
            launcher.stopping.set()
            launcher.terminal.say("stopping; once more to hurry")
        elif time.monotonic() - stopped_at > _SAME_SIGNAL_S:
            launcher.hurry()
            launcher.terminal.say("hurrying")

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


async def _until_stopped(launcher: Launcher, bring_up: BringUp) -> None:
    """Run `bring_up` and the watches until told to stop; raise what any of them raised."""
    tasks: set[asyncio.Task[None]] = {
        asyncio.create_task(work)
        for work in (bring_up(launcher), launcher.watch_guard(), launcher.watch_keepers())
    }
    stopping = asyncio.create_task(launcher.stopping.wait())
    try:
        while not stopping.done():
            await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for done in [task for task in tasks if task.done()]:
                tasks.discard(done)
                done.result()
    finally:
        stopping.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
