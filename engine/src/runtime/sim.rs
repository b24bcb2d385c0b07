//! The runtime of the simulation ([`crate::sim`]): one thread, one seed, and a virtual clock.
//!
//! The clock stands still while any task can run, and then jumps to the next event. If several tasks can run, the seed decides
//! which one is next, so that the runs try many orders of the tasks. Connections and datagrams are in memory, and lead to the
//! [`crate::sim::World`]. What the engine sends reaches the world at once; what the world sends arrives after a delay, which
//! represents the time for both directions. The bytes of one connection keep their order.

mod executor;
mod net;

pub(crate) use executor::{connections, drive, start, stop, submit_at, tasks};

use super::{ByteStream, DatagramSocket, Rented, Runtime, timed_out};
use crate::sim::Connect;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

pub(crate) struct Sim;

impl Runtime for Sim {
    type Stream = SimStream;
    type Datagrams = SimDatagrams;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        executor::spawn(Box::pin(task));
    }

    fn on_panic() {
        executor::on_panic();
    }

    async fn sleep(time: Duration) {
        executor::Timer::at(Sim::now() + time).await;
    }

    fn now() -> Instant {
        executor::now()
    }

    async fn before<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut timer = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let timer = timer.get_or_insert_with(|| executor::Timer::at(deadline));
            pin!(timer).poll(context).map(|()| None)
        })
        .await
    }

    async fn connect(
        _source: Option<IpAddr>,
        destination: SocketAddr,
        deadline: Instant,
    ) -> io::Result<SimStream> {
        let (connection, connect) = SimStream::open(destination);
        let (after, refused) = match connect {
            Connect::Open(after) => (after, false),
            Connect::Refused(after) => (after, true),
            Connect::Silent => (Duration::MAX, true),
        };
        let wait = deadline.saturating_duration_since(Sim::now());
        Sim::sleep(after.min(wait)).await;
        match (after > wait, refused) {
            (true, _) => Err(timed_out()),
            (false, true) => Err(io::ErrorKind::ConnectionRefused.into()),
            (false, false) => Ok(connection),
        }
    }

    fn datagrams(peer: SocketAddr) -> io::Result<SimDatagrams> {
        Ok(SimDatagrams::open(peer))
    }
}

/// A TCP connection. When this is dropped, the world is told.
pub(crate) struct SimStream(u32);

impl SimStream {
    fn open(destination: SocketAddr) -> (SimStream, Connect) {
        let (id, connect) = executor::with_net(|net, at| net.connect(destination, at));
        (SimStream(id), connect)
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        executor::with_net(|net, at| net.drop_connection(self.0, at));
    }
}

impl ByteStream for SimStream {
    async fn read(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        let read = poll_fn(|context| executor::with_net(|net, _| net.read(self.0, &mut buffer, context)));
        match Sim::before(deadline, read).await {
            Some(result) => (result, buffer),
            None => (Err(timed_out()), buffer),
        }
    }

    async fn write(&mut self, mut buffer: Vec<u8>, _deadline: Instant) -> Rented<()> {
        let result = executor::with_net(|net, at| net.write(self.0, &buffer, at));
        buffer.clear();
        (result, buffer)
    }
}

pub(crate) struct SimDatagrams(u32);

impl SimDatagrams {
    fn open(peer: SocketAddr) -> SimDatagrams {
        SimDatagrams(executor::with_net(|net, _| net.open_port(peer)))
    }
}

impl Drop for SimDatagrams {
    fn drop(&mut self) {
        executor::with_net(|net, _| net.drop_port(self.0));
    }
}

impl DatagramSocket for SimDatagrams {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        executor::with_net(|net, at| net.send(self.0, datagram, at));
        Ok(())
    }

    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()> {
        datagrams.chunks(usize::from(length)).try_for_each(|datagram| self.send(datagram))
    }

    /// Never returns a datagram. So the engine receives each datagram with `receive`, and after each the executor chooses the next
    /// task at random.
    fn receive_now(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    async fn receive(&self, mut buffer: Vec<u8>) -> Rented<usize> {
        let datagram = poll_fn(|context| executor::with_net(|net, _| net.receive(self.0, context))).await;
        buffer.extend_from_slice(&datagram);
        (Ok(datagram.len()), buffer)
    }
}
