//! The deadlines of a thread's operations, in a table that one task searches every [`TICK`].
//!
//! Every read and write has a deadline. Nearly all deadlines are removed unused, long before they would pass. So a deadline is
//! cheap rather than exact: it takes a slot in the table, and may be noticed up to [`TICK`] late. Here, the timers of the runtime
//! are used only for the tick, and for deadlines that are less than a tick away.

use super::Runtime;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How late a deadline may be noticed, and how often the table is searched.
const TICK: Duration = Duration::from_millis(20);

/// Awaits `future`, and returns `None` if `deadline` passes first, up to [`TICK`] late.
pub(super) fn before<R: Runtime, F: Future>(deadline: Instant, future: F) -> Before<R, F> {
    Before { future, deadline, place: DeadlinePlace(None), runtime: PhantomData }
}

pin_project_lite::pin_project! {
    pub(super) struct Before<R, F> {
        #[pin]
        future: F,
        deadline: Instant,
        place: DeadlinePlace,
        runtime: PhantomData<R>,
    }
}

impl<R: Runtime, F: Future> Future for Before<R, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.project();
        if let Poll::Ready(output) = me.future.poll(context) {
            return Poll::Ready(Some(output));
        }
        let table = |table: &Table| match me.place.0 {
            Some(place) => table.is_over(place, context.waker()),
            None => {
                let place = table.enter(*me.deadline, context.waker());
                me.place.0 = Some(place);
                let left = me.deadline.saturating_duration_since(R::now());
                if left < TICK {
                    R::spawn(wait::<R>(place, left));
                }
                if !table.ticking.replace(true) {
                    R::spawn(tick::<R>());
                }
                false
            }
        };
        if TABLE.with(table) { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// Empties the table of this thread after its main future has ended. The wakers in the table keep tasks alive, and tasks must be
/// dropped before their runtime.
pub(super) fn clear() {
    let left = TABLE.with(|table| std::mem::take(&mut *table.slots.borrow_mut()));
    drop(left);
}

thread_local! {
    static TABLE: Table = Table::default();
}

#[derive(Default)]
struct Table {
    slots: RefCell<Slots>,
    /// Whether the task [`tick`] is running.
    ticking: Cell<bool>,
}

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

enum Slot {
    Free,
    Waits(Instant, Waker),
    Over,
}

/// A slot of the table, if the future needed one. Dropping this frees the slot.
struct DeadlinePlace(Option<u32>);

impl Drop for DeadlinePlace {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            // If the thread is ending, its table may be gone already.
            let left = TABLE.try_with(|table| table.leave(place));
            drop(left);
        }
    }
}

impl Table {
    fn enter(&self, deadline: Instant, waker: &Waker) -> u32 {
        let slots = &mut *self.slots.borrow_mut();
        let place = slots.free.pop().unwrap_or_else(|| {
            slots.all.push(Slot::Free);
            slots.all.len() as u32 - 1
        });
        slots.all[place as usize] = Slot::Waits(deadline, waker.clone());
        place
    }

    /// Whether the deadline of this slot has passed. If not, `waker` is woken when the deadline passes.
    fn is_over(&self, place: u32, waker: &Waker) -> bool {
        match self.slots.borrow_mut().all.get_mut(place as usize) {
            Some(Slot::Waits(_, known)) => {
                known.clone_from(waker);
                false
            }
            Some(Slot::Over | Slot::Free) | None => true,
        }
    }

    /// Frees a slot and returns its content. The caller has to drop the content after this borrow of the table: the waker may be
    /// the last owner of a task, and that task may free other slots.
    fn leave(&self, place: u32) -> Option<Slot> {
        let slots = &mut *self.slots.borrow_mut();
        let slot = slots.all.get_mut(place as usize)?;
        slots.free.push(place);
        Some(std::mem::replace(slot, Slot::Free))
    }

