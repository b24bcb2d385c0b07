//! The tasks, the clock and the events of the simulation that runs on this thread.

use super::net::{Due, Net};
use crate::seed::simulated::mix;
use crate::sim::World;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// More steps than this without time passing show that some task spins.
const STEPS_AN_INSTANT_MAX: u32 = 200_000;

/// The state of the simulation on this thread.
struct Core {
    base: Instant,
    now: Cell<Duration>,
    tasks: RefCell<Tasks>,
    ready: RefCell<Vec<u32>>,
    events: RefCell<Events>,
    net: RefCell<Net>,
    random: Cell<u64>,
    trace: Cell<u64>,
    panics: Cell<u32>,
}

/// A task with its waker in two forms. While the task is polled, it is taken out of its place.
type TaskPlace = (Option<Task>, Arc<TaskWaker>, Waker);

#[derive(Default)]
struct Tasks {
    slots: Vec<Option<TaskPlace>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Events {
    heap: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    count: u64,
    timers: Vec<TimerSlot>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Timer(u32),
    Net(Due),
    Submit(u32),
}

#[derive(Default)]
struct TimerSlot {
    waker: Option<Waker>,
    over: bool,
    dropped: bool,
}

struct TaskWaker {
    slot: u32,
    queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            with(|core| core.ready.borrow_mut().push(self.slot));
        }
    }
}

