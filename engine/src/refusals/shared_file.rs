//! The file of the table of refused recipients (`table.rs`), which several runs share. A *run* is one process with an engine. This
//! module reserves the disk blocks of the file, maps it into memory, and locks it.
//!
//! Each lock is on a single byte and belongs to the open file (`F_OFD_SETLK`), so the kernel releases the lock when the run ends,
//! in whatever way. Each run has a number, and locks the byte with this number as long as it lives. Two further bytes are locked
//! for short times.

use super::table::{MAGIC, MAGIC_AT, TableFault, VERSION, VERSION_AT, bytes};
use engine_proto::limits::{REFUSALS_RUNS_MAX, REFUSALS_SITES_MAX};
use memmap2::MmapRaw;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The run that has locked this byte may change which sites and runs are in the table.
const CHANGE_BYTE: usize = REFUSALS_RUNS_MAX;
/// The run that has locked this byte may store the counts elsewhere ([`super::RefusalTable::write`]).
const WRITES_BYTE: usize = REFUSALS_RUNS_MAX + 1;
/// How long a thread keeps trying to get a lock without sleeping, before it begins to sleep between tries.
const SPIN: Duration = Duration::from_micros(50);
/// How long it then sleeps between two tries.
const PAUSE: Duration = Duration::from_micros(200);

/// File systems that several machines, or a machine and its guests, may share. There, mapped memory and locks may work only within
/// one machine. The numbers are those of statfs(2).
const NETWORK_FILE_SYSTEMS: &[(u32, &str)] = &[
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x1983_0326, "BeeGFS"),
    (0x4750_4653, "GPFS"),
    (0x6573_5546, "FUSE"),
];

#[derive(Debug)]
pub(super) struct SharedFile {
    file: Arc<File>,
    /// The number of this run. `None` before [`SharedFile::claim`].
    run: Option<usize>,
}

/// A lock on one byte. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct ByteLock {
    file: Arc<File>,
    byte: usize,
}

impl SharedFile {
    /// The longest wait for [`CHANGE_BYTE`] while the engine runs.
    pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_millis(20);
    /// The longest wait for [`CHANGE_BYTE`] when a run begins or ends.
    pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

