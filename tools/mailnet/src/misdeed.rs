//! The misdeeds of servers, applied to one reply.

use crate::{
    connection::Wire,
    spec::{DRIP_MS, FaultSpec, Misdeed},
};
use std::{io, time::Duration};
use tokio::time::sleep;

/// The step of a session after a misdeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Hang,
    Close,
    Reset,
}

/// After this many bytes of an endless reply the session is closed.
const ENDLESS_BYTES_MAX: usize = 256 << 20;
const LONG_LINE_BYTES: usize = 64 * 1024;

/// Sends `reply` in the way of the fault.
pub(crate) async fn commit(wire: &mut Wire, fault: &FaultSpec, reply: &[u8]) -> io::Result<Next> {
    let code = String::from_utf8_lossy(reply.get(..3).unwrap_or(b"250")).into_owned();
    let spoilt: Vec<u8> = match fault.does {
        Misdeed::Hang => return Ok(Next::Hang),
        Misdeed::Close => return Ok(Next::Close),
        Misdeed::Reset => return Ok(Next::Reset),
        Misdeed::Closing => {
            wire.write(b"421 4.3.2 Service not available, closing transmission channel\r\n").await?;
            return Ok(Next::Close);
        }
        Misdeed::Truncate => {
            wire.write(&reply[..reply.len() / 2]).await?;
            return Ok(Next::Close);
        }
        Misdeed::Drip => {
            drip(wire, reply, Duration::from_millis(fault.ms.unwrap_or(DRIP_MS))).await?;
            return Ok(Next::Go);
        }
        Misdeed::EndlessLine => {
            wire.write(format!("{code} ").as_bytes()).await?;
            return endless(wire, &[b'x'; 4096]).await;
        }
        Misdeed::EndlessMultiline => {
            return endless(wire, format!("{code}-and more\r\n").repeat(256).as_bytes()).await;
        }
        Misdeed::Garbage => b"\x15\x03\x01\x00\x02\x02\x28 \xff\xfe<html>not found</html>\r\n".to_vec(),
        Misdeed::Nul => format!("{code} \0\0 nothing\0 here\r\n").into_bytes(),
        Misdeed::LongLine => [format!("{code} ").as_bytes(), &[b'x'; LONG_LINE_BYTES], b"\r\n"].concat(),
        Misdeed::MixedCodes => b"250-this went well\r\n550 and this did not\r\n".to_vec(),
        Misdeed::WrongCode => b"354 Go ahead\r\n".to_vec(),
        // The driver sends the surplus replies later.
        Misdeed::Late | Misdeed::Again => reply.to_vec(),
        Misdeed::Early if fault.ms.is_none() => [reply, &surplus(fault)].concat(),
        Misdeed::Early => {
            wire.write(reply).await?;
            sleep(pause(fault)).await;
            surplus(fault)
        }
        Misdeed::Inject => [reply, b"250 2.1.5 Ok, said in clear\r\n"].concat(),
        Misdeed::BareLf => reply.iter().copied().filter(|&byte| byte != b'\r').collect(),
        Misdeed::Reply => reply.to_vec(),
    };
    wire.write(&spoilt).await?;
    Ok(Next::Go)
}

/// The surplus replies of a fault.
pub(crate) fn surplus(fault: &FaultSpec) -> Vec<u8> {
    let text = fault.text.as_deref().unwrap_or("250 2.0.0 Ok");
    format!("{text}\r\n").repeat(fault.count as usize).into_bytes()
}

pub(crate) fn pause(fault: &FaultSpec) -> Duration {
    Duration::from_millis(fault.ms.unwrap_or_default())
}

async fn drip(wire: &mut Wire, reply: &[u8], pause: Duration) -> io::Result<()> {
    for byte in reply {
        wire.write(&[*byte]).await?;
        sleep(pause).await;
    }
    Ok(())
}

async fn endless(wire: &mut Wire, piece: &[u8]) -> io::Result<Next> {
    for _ in 0..ENDLESS_BYTES_MAX / piece.len() {
        wire.write(piece).await?;
        tokio::task::yield_now().await;
    }
    Ok(Next::Close)
}