thread_local! {
    static CORE: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Calls `act` with the simulation of this thread. If there is none, returns the default value, because objects of a simulation may
/// be dropped after its end.
fn with<T: Default>(act: impl FnOnce(&Core) -> T) -> T {
    let core = CORE.try_with(|core| core.borrow().clone()).ok().flatten();
    core.map(|core| act(&core)).unwrap_or_default()
}

pub(crate) fn start(seed: u64, world: Rc<RefCell<dyn World>>) {
    let core = Core {
        base: Instant::now(),
        now: Cell::new(Duration::ZERO),
        tasks: RefCell::default(),
        ready: RefCell::default(),
        events: RefCell::default(),
        net: RefCell::new(Net::of(world)),
        random: Cell::new(seed),
        trace: Cell::new(seed),
        panics: Cell::new(0),
    };
    CORE.set(Some(Rc::new(core)));
}

/// Ends the simulation on this thread, and drops its remaining tasks.
pub(crate) fn stop() {
    let tasks = with(|core| std::mem::take(&mut *core.tasks.borrow_mut()).slots);
    drop(tasks);
    with(|core| core.net.borrow_mut().world = None);
    CORE.set(None);
}

pub(crate) fn now() -> Instant {
    with(|core| Some(core.base + core.now.get())).unwrap_or_else(Instant::now)
}

pub(crate) fn on_panic() {
    with(|core| core.panics.set(core.panics.get() + 1));
}

pub(crate) fn tasks() -> usize {
    with(|core| core.tasks.borrow().slots.iter().flatten().count())
}

/// The number of connections that the engine has opened and not closed.
pub(crate) fn connections() -> usize {
    with(|core| core.net.borrow().open_connections())
}

/// Makes [`drive`] call its function `submit` with `index` at the time `at`.
pub(crate) fn submit_at(at: Duration, index: u32) {
    with(|core| core.events.borrow_mut().push(at, Event::Submit(index)));
}

pub(super) fn with_net<T: NetResult>(act: impl FnOnce(&mut Net, Duration) -> T) -> T {
    let done = with(|core| {
        let mut net = core.net.borrow_mut();
        let done = act(&mut net, core.now.get());
        let mut events = core.events.borrow_mut();
        for (at, due) in net.later.drain(..) {
            events.push(at, Event::Net(due));
        }
        Some(done)
    });
    done.unwrap_or_else(T::without_net)
}

/// What an operation on the network returns if the simulation has already ended.
pub(super) trait NetResult {
    fn without_net() -> Self;
}

impl NetResult for () {
    fn without_net() {}
}

impl NetResult for u32 {
    fn without_net() -> u32 {
        u32::MAX
    }
}

impl NetResult for std::io::Result<()> {
    fn without_net() -> std::io::Result<()> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
}

impl<T> NetResult for Poll<T> {
    fn without_net() -> Poll<T> {
        Poll::Pending
    }
}

impl NetResult for (u32, crate::sim::Connect) {
    fn without_net() -> Self {
        (u32::MAX, crate::sim::Connect::Silent)
    }
}

pub(super) fn spawn(task: Task) {
    with(|core| {
        let mut tasks = core.tasks.borrow_mut();
        let slot = tasks.free.pop().unwrap_or(tasks.slots.len() as u32);
        let wake = Arc::new(TaskWaker { slot, queued: AtomicBool::new(true) });
        let waker = Waker::from(Arc::clone(&wake));
        let entry = Some((Some(task), wake, waker));
        match tasks.slots.get_mut(slot as usize) {
            Some(free) => *free = entry,
            None => tasks.slots.push(entry),
        }
        core.ready.borrow_mut().push(slot);
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) now: Duration,
    pub(crate) trace: u64,
    pub(crate) panics: u32,
    /// Whether a task spun: there were more than [`STEPS_AN_INSTANT_MAX`] steps without time passing.
    pub(crate) spins: bool,
}

/// Runs tasks and events until `done` returns true, the clock reaches `limit`, or a task spins. Calls `submit` with the index of
/// each request when its time has come.
pub(crate) fn drive(limit: Duration, submit: &mut dyn FnMut(u32), done: &dyn Fn() -> bool) -> Ended {
    let core = CORE.with(|core| core.borrow().clone());
    let Some(core) = core else {
        return Ended { now: Duration::ZERO, trace: 0, panics: 0, spins: false };
    };
    let mut steps = 0;
    while !done() {
        if let Some(slot) = core.draw() {
            core.poll(slot);
            steps += 1;
            if steps > STEPS_AN_INSTANT_MAX {
                break;
            }
            continue;
        }
        let next = core.events.borrow_mut().next(limit);
        let Some((at, what)) = next else {
            core.now.set(core.now.get().max(limit));
            break;
        };
        if at > core.now.get() {
            core.now.set(at);
            steps = 0;
        }
        steps += 1;
        core.happen(what, submit);
    }
    Ended {
        now: core.now.get(),
        trace: core.trace.get(),
        panics: core.panics.get(),
        spins: steps > STEPS_AN_INSTANT_MAX,
    }
}

impl Core {
    /// Removes a random task from the list of those that can run, and returns it.
    fn draw(&self) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        if ready.len() < 2 {
            return ready.pop();
        }
        let random = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(random);
        let at = (mix(random) >> 32) as usize % ready.len();
        Some(ready.swap_remove(at))
    }

    fn poll(&self, slot: u32) {
        let taken = match self.tasks.borrow_mut().slots.get_mut(slot as usize) {
            Some(Some((task, wake, waker))) => {
                wake.queued.store(false, Ordering::Relaxed);
                task.take().map(|task| (task, waker.clone()))
            }
            _ => None,
        };
        let Some((mut task, waker)) = taken else { return };
        self.note(u64::from(slot));
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(&waker))));
        if let Ok(Poll::Pending) = polled {
            if let Some(Some((place, ..))) = self.tasks.borrow_mut().slots.get_mut(slot as usize) {
                *place = Some(task);
            }
            return;
        }
        self.panics.set(self.panics.get() + u32::from(polled.is_err()));
        // Dropping the task may spawn and wake other tasks, so no `RefCell` may be borrowed here.
        drop(task);
        let mut tasks = self.tasks.borrow_mut();
        if let Some(entry) = tasks.slots.get_mut(slot as usize) {
            *entry = None;
            tasks.free.push(slot);
        }
    }

    fn happen(&self, what: Event, submit: &mut dyn FnMut(u32)) {
        match what {
            Event::Timer(slot) => {
                let waker = self.events.borrow_mut().timers[slot as usize].waker.take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Event::Net(due) => {
                let waker = self.net.borrow_mut().arrive(due);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Event::Submit(index) => submit(index),
        }
    }

    /// Adds a step to the hash of the run, so that two runs with different steps have different hashes.
    fn note(&self, what: u64) {
        let now = self.now.get().as_nanos() as u64;
        self.trace.set(mix(self.trace.get().rotate_left(5) ^ now.wrapping_mul(31) ^ what));
    }
}

impl Events {
    fn push(&mut self, at: Duration, what: Event) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, what)));
    }

    /// Takes the next event up to `limit`. Skips timers that were dropped.
    fn next(&mut self, limit: Duration) -> Option<(Duration, Event)> {
        loop {
            let Reverse((at, _, what)) = *self.heap.peek()?;
            if at > limit {
                return None;
            }
            self.heap.pop();
            if let Event::Timer(slot) = what {
                let timer = &mut self.timers[slot as usize];
                timer.over = true;
                if timer.dropped {
                    self.timers[slot as usize] = TimerSlot::default();
                    self.free.push(slot);
                    continue;
                }
            }
            return Some((at, what));
        }
    }
}

/// A future that becomes ready at an instant.
pub(super) struct Timer {
    slot: u32,
}

impl Timer {
    pub(super) fn at(at: Instant) -> Timer {
        let slot = with(|core| {
            let at = at.saturating_duration_since(core.base);
            let mut events = core.events.borrow_mut();
            let slot = events.free.pop().unwrap_or_else(|| {
                events.timers.push(TimerSlot::default());
                events.timers.len() as u32 - 1
            });
            events.push(at, Event::Timer(slot));
            Some(slot)
        });
        Timer { slot: slot.unwrap_or(u32::MAX) }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let over = with(|core| {
            let mut events = core.events.borrow_mut();
            let Some(timer) = events.timers.get_mut(self.slot as usize) else { return false };
            if !timer.over && !timer.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                timer.waker = Some(context.waker().clone());
            }
            timer.over
        });
        if over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        with(|core| {
            let mut events = core.events.borrow_mut();
            let Some(timer) = events.timers.get_mut(self.slot as usize) else { return };
            if timer.over {
                *timer = TimerSlot::default();
                events.free.push(self.slot);
            } else {
                timer.waker = None;
                timer.dropped = true;
            }
        });
    }
}
