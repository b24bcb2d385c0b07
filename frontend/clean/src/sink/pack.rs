//! Compressed output: gzip or Zstandard.

use super::Stream;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// Size of the window of Zstandard for parts, as a power of two: `--join` has the windows of all parts in memory.
const PART_WINDOW_LOG: u32 = 17;

/// The compression of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// No compression
    #[default]
    None,
    /// gzip (RFC 1952)
    Gzip,
    /// Zstandard (RFC 8878)
    Zstd,
}

impl Compression {
    /// The compression according to the extension of the file name.
    pub(crate) fn by_name(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// Compresses the data for `S`. [`Stream::sync`] writes the end.
pub(super) enum Packer<S: Stream> {
    Gzip(GzEncoder<S>),
    Zstd(zstd::Encoder<'static, S>),
}

impl<S: Stream> Write for Packer<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Packer::Gzip(encoder) => encoder.write(bytes),
            Packer::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Does nothing: frequent flushes compress badly, and an incomplete file is useless.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<S: Stream> Stream for Packer<S> {
    fn sync(&mut self) -> Result<()> {
        match self {
            Packer::Gzip(encoder) => {
                encoder.try_finish()?;
                encoder.get_mut().sync()
            }
            Packer::Zstd(encoder) => {
                encoder.do_finish()?;
                encoder.get_mut().sync()
            }
        }
    }
}

/// The stream, compressed if requested. `is_part`: for the file of a part.
pub(super) fn packed<S: Stream + 'static>(
    stream: S,
    compression: Compression,
    is_part: bool,
) -> Result<Box<dyn Stream>> {
    Ok(match compression {
        Compression::None => Box::new(stream),
        Compression::Gzip => {
            Box::new(Packer::Gzip(GzEncoder::new(stream, flate2::Compression::new(GZIP_LEVEL))))
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(stream, ZSTD_LEVEL)?;
            encoder.include_checksum(true)?;
            if is_part {
                encoder.window_log(PART_WINDOW_LOG)?;
            }
            Box::new(Packer::Zstd(encoder))
        }
    })
}

/// Compresses a file into another one, which is safe on the disk afterwards.
pub(super) fn pack(from: &Path, to: &Path, compression: Compression, is_part: bool) -> Result<()> {
    let mut plain = File::open(from)?;
    let mut stream = packed(File::create(to)?, compression, is_part)?;
    std::io::copy(&mut plain, &mut stream)?;
    stream.sync()
}
