//! An inbox: a bounded queue of items from any thread to one thread, its owner. Threads of the engine and of its clients exchange
//! works and answers only through inboxes.
//!
//! A producer wakes the owner only if the owner has declared itself parked (asleep). So producers make no system calls while the
//! owner is busy. [`crate::Client::submit`] reserves room in all inboxes before it accepts a request, so the engine never finds an
//! inbox full.

use atomic_waker::AtomicWaker;
use crossbeam::queue::ArrayQueue;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

pub(crate) struct Inbox<T> {
    queue: ArrayQueue<T>,
    parked: AtomicBool,
    owner: AtomicWaker,
}

/// How long [`Inbox::pop_blocking`] sleeps before it parks, so that several items can arrive without a wake-up.
const GATHERING: Duration = Duration::from_millis(1);

impl<T> Inbox<T> {
    pub(crate) fn new(capacity: usize) -> Inbox<T> {
        Inbox { queue: ArrayQueue::new(capacity), parked: AtomicBool::new(false), owner: AtomicWaker::new() }
    }

    /// Adds an item, and wakes the owner if it is parked. `Err` returns the item if the queue is full.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        self.queue.push(item)?;
        // With the fence in `poll_pop`, either the owner sees the item, or this thread sees that the owner is parked.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) {
            self.wake();
        }
        Ok(())
    }

    /// Wakes the owner, even if there is no item.
    pub(crate) fn wake(&self) {
        self.parked.store(false, Ordering::Relaxed);
        self.owner.wake();
    }

    /// Waits for the next item. Only the owner may call this.
    pub(crate) async fn pop(&self) -> T {
        poll_fn(|context| self.poll_pop(context)).await
    }

    pub(crate) fn try_pop(&self) -> Option<T> {
        self.queue.pop()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Waits for the next item, and blocks the thread. `None` if no item arrives within `timeout`. Only the owner may call this.
    pub(crate) fn pop_blocking(&self, timeout: Duration) -> Option<T> {
        if let Some(item) = self.queue.pop() {
            return Some(item);
        }
        if timeout.is_zero() {
            return None;
        }
        let deadline = Instant::now() + timeout;
        // If the owner parked at once, the next item would wake it: a system call for the producer, and a context switch. After
        // this sleep, several items may be waiting.
        std::thread::sleep(GATHERING.min(timeout));
        if let Some(item) = self.queue.pop() {
            return Some(item);
        }
        if timeout <= GATHERING {
            return None;
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(item) = self.poll_pop(&mut context) {
                return Some(item);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    fn poll_pop(&self, context: &mut Context<'_>) -> Poll<T> {
        if let Some(item) = self.queue.pop() {
            return Poll::Ready(item);
        }
        self.owner.register(context.waker());
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        match self.queue.pop() {
            Some(item) => {
                self.parked.store(false, Ordering::Relaxed);
                Poll::Ready(item)
            }
            None => Poll::Pending,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_comes_back() {
        let inbox = Inbox::new(1);
        assert_eq!(inbox.push(1), Ok(()));
        assert_eq!(inbox.push(2), Err(2));
        assert_eq!(inbox.try_pop(), Some(1));
        assert_eq!(inbox.try_pop(), None);
    }

    #[test]
    fn nothing_is_lost_between_threads_and_no_wake_up_is_missed() {
        const ITEMS: u64 = 200_000;
        let inbox = Arc::new(Inbox::new(64));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let inbox = Arc::clone(&inbox);
                std::thread::spawn(move || {
                    for mut item in 1..=ITEMS {
                        while let Err(back) = inbox.push(item) {
                            item = back;
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let sum: u64 =
            (0..2 * ITEMS).map(|_| inbox.pop_blocking(Duration::from_secs(20)).expect("lost")).sum();
        assert_eq!(sum, ITEMS * (ITEMS + 1));
        assert_eq!(inbox.pop_blocking(Duration::from_millis(1)), None);
        producers.into_iter().for_each(|thread| thread.join().expect("a producer panicked"));
    }
}
