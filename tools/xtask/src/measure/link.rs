//! A link with a delay: two network namespaces, each with one TUN device. This process forwards packets between them
//! and delays each by half a round trip. It is for kernels without netem.

#![expect(unsafe_code, reason = "a TUN device is attached by an ioctl that no safe wrapper here knows")]

use crate::failure::{Context, Failure};
use crate::isolation::{Namespace, ip};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The start of the namespaces' names, before the pid of the run.
const PREFIX: &str = "mailprobe-line-";
/// The name of the device in each namespace.
const DEVICE: &str = "line0";
/// The largest packet in bytes.
const MTU: usize = 1500;

/// The two namespaces, which are deleted on drop.
pub struct DelayedLink {
    /// The namespace of the client.
    pub near: Namespace,
    /// The namespace of the servers.
    pub far: Namespace,
}

/// The address of the client's namespace.
pub const NEAR: &str = "10.76.0.2";
/// The address of the servers' namespace.
pub const FAR: &str = "10.76.0.1";
/// A network in the servers' namespace.
pub const BEHIND: &str = "10.78.0.0/16";

impl DelayedLink {
    /// Creates the namespaces and starts to forward packets, each with this delay.
    ///
    /// # Errors
    ///
    /// A command of `ip` or the TUN device fails, which needs root.
    pub fn make(delay: Duration) -> Result<DelayedLink, Failure> {
        let pid = std::process::id();
        let [near, far] = ["near", "far"].map(|side| Namespace(format!("{PREFIX}{pid}-{side}")));
        let line = DelayedLink { near, far };
        for (Namespace(space), address, peer) in [(&line.near, NEAR, FAR), (&line.far, FAR, NEAR)] {
            ip(&format!("netns add {space}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} tuntap add dev {DEVICE} mode tun"))?;
            ip(&format!("-n {space} address add {address} peer {peer} dev {DEVICE}"))?;
            ip(&format!("-n {space} link set {DEVICE} up mtu {MTU} txqueuelen 10000"))?;
        }
        ip(&format!("-n {} route add {BEHIND} dev {DEVICE}", line.near.0))?;
        ip(&format!("-n {} route add local {BEHIND} dev lo", line.far.0))?;
        let (near, far) = (attach(&line.near)?, attach(&line.far)?);
        let both = |file: &File| file.try_clone().map_err(Failure::of);
        carry(both(&near)?, both(&far)?, delay);
        carry(far, near, delay);
        Ok(line)
    }
}

impl Drop for DelayedLink {
    fn drop(&mut self) {
        for Namespace(space) in [&self.near, &self.far] {
            // If the creation failed, there is nothing to delete.
            let _ = ip(&format!("netns delete {space}"));
        }
    }
}

/// The file descriptor of the device.
fn attach(space: &Namespace) -> Result<File, Failure> {
    space.inside(|| {
        let path = Path::new("/dev/net/tun");
        let file = OpenOptions::new().read(true).write(true).open(path).at(path)?;
        tun(&file, DEVICE).at(path)?;
        Ok(file)
    })
}

/// The kernel's `struct ifreq` for TUNSETIFF.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

fn tun(file: &File, name: &str) -> std::io::Result<()> {
    let mut request = InterfaceRequest {
        name: [0; 16],
        flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        rest: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the descriptor is open, and the kernel reads and writes one `struct ifreq`, which `request` is.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Forwards packets in one direction until the devices are deleted.
fn carry(mut from: File, to: File, delay: Duration) {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut packet = [0; MTU];
        while let Ok(length) = from.read(&mut packet) {
            if sender.send((Instant::now() + delay, packet[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || deliver(&receiver, to));
}

fn deliver(packets: &Receiver<(Instant, Vec<u8>)>, mut to: File) {
    for (due, packet) in packets {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&packet).is_err() {
            return;
        }
    }
}
