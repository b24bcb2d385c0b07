//! A SOCKS5 server (RFC 1928, RFC 1929) that works, or fails in the manner that a test selects.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Serves every client without authentication.
    Open,
    /// Requires the user name `user` and the password `secret`.
    Login,
    /// Like `Login`, but sends its replies byte by byte, and the last one together with the host's greeting.
    Odd,
    ClosesAtGreeting,
    HangsAtGreeting,
    SpeaksHttp,
    ClosesAtLogin,
    ClosesAtConnect,
    /// Answers CONNECT with this code.
    Replies(u8),
    /// Answers CONNECT with half of a positive reply, and closes the connection.
    CutsShort,
    GarblesReply,
}

pub struct Socks {
    pub address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    asked: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Socks {
    /// Starts the server. Its threads end with the process.
    pub fn start(manner: Manner) -> Socks {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (manner, asked) = (Arc::new(Mutex::new(manner)), Arc::<Mutex<Vec<SocketAddr>>>::default());
        let (told, list) = (Arc::clone(&manner), Arc::clone(&asked));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (manner, list) = (*told.lock().expect("no panic"), Arc::clone(&list));
                // An error ends only its own connection.
                thread::spawn(move || drop(serve(client, manner, &list)));
            }
        });
        Socks { address, manner, asked }
    }

    pub fn now(&self, manner: Manner) {
        *self.manner.lock().expect("no panic") = manner;
    }

    /// The destinations to which clients asked to be connected.
    pub fn asked(&self) -> Vec<SocketAddr> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn serve(mut client: TcpStream, manner: Manner, asked: &Mutex<Vec<SocketAddr>>) -> io::Result<()> {
    let bytes = |client: &mut TcpStream, count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).map(|()| bytes)
    };
    let head = bytes(&mut client, 2)?;
    let methods = bytes(&mut client, head[1].into())?;
    let login = matches!(manner, Manner::Login | Manner::Odd | Manner::ClosesAtLogin);
    match manner {
        Manner::ClosesAtGreeting => return Ok(()),
        Manner::HangsAtGreeting => {
            thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
        Manner::SpeaksHttp => return client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        _ if login && !methods.contains(&2) => return client.write_all(&[5, 255]),
        _ => say(&mut client, manner, &[5, if login { 2 } else { 0 }])?,
    }
    if login {
        let head = bytes(&mut client, 2)?;
        let user = bytes(&mut client, head[1].into())?;
        let length = bytes(&mut client, 1)?;
        let password = bytes(&mut client, length[0].into())?;
        if manner == Manner::ClosesAtLogin {
            return Ok(());
        }
        let right = user == b"user" && password == b"secret";
        say(&mut client, manner, &[1, u8::from(!right)])?;
        if !right {
            return Ok(());
        }
    }
    let head = bytes(&mut client, 4)?;
    let address = match head[3] {
        1 => IpAddr::from(<[u8; 4]>::try_from(bytes(&mut client, 4)?).expect("four")),
        4 => IpAddr::from(<[u8; 16]>::try_from(bytes(&mut client, 16)?).expect("sixteen")),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let port = bytes(&mut client, 2)?;
    let destination = SocketAddr::new(address, u16::from_be_bytes([port[0], port[1]]));
    asked.lock().expect("no panic").push(destination);
    match manner {
        Manner::ClosesAtConnect => return Ok(()),
        Manner::Replies(code) => return client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]),
        Manner::CutsShort => return client.write_all(&[5, 0, 0, 1, 0]),
        Manner::GarblesReply => return client.write_all(b"220 mx.example ESMTP\r\n"),
        _ => {}
    }
    let Ok(mut host) = TcpStream::connect(destination) else {
        return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    };
    let mut reply = match destination.is_ipv4() {
        true => [&[5, 0, 0, 1][..], &Ipv4Addr::LOCALHOST.octets(), &[0, 25]].concat(),
        false => [&[5, 0, 0, 4][..], &Ipv6Addr::LOCALHOST.octets(), &[0, 25]].concat(),
    };
    if manner == Manner::Odd {
        let mut greeting = [0; 512];
        let length = host.read(&mut greeting)?;
        reply.extend_from_slice(&greeting[..length]);
    }
    client.write_all(&reply)?;
    let (mut from_client, mut to_host) = (client.try_clone()?, host.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Write);
    });
    io::copy(&mut host, &mut client)?;
    client.shutdown(Shutdown::Both)
}

fn say(client: &mut TcpStream, manner: Manner, bytes: &[u8]) -> io::Result<()> {
    if manner != Manner::Odd {
        return client.write_all(bytes);
    }
    client.set_nodelay(true)?;
    for byte in bytes {
        client.write_all(&[*byte])?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
