//! Implements the runtime traits of the engine with glommio, which needs io_uring.
//!
//! All tasks are in one task queue, and the preempt timer keeps its default, because with other settings glommio 0.9.0 can go to
//! sleep although tasks could run. If a shard falls asleep all the same, the watchdog wakes it.

#![expect(
    unsafe_code,
    reason = "glommio takes sockets that are not its own, and shows its own, only as raw descriptors"
)]

use super::{
    ByteStream, DatagramSocket, Rented, Runtime, caught, deadlines, receive_now, send_now, send_segments,
    tcp_socket, timed_out, udp_socket,
};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio_crate::timer::Timer;
use glommio_crate::{GlommioError, LocalExecutorBuilder, Placement};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd};
use std::time::{Duration, Instant};

pub(crate) struct Glommio;

/// Memory of an executor for registered buffers. glommio's default is 10 MiB, but the engine uses no registered buffers.
const IO_MEMORY_BYTES: usize = 64 * 1024;

impl Runtime for Glommio {
    type Stream = glommio_crate::net::TcpStream;
    type Datagrams = glommio_crate::net::UdpSocket;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        glommio_crate::spawn_local(caught(task)).detach();
    }

    async fn sleep(time: Duration) {
        Timer::new(time).await;
    }

    fn before<F: Future>(deadline: Instant, future: F) -> impl Future<Output = Option<F::Output>> {
        deadlines::before::<Glommio, F>(deadline, future)
    }

    async fn connect(
        source: Option<IpAddr>,
        destination: SocketAddr,
        deadline: Instant,
    ) -> io::Result<Self::Stream> {
        let socket = tcp_socket(socket2::Type::STREAM, source, destination)?;
        // glommio has no way to connect a `TcpStream` from a socket of ours, but its `UdpSocket` can connect any socket. So a
        // `UdpSocket` gets a duplicate of the descriptor, makes the connection, and then closes the duplicate.
        let lent = socket.try_clone()?.into_raw_fd();
        // SAFETY: `lent` is open, ours alone, and given away here.
        let connector = unsafe { glommio_crate::net::UdpSocket::from_raw_fd(lent) };
        match Self::before(deadline, connector.connect(destination)).await {
            None => return Err(timed_out()),
            Some(done) => done.map_err(io_error)?,
        }
        // SAFETY: the descriptor is open, ours alone, and given away here.
        Ok(unsafe { glommio_crate::net::TcpStream::from_raw_fd(socket.into_raw_fd()) })
    }

    fn datagrams(peer: SocketAddr) -> io::Result<Self::Datagrams> {
        let socket = udp_socket(peer)?;
        // SAFETY: the descriptor is open, ours alone, and given away here.
        Ok(unsafe { glommio_crate::net::UdpSocket::from_raw_fd(socket.into_raw_fd()) })
    }
}

impl ByteStream for glommio_crate::net::TcpStream {
    async fn read(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        buffer.resize(buffer.capacity(), 0);
        let done = Glommio::before(deadline, AsyncReadExt::read(self, &mut buffer)).await;
        let result = done.unwrap_or_else(|| Err(timed_out()));
        buffer.truncate(*result.as_ref().unwrap_or(&0));
        (result, buffer)
    }

    async fn write(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<()> {
        let done = Glommio::before(deadline, self.write_all(&buffer)).await;
        buffer.clear();
        (done.unwrap_or_else(|| Err(timed_out())), buffer)
    }
}

impl DatagramSocket for glommio_crate::net::UdpSocket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        send_now(borrowed(self), datagram)
    }

    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()> {
        send_segments(borrowed(self), datagrams, length)
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        receive_now(borrowed(self), buffer)
    }

    async fn receive(&self, mut buffer: Vec<u8>) -> Rented<usize> {
        buffer.resize(buffer.capacity(), 0);
        let result = self.recv(&mut buffer).await.map_err(io_error);
        buffer.truncate(*result.as_ref().unwrap_or(&0));
        (result, buffer)
    }
}

fn borrowed(socket: &glommio_crate::net::UdpSocket) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as `socket` lives, which the borrow does not outlast.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}

/// Runs `main` on this thread until `main` ends.
///
/// # Errors
/// The error of the kernel, if it gives no ring.
pub(crate) fn run(main: impl Future<Output = ()> + 'static) -> io::Result<()> {
    let executor =
        LocalExecutorBuilder::new(Placement::Unbound).io_memory(IO_MEMORY_BYTES).make().map_err(io_error)?;
    executor.run(async {
        main.await;
        deadlines::clear();
    });
    Ok(())
}

fn io_error<T>(error: GlommioError<T>) -> io::Error {
    match error {
        GlommioError::IoError(error) => error,
        GlommioError::EnhancedIoError { source, .. } => source,
        other => io::Error::other(other.to_string()),
    }
}
