//! A TCP proxy between a node and the server: it can stop to forward, and it can end all connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forwarding,
    Paused,
    Cut,
}

struct State {
    mode: Mode,
    streams: Vec<TcpStream>,
}

/// The proxy. Its threads end with its connections, and the one that accepts them with the process.
#[derive(Clone)]
pub struct Link {
    /// The port on 127.0.0.1.
    pub port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Link {
    pub fn to(server: &str) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { mode: Mode::Forwarding, streams: Vec::new() };
        let link = Link { port, state: Arc::new((Mutex::new(state), Condvar::new())) };
        let (shared, server) = (link.clone(), server.to_owned());
        thread::spawn(move || {
            listener.incoming().flatten().for_each(|client| shared.connect(client, &server))
        });
        link
    }

    /// Forwards nothing from now on. The connections stay open, and keep what they get.
    pub fn pause(&self) {
        self.set(Mode::Paused);
    }

    /// Forwards again, also what came meanwhile.
    pub fn resume(&self) {
        self.set(Mode::Forwarding);
    }

    /// Ends all connections, and each new one.
    pub fn cut(&self) {
        self.set(Mode::Cut);
        for stream in self.state.0.lock().unwrap().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn set(&self, mode: Mode) {
        self.state.0.lock().unwrap().mode = mode;
        self.state.1.notify_all();
    }

    /// Waits while the link is paused; returns whether it forwards.
    fn forwards(&self) -> bool {
        let paused = |state: &mut State| state.mode == Mode::Paused;
        let state = self.state.1.wait_while(self.state.0.lock().unwrap(), paused).unwrap();
        state.mode == Mode::Forwarding
    }

    fn connect(&self, client: TcpStream, server: &str) {
        let server = TcpStream::connect(server).unwrap();
        let mut state = self.state.0.lock().unwrap();
        if state.mode == Mode::Cut {
            return;
        }
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            state.streams.push(stream.try_clone().unwrap());
        }
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (link, from, to) = (self.clone(), from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || link.forward(from, to));
        }
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            if !self.forwards() || count == 0 || to.write_all(&buffer[..count]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
