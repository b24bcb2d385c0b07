//! Connections and datagrams in memory, and the bytes that are under way on them.

use crate::sim::{Act, Connect, Link, Wire, World};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Where an event delivers something: to a connection or to a UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Connection(u32),
    Port(u32),
}

/// All connections and ports. Each is found by its number, and numbers are never reused.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) world: Option<Rc<RefCell<dyn World>>>,
    connections: Vec<Option<Connection>>,
    ports: Vec<Option<BoundPort>>,
    wire: Wire,
    /// The arrivals that the last call scheduled. The executor moves them into its queue of events.
    pub(crate) later: Vec<(Duration, Due)>,
}

#[derive(Default)]
struct Connection {
    under_way: VecDeque<Act>,
    /// When the last of the acts under way arrives. Later acts do not overtake it.
    last: Duration,
    arrived: VecDeque<u8>,
    finished: bool,
    reset: bool,
    reader: Option<Waker>,
}

impl Connection {
    /// Whether the peer has sent bytes that the engine has not read.
    fn is_unread(&self) -> bool {
        !self.arrived.is_empty() || self.under_way.iter().any(|act| matches!(act, Act::Bytes(_)))
    }
}

struct BoundPort {
    peer: SocketAddr,
    under_way: VecDeque<Vec<u8>>,
    arrived: VecDeque<Vec<u8>>,
    reader: Option<Waker>,
}

impl Net {
    pub(crate) fn of(world: Rc<RefCell<dyn World>>) -> Net {
        Net { world: Some(world), ..Net::default() }
    }

    /// The number of connections that the engine has not closed.
    pub(crate) fn open_connections(&self) -> usize {
        self.connections.iter().flatten().count()
    }

    pub(crate) fn connect(&mut self, to: SocketAddr, now: Duration) -> (u32, Connect) {
        let id = self.connections.len() as u32;
        self.connections.push(Some(Connection::default()));
        let connect = self.ask(id, now, |world, link, wire| world.connect(link, to, wire));
        (id, connect)
    }

    pub(crate) fn write(&mut self, id: u32, bytes: &[u8], now: Duration) -> io::Result<()> {
        match &self.connections[id as usize] {
            Some(connection) if !connection.reset => {}
            _ => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        self.ask(id, now, |world, link, wire| world.on_bytes(link, bytes, wire));
        Ok(())
    }

    pub(crate) fn drop_connection(&mut self, id: u32, now: Duration) {
        let is_unread = self.connections[id as usize].take().is_some_and(|it| it.is_unread());
        self.ask(id, now, |world, link, _| world.hung_up(link, is_unread));
    }

    /// Lets the world react to something on a connection, and schedules the arrival of whatever it sends.
    fn ask<T>(&mut self, id: u32, now: Duration, act: impl FnOnce(&mut dyn World, Link, &mut Wire) -> T) -> T
    where
        T: Default,
    {
        let Some(world) = self.world.clone() else { return T::default() };
        let done = act(&mut *world.borrow_mut(), Link { id, now }, &mut self.wire);
        let Some(connection) = &mut self.connections[id as usize] else {
            self.wire.0.clear();
            return done;
        };
        for (after, act) in self.wire.0.drain(..) {
            connection.last = connection.last.max(now + after);
            connection.under_way.push_back(act);
            self.later.push((connection.last, Due::Connection(id)));
        }
        done
    }

    pub(crate) fn read(
        &mut self,
        id: u32,
        buffer: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(connection) = &mut self.connections[id as usize] else { return Poll::Ready(Ok(0)) };
        if connection.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if connection.arrived.is_empty() && !connection.finished {
            connection.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = connection.arrived.len().min(buffer.capacity());
        buffer.extend(connection.arrived.drain(..count));
        Poll::Ready(Ok(count))
    }

    pub(crate) fn open_port(&mut self, peer: SocketAddr) -> u32 {
        let (under_way, arrived) = (VecDeque::new(), VecDeque::new());
        self.ports.push(Some(BoundPort { peer, under_way, arrived, reader: None }));
        self.ports.len() as u32 - 1
    }

    pub(crate) fn drop_port(&mut self, id: u32) {
        self.ports[id as usize] = None;
    }

    pub(crate) fn send(&mut self, id: u32, datagram: &[u8], now: Duration) {
        let (Some(world), Some(port)) = (self.world.clone(), &mut self.ports[id as usize]) else { return };
        for (after, answer) in world.borrow_mut().datagram(now, port.peer, datagram) {
            // The answers on one socket keep the order in which they were sent. Other orders need not be tried here, because the
            // executor draws the order of the tasks that send the questions.
            port.under_way.push_back(answer);
            self.later.push((now + after, Due::Port(id)));
        }
    }

    pub(crate) fn receive(&mut self, id: u32, context: &Context<'_>) -> Poll<Vec<u8>> {
        let Some(port) = &mut self.ports[id as usize] else { return Poll::Pending };
        match port.arrived.pop_front() {
            Some(datagram) => Poll::Ready(datagram),
            None => {
                port.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Delivers what has been under way for the longest time. Returns the waker of the task that waits for it, if there is one.
    pub(crate) fn arrive(&mut self, due: Due) -> Option<Waker> {
        match due {
            Due::Connection(id) => {
                let connection = self.connections[id as usize].as_mut()?;
                match connection.under_way.pop_front()? {
                    Act::Bytes(bytes) => connection.arrived.extend(bytes),
                    Act::Finish => connection.finished = true,
                    Act::Reset => connection.reset = true,
                }
                connection.reader.take()
            }
            Due::Port(id) => {
                let port = self.ports[id as usize].as_mut()?;
                port.arrived.push_back(port.under_way.pop_front()?);
                port.reader.take()
            }
        }
    }
}
