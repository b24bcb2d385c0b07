//! A runtime with hosts and resolvers in memory: tasks, timers and the clock are those of another runtime, but there are no
//! sockets. It serves to measure what a shard costs on that runtime without the network code of the kernel.
//!
//! The hosts and resolvers live on the thread of the shard. They answer within the call that writes to them.

use super::{ByteStream, DatagramSocket, Rented, Runtime, timed_out};
use futures_lite::future::yield_now;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The hosts and resolvers of one shard. They are created on the thread of the shard: see [`crate::sim::start_in_memory`].
pub trait MemoryPeers {
    /// Called when the engine connects to `to`. The engine first reads what this call adds to `greeting`.
    fn connect(&mut self, to: SocketAddr, greeting: &mut Vec<u8>) -> Box<dyn MemoryHost>;
    /// Called when the engine asks a resolver. Returns the answer, if there is one.
    fn datagram(&mut self, payload: &[u8]) -> Option<Vec<u8>>;
}

/// One connection of the engine, from the side of the host.
pub trait MemoryHost {
    /// Called when the engine sends `bytes`. The engine then reads what this call adds to `replies`.
    fn on_bytes(&mut self, bytes: &[u8], replies: &mut Vec<u8>);
}

thread_local! {
    static PEERS: RefCell<Option<Box<dyn MemoryPeers>>> = const { RefCell::new(None) };
}

/// Sets the hosts and resolvers of this thread.
pub(crate) fn populate(peers: Box<dyn MemoryPeers>) {
    PEERS.set(Some(peers));
}

fn ask<T>(question: impl FnOnce(&mut dyn MemoryPeers) -> T) -> io::Result<T> {
    PEERS.with_borrow_mut(|peers| match peers {
        Some(peers) => Ok(question(&mut **peers)),
        None => Err(io::ErrorKind::NetworkUnreachable.into()),
    })
}

pub(crate) struct Memory<R>(PhantomData<R>);

pub(crate) struct MemoryStream<R> {
    host: Box<dyn MemoryHost>,
    arrived: Vec<u8>,
    runtime: PhantomData<R>,
}

#[derive(Default)]
pub(crate) struct MemoryDatagrams {
    arrived: RefCell<VecDeque<Vec<u8>>>,
    reader: RefCell<Option<Waker>>,
}

impl<R: Runtime> Runtime for Memory<R> {
    type Stream = MemoryStream<R>;
    type Datagrams = MemoryDatagrams;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        R::spawn(task);
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> {
        R::sleep(time)
    }

    fn now() -> Instant {
        R::now()
    }

    fn before<F: Future>(deadline: Instant, future: F) -> impl Future<Output = Option<F::Output>> {
        R::before(deadline, future)
    }

    async fn connect(
        _source: Option<IpAddr>,
        destination: SocketAddr,
        _deadline: Instant,
    ) -> io::Result<Self::Stream> {
        yield_now().await;
        let mut arrived = Vec::new();
        let host = ask(|peers| peers.connect(destination, &mut arrived))?;
        Ok(MemoryStream { host, arrived, runtime: PhantomData })
    }

    fn datagrams(_peer: SocketAddr) -> io::Result<Self::Datagrams> {
        Ok(MemoryDatagrams::default())
    }
}

impl<R: Runtime> ByteStream for MemoryStream<R> {
    async fn read(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        // Lets other tasks run first, as they would while a packet is under way.
        yield_now().await;
        if self.arrived.is_empty() {
            // The host sends nothing before the engine writes again, so this read can only end at its deadline.
            R::sleep(deadline.saturating_duration_since(R::now())).await;
            return (Err(timed_out()), buffer);
        }
        let count = self.arrived.len().min(buffer.capacity());
        buffer.extend(self.arrived.drain(..count));
        (Ok(count), buffer)
    }

    async fn write(&mut self, mut buffer: Vec<u8>, _deadline: Instant) -> Rented<()> {
        self.host.on_bytes(&buffer, &mut self.arrived);
        buffer.clear();
        (Ok(()), buffer)
    }
}

impl DatagramSocket for MemoryDatagrams {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        if let Some(answer) = ask(|peers| peers.datagram(datagram))? {
            self.arrived.borrow_mut().push_back(answer);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        Ok(())
    }

    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()> {
        datagrams.chunks(usize::from(length)).try_for_each(|datagram| self.send(datagram))
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.arrived.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let count = datagram.len().min(buffer.len());
        buffer[..count].copy_from_slice(&datagram[..count]);
        Ok(count)
    }

    async fn receive(&self, mut buffer: Vec<u8>) -> Rented<usize> {
        let datagram = poll_fn(|context| match self.arrived.borrow_mut().pop_front() {
            Some(datagram) => Poll::Ready(datagram),
            None => {
                self.reader.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        let count = datagram.len().min(buffer.capacity());
        buffer.extend_from_slice(&datagram[..count]);
        (Ok(count), buffer)
    }
}