    /// Opens the file. With `may_create`, creates a missing file.
    pub(super) fn open(path: &Path, may_create: bool) -> Result<SharedFile, TableFault> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(may_create).truncate(false).mode(0o600);
        // The path may lead to a device, and without this flag, opening some devices (a serial line, for example) would wait.
        let opened = options.custom_flags(libc::O_NONBLOCK).open(path);
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound if !may_create => TableFault::Missing,
            ErrorKind::IsADirectory => TableFault::Foreign,
            _ => TableFault::Io(error),
        })?;
        if !file.metadata()?.is_file() {
            return Err(TableFault::Foreign);
        }
        let kind = fstatfs(&file).map_err(io::Error::from)?.f_type as u32;
        if let Some((_, name)) = NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == kind) {
            return Err(TableFault::Unsupported(format!("it is on a network file system ({name})")));
        }
        Ok(SharedFile { file: Arc::new(file), run: None })
    }

    /// Locks [`CHANGE_BYTE`]. A run usually keeps this lock for microseconds, but for longer when the run begins or ends, or if its
    /// process is suspended (SIGSTOP) meanwhile.
    pub(super) fn begin_change(&self, timeout: Duration) -> Result<ByteLock, TableFault> {
        self.lock_within(CHANGE_BYTE, timeout)
    }

    /// Locks [`WRITES_BYTE`].
    pub(super) fn begin_write(&self, timeout: Duration) -> Result<ByteLock, TableFault> {
        self.lock_within(WRITES_BYTE, timeout)
    }

    /// The other runs that are alive now, as a bit for each.
    pub(super) fn others(&self) -> Result<u64, TableFault> {
        let mut alive = 0;
        for run in (0..REFUSALS_RUNS_MAX).filter(|&run| self.run != Some(run)) {
            if self.lock(run)? {
                self.unlock(run);
            } else {
                alive |= 1 << run;
            }
        }
        Ok(alive)
    }

    /// Takes a free number for this run: locks the byte, and reserves the disk blocks of the run's words. `alive`: the numbers of
    /// other runs, as bits.
    pub(super) fn claim(&mut self, alive: u64) -> Result<usize, TableFault> {
        let free = (0..REFUSALS_RUNS_MAX).find(|run| alive & 1 << run == 0).ok_or(TableFault::Full)?;
        if !self.lock(free)? {
            return Err(TableFault::Busy);
        }
        self.run = Some(free);
        let (begin, end) = (bytes(REFUSALS_SITES_MAX, free), bytes(REFUSALS_SITES_MAX, free + 1));
        self.reserve(begin, end)?;
        Ok(free)
    }

    /// Checks the file, makes an empty table in it if it has none, and maps the file into memory. A table of another version is
    /// replaced by an empty one, unless other runs use it (`in_use`).
    pub(super) fn map(&self, in_use: bool) -> Result<MmapRaw, TableFault> {
        let length = bytes(REFUSALS_SITES_MAX, REFUSALS_RUNS_MAX) as u64;
        let found = self.file.metadata()?.len();
        let header = |index: usize| -> io::Result<u64> {
            let mut word = [0; 8];
            match self.file.read_exact_at(&mut word, (index * size_of::<u64>()) as u64) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read.map(|()| u64::from_ne_bytes(word)),
            }
        };
        let (magic, version) = (header(MAGIC_AT)?, header(VERSION_AT)?);
        // A run that was killed in `make` has left the file empty, or without the magic number, which is written last.
        let is_new = found == 0 || found == length && magic == 0 && (version == 0 || version == VERSION);
        match (magic == MAGIC, version == VERSION) {
            (true, true) if found == length => {}
            (true, false) if in_use && version != 0 => return Err(TableFault::OtherVersion),
            (true, false) if version != 0 => self.make(length)?,
            _ if is_new && !in_use => self.make(length)?,
            _ => return Err(TableFault::Foreign),
        }
        memmap2::MmapOptions::new().len(length as usize).map_raw(&*self.file).map_err(|error| {
            TableFault::Unsupported(format!("its file system cannot map it into memory: {error}"))
        })
    }

    /// Makes an empty table in the file. The magic number is written last, so only complete tables have it.
    fn make(&self, length: u64) -> Result<(), TableFault> {
        self.file.set_len(0)?;
        self.file.set_len(length)?;
        self.reserve(0, bytes(REFUSALS_SITES_MAX, 0))?;
        self.file.write_all_at(&VERSION.to_ne_bytes(), (VERSION_AT * size_of::<u64>()) as u64)?;
        self.file.write_all_at(&MAGIC.to_ne_bytes(), (MAGIC_AT * size_of::<u64>()) as u64)?;
        Ok(())
    }

    /// Reserves disk blocks for these bytes. Without a block, a write to the mapped memory would kill the process if the disk is
    /// full.
    fn reserve(&self, begin: usize, end: usize) -> Result<(), TableFault> {
        match fallocate(&*self.file, FallocateFlags::empty(), begin as u64, (end - begin) as u64) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                // The file system cannot reserve blocks. Writing all bytes with their present values allocates the blocks.
                let mut block = vec![0; 64 << 10];
                for at in (begin..end).step_by(block.len()) {
                    let part = block.len().min(end - at);
                    self.file.read_exact_at(&mut block[..part], at as u64)?;
                    self.file.write_all_at(&block[..part], at as u64)?;
                }
                Ok(())
            }
            reserved => reserved.map_err(|error| TableFault::Io(error.into())),
        }
    }

    fn lock_within(&self, byte: usize, timeout: Duration) -> Result<ByteLock, TableFault> {
        let began = Instant::now();
        loop {
            if self.lock(byte)? {
                return Ok(ByteLock { file: Arc::clone(&self.file), byte });
            }
            match began.elapsed() {
                waited if waited > timeout => return Err(TableFault::Busy),
                waited if waited > SPIN => thread::sleep(PAUSE),
                _ => thread::yield_now(),
            }
        }
    }

    /// Tries to lock a byte. False if another run has locked it.
    fn lock(&self, byte: usize) -> Result<bool, TableFault> {
        match set_lock(&self.file, libc::F_WRLCK, byte) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(TableFault::Unsupported(format!("its file system has no locks: {error}"))),
        }
    }

    pub(super) fn unlock(&self, byte: usize) {
        unlock(&self.file, byte);
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        unlock(&self.file, self.byte);
    }
}

fn unlock(file: &File, byte: usize) {
    // This should never fail. If it does, the lock lasts until the file is closed.
    if let Err(error) = set_lock(file, libc::F_UNLCK, byte) {
        tracing::warn!("a lock on the counts of refused recipients cannot be released: {error}");
    }
}

#[expect(unsafe_code, reason = "locks of an open file on byte ranges have no safe wrapper")]
fn set_lock(file: &File, kind: libc::c_int, byte: usize) -> io::Result<()> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open as long as `file`, and the call only reads `range`.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
