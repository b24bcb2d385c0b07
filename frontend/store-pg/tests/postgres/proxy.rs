//! A proxy in front of a server: it understands where a message of the protocol ends, delays messages, and cuts the
//! connection at one of them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// How much of a message still arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    None,
    Half,
    Whole,
}

/// Where a connection is cut. Messages count from 0, from [`Proxy::arm`] on.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub way: Way,
    pub at: usize,
    pub part: Part,
    /// The server does not notice: its side stays open until the proxy is dropped.
    pub is_half: bool,
}

#[derive(Default)]
struct Plan {
    cut: Option<Cut>,
    is_armed: bool,
    /// The number of connections, which is that of the last one. Only its messages count.
    connections: usize,
    seen: [usize; 2],
    was_cut: bool,
    /// Connections that stay open for the server.
    half_open: Vec<TcpStream>,
}

/// A listener that forwards its connections to the server.
pub struct Proxy {
    pub address: String,
    plan: Arc<Mutex<Plan>>,
}

impl Proxy {
    /// Listens on a port of its own. Each message arrives `delay` later.
    pub fn start(server: &str, delay: Duration) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (server, shared) = (server.to_owned(), Arc::clone(&plan));
        // The thread ends with the process: a test has few proxies.
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let server = TcpStream::connect(&server).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let connection = {
                    let mut plan = shared.lock().unwrap();
                    plan.connections += 1;
                    plan.connections
                };
                for (way, from, to) in [(Way::ToServer, &client, &server), (Way::ToClient, &server, &client)]
                {
                    Forwarding { connection, way, plan: Arc::clone(&shared), delay }.start(from, to);
                }
            }
        });
        Proxy { address, plan }
    }

    /// Counts messages from now on, and cuts at one of them.
    pub fn arm(&self, cut: Option<Cut>) {
        let mut plan = self.plan.lock().unwrap();
        let half_open = std::mem::take(&mut plan.half_open);
        *plan = Plan { cut, is_armed: true, connections: plan.connections, half_open, ..Plan::default() };
    }

    /// The messages since [`Proxy::arm`], to the server and to the client.
    pub fn seen(&self) -> [usize; 2] {
        self.plan.lock().unwrap().seen
    }

    /// Whether the connection was cut.
    pub fn was_cut(&self) -> bool {
        self.plan.lock().unwrap().was_cut
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for stream in &self.plan.lock().unwrap().half_open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// One direction of a connection.
struct Forwarding {
    connection: usize,
    way: Way,
    plan: Arc<Mutex<Plan>>,
    delay: Duration,
}

impl Forwarding {
    fn start(self, from: &TcpStream, to: &TcpStream) {
        let (queue, queued) = channel();
        let (reader, way) = (from.try_clone().unwrap(), self.way);
        let [from, writer] = [from, to].map(|stream| stream.try_clone().unwrap());
        thread::spawn(move || read_messages(way, reader, &queue));
        thread::spawn(move || self.write_messages(&from, writer, &queued));
    }

    fn write_messages(&self, from: &TcpStream, mut to: TcpStream, queued: &Receiver<(Instant, Vec<u8>)>) {
        for (came, message) in queued {
            thread::sleep((came + self.delay).saturating_duration_since(Instant::now()));
            let cut = self.count();
            let length = match cut.map_or(Part::Whole, |cut| cut.part) {
                Part::None => 0,
                Part::Half => message.len() / 2,
                Part::Whole => message.len(),
            };
            if cut.is_some() && self.way == Way::ToServer {
                // The client is cut off first, or the answer to this message could still reach it.
                let _ = from.shutdown(Shutdown::Both);
            }
            let written = to.write_all(&message[..length]);
            if let Some(cut) = cut {
                self.sever(cut, from, &to);
                return;
            }
            if written.is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Counts a message; returns the cut if it is here. The cut is noted at once: the group may end as soon as the message has
    /// been written, before the connection is severed.
    fn count(&self) -> Option<Cut> {
        let mut plan = self.plan.lock().unwrap();
        if !plan.is_armed || plan.connections != self.connection {
            return None;
        }
        let seen = &mut plan.seen[self.way as usize];
        let at = *seen;
        *seen += 1;
        let cut = plan.cut.filter(|cut| cut.way == self.way && cut.at == at);
        plan.was_cut |= cut.is_some();
        cut
    }

    fn sever(&self, cut: Cut, from: &TcpStream, to: &TcpStream) {
        let (client, server) = if self.way == Way::ToServer { (from, to) } else { (to, from) };
        let _ = client.shutdown(Shutdown::Both);
        if cut.is_half {
            self.plan.lock().unwrap().half_open.push(server.try_clone().unwrap());
        } else {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

/// Passes on one message after another, with the time at which it came.
fn read_messages(way: Way, mut from: TcpStream, queue: &Sender<(Instant, Vec<u8>)>) {
    // The first message of a client has no type.
    let mut has_type = way == Way::ToClient;
    while let Ok(message) = read_message(&mut from, has_type) {
        has_type = true;
        if queue.send((Instant::now(), message)).is_err() {
            return;
        }
    }
}

fn read_message(from: &mut TcpStream, has_type: bool) -> io::Result<Vec<u8>> {
    let start = usize::from(has_type);
    let mut message = vec![0; start + 4];
    from.read_exact(&mut message)?;
    let length = u32::from_be_bytes(message[start..].try_into().unwrap()) as usize;
    message.resize(start + length, 0);
    from.read_exact(&mut message[start + 4..])?;
    Ok(message)
}
