//! The seam on a virtual clock, for the simulation ([`crate::sim`]): one thread, one seed.
//!
//! The clock stands still while a task can run and then jumps to the next event. Which of the tasks that can run is
//! polled next is drawn, so that nothing may rest on their order. Connections and datagrams are in memory; at their
//! other end is the [`World`]. What a client writes reaches the world at once, and the delays of both directions lie on
//! the way back; bytes of one connection keep their order.

mod executor;
mod net;

pub(crate) use executor::{connections, drive, start, stop, submit_at, tasks};

use super::{Datagrams, Rented, Runtime, Stream, timed_out};
use crate::sim::Connect;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

pub(crate) struct Sim;

impl Runtime for Sim {
    type Stream = Connection;
    type Datagrams = Port;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        executor::spawn(Box::pin(task));
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
    ) -> io::Result<Connection> {
        let (connection, connect) = Connection::open(destination);
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

    fn datagrams(peer: SocketAddr) -> io::Result<Port> {
        Ok(Port::open(peer))
    }
}

/// A TCP connection; the world hears when it is dropped.
pub(crate) struct Connection(u32);

impl Connection {
    fn open(destination: SocketAddr) -> (Connection, Connect) {
        let (id, connect) = executor::with_net(|net, at| net.connect(destination, at));
        (Connection(id), connect)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        executor::with_net(|net, at| net.drop_connection(self.0, at));
    }
}

impl Stream for Connection {
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

/// A UDP socket that is connected to a resolver.
pub(crate) struct Port(u32);

impl Port {
    fn open(peer: SocketAddr) -> Port {
        Port(executor::with_net(|net, _| net.open_port(peer)))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        executor::with_net(|net, _| net.drop_port(self.0));
    }
}

impl Datagrams for Port {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        executor::with_net(|net, at| net.send(self.0, datagram, at));
        Ok(())
    }

    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()> {
        datagrams.chunks(usize::from(length)).try_for_each(|datagram| self.send(datagram))
    }

    /// What comes, comes one by one: which task is next is drawn anew for each.
    fn receive_now(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    async fn receive(&self, mut buffer: Vec<u8>) -> Rented<usize> {
        let datagram = poll_fn(|context| executor::with_net(|net, _| net.receive(self.0, context))).await;
        buffer.extend_from_slice(&datagram);
        (Ok(datagram.len()), buffer)
    }
}