    /// If the deadline of this slot has passed, marks the slot as over and returns its waker.
    fn look_at(&self, place: u32, now: Instant) -> Option<Waker> {
        self.slots.borrow_mut().all.get_mut(place as usize)?.end(now)
    }

    /// Wakes the tasks for which a deadline has passed. Returns false if no slot is in use.
    fn look(&self, now: Instant) -> bool {
        let mut slots = self.slots.borrow_mut();
        let late: Vec<Waker> = slots.all.iter_mut().filter_map(|slot| slot.end(now)).collect();
        let any = slots.all.len() > slots.free.len();
        drop(slots);
        late.into_iter().for_each(Waker::wake);
        any
    }
}

impl Slot {
    /// If the deadline has passed, marks the slot as over and returns its waker.
    fn end(&mut self, now: Instant) -> Option<Waker> {
        match self {
            Slot::Waits(deadline, _) if *deadline <= now => match std::mem::replace(self, Slot::Over) {
                Slot::Waits(_, waker) => Some(waker),
                Slot::Free | Slot::Over => None,
            },
            _ => None,
        }
    }
}

/// Checks one slot at its deadline. By then another operation may use the slot. The check then concerns the deadline of that
/// operation.
async fn wait<R: Runtime>(place: u32, left: Duration) {
    R::sleep(left).await;
    let late = TABLE.with(|table| table.look_at(place, R::now()));
    late.into_iter().for_each(Waker::wake);
}

async fn tick<R: Runtime>() {
    loop {
        R::sleep(TICK).await;
        if !TABLE.with(|table| table.look(R::now())) {
            break;
        }
    }
    TABLE.with(|table| table.ticking.set(false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::monoio::{Driver, Monoio, run};
    use std::future::pending;

    fn on_epoll(main: impl Future<Output = ()> + 'static) {
        run(Driver::Epoll, main).expect("no runtime");
    }

    #[test]
    fn what_is_ready_needs_no_slot_and_what_is_late_is_given_up() {
        on_epoll(async {
            let past = Instant::now();
            assert_eq!(before::<Monoio, _>(past, async { 7 }).await, Some(7));
            assert_eq!(TABLE.with(|table| table.slots.borrow().all.len()), 0);
            let soon = Instant::now() + Duration::from_millis(2);
            assert_eq!(before::<Monoio, _>(soon, pending::<()>()).await, None);
            assert!(Instant::now() >= soon);
            let deadline = Instant::now() + Duration::from_millis(50);
            assert_eq!(before::<Monoio, _>(deadline, pending::<()>()).await, None);
            assert!(Instant::now() >= deadline);
            assert!(Instant::now() < deadline + Duration::from_secs(5));
        });
    }

    #[test]
    fn slots_are_given_back_and_used_again() {
        on_epoll(async {
            for _ in 0..100 {
                let deadline = Instant::now() + Duration::from_secs(60);
                let nap = Monoio::sleep(Duration::from_millis(1));
                assert_eq!(before::<Monoio, _>(deadline, nap).await, Some(()));
            }
            TABLE.with(|table| {
                let slots = table.slots.borrow();
                assert_eq!((slots.all.len(), slots.free.len()), (1, 1));
            });
        });
    }

    #[test]
    fn deadlines_that_a_runtime_leaves_behind_end_with_it() {
        struct Flag(std::sync::Arc<std::sync::atomic::AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let dropped = std::sync::Arc::default();
        let flag = Flag(std::sync::Arc::clone(&dropped));
        on_epoll(async {
            Monoio::spawn(async move {
                let _flag = flag;
                let deadline = Instant::now() + Duration::from_secs(60);
                before::<Monoio, _>(deadline, pending::<()>()).await;
            });
            Monoio::sleep(Duration::from_millis(5)).await;
        });
        assert!(dropped.load(std::sync::atomic::Ordering::Relaxed), "its task lives on");
        assert_eq!(TABLE.with(|table| table.slots.borrow().all.len()), 0);
    }
}
