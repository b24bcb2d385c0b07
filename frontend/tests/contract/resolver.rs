//! A resolver that can fall silent: what it is asked goes on to the mail internet's, or nowhere.

use crate::world::net;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Resolver {
    pub address: SocketAddr,
    answers: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// One that does not answer.
    pub fn silent() -> Resolver {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (answers, ends) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (answering, ending) = (answers.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            while !ending.load(Ordering::SeqCst) {
                forward(&socket, answering.load(Ordering::SeqCst));
            }
        });
        Resolver { address, answers, ends, thread: Some(thread) }
    }

    pub fn answer(&self, answer: bool) {
        self.answers.store(answer, Ordering::SeqCst);
    }
}

fn forward(socket: &UdpSocket, answer: bool) {
    let mut message = [0; 4096];
    let Ok((length, client)) = socket.recv_from(&mut message) else { return };
    if !answer {
        return;
    }
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    upstream.connect(net().dns()).unwrap();
    upstream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    upstream.send(&message[..length]).unwrap();
    if let Ok(length) = upstream.recv(&mut message) {
        socket.send_to(&message[..length], client).unwrap();
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
